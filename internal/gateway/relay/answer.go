package relay

import (
	"bytes"
	"context"
	"errors"
	"io"
	"mime"
	"net/http"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"

	"securebench/internal/gateway/relay/wire"
	"securebench/internal/gateway/upstream"
)

// maxWhole bounds a response that does not come as a stream.
const maxWhole = 32 << 20

// answer passes a response of the provider's on to the agent.
func (a *Attempt) answer(ctx context.Context, w http.ResponseWriter, response *http.Response, x *exchange) *refusal {
	if response.StatusCode != http.StatusOK {
		return a.answerError(ctx, w, response, x)
	}
	if e := response.Header.Get("Content-Encoding"); e != "" && e != "identity" {
		return a.fail(errors.New("the provider compresses responses, though it was asked not to"))
	}
	switch kind, _, _ := mime.ParseMediaType(response.Header.Get("Content-Type")); kind {
	case "text/event-stream":
		a.answerStream(ctx, w, response.Body, x)
		return nil
	case "application/json":
		return a.answerWhole(w, response.Body, x)
	}
	return a.fail(errors.New("the provider answered with neither JSON nor a stream of events"))
}

// answerError passes on what the provider says against a request, but nothing
// that concerns the key.
func (a *Attempt) answerError(ctx context.Context, w http.ResponseWriter, response *http.Response, x *exchange) *refusal {
	status := response.StatusCode
	if status < 400 {
		return a.fail(errors.New("the provider answered with status " + strconv.Itoa(status) + ", which is not followed; check the base URL"))
	}
	body := readError(response)
	x.received = int64(len(body))
	code := upstream.Code(body)
	// Many servers of the API cannot count tokens; agents do without.
	uncounted := x.kind == counts && status == http.StatusNotFound && code == ""
	if upstream.Rejects(status, code) && !uncounted {
		return a.rejected(ctx, x, status, code)
	}
	body = a.relay.secrets.Bytes(body)
	if !jsontext.Value(body).IsValid() {
		return refuse(providerError, "the provider answered with status "+strconv.Itoa(status)+a.relay.endpoints[x.dialect.api].Quote(body))
	}
	if x.dialect.flat {
		status = x.dialect.stops
	}
	x.Status, x.Reason, x.why = status, providerError, string(body)
	x.response.add(body)
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Content-Length", strconv.Itoa(len(body)))
	h.Set("X-Should-Retry", "false")
	w.WriteHeader(status)
	_, _ = w.Write(body) // the agent may have left
	return nil
}

// answerWhole passes on a response that is one JSON text.
func (a *Attempt) answerWhole(w http.ResponseWriter, from io.Reader, x *exchange) *refusal {
	held := int64(0)
	defer func() { a.pool.Resize(&held, 0) }()
	body, err := a.readWhole(from, &held)
	x.received = int64(len(body))
	if x.kind != counts { // which costs nothing
		x.usage, x.exact = x.dialect.wire.Whole(body, x.sent)
	}
	switch {
	case errors.Is(err, wire.ErrTooLong):
		return refuse(responseLong, err.Error())
	case err != nil:
		x.Reason = responseCut
		panic(http.ErrAbortHandler) // the agent may repeat it
	}
	body = a.relay.secrets.Bytes(body)
	x.Status = http.StatusOK
	x.response.add(body)
	if ending, ok := x.dialect.wire.WholeEnding(body); ok && x.kind != counts {
		a.answers.answered(x, ending)
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	_, _ = w.Write(body) // the agent may have left
	if x.said != nil {
		x.said.Whole(body)
	}
	return nil
}

// readWhole reads a response. Its memory comes from the attempt's pool.
func (a *Attempt) readWhole(from io.Reader, held *int64) ([]byte, error) {
	var body bytes.Buffer
	for {
		if _, err := io.CopyN(&body, from, 32<<10); errors.Is(err, io.EOF) {
			return body.Bytes(), nil
		} else if err != nil {
			return body.Bytes(), err
		}
		if body.Len() > maxWhole || !a.pool.Resize(held, int64(body.Cap())) {
			return nil, wire.ErrTooLong
		}
	}
}

// answerStream passes on a stream of events as it arrives. A frozen agent does
// not hold up the provider at once: up to [maxQueued] bytes are read ahead.
func (a *Attempt) answerStream(ctx context.Context, w http.ResponseWriter, from io.Reader, x *exchange) {
	reading, cancel := context.WithCancel(ctx)
	defer cancel()
	q := newQueue(a.ahead)
	defer q.close()
	stream := a.stream(reading, q, x)
	defer stream.Release()
	finished := make(chan error, 1)
	go func() {
		err := a.readStream(from, stream, x)
		q.end()
		finished <- err
	}()
	x.Status = http.StatusOK
	w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
	w.Header().Set("Cache-Control", "no-cache")
	control := http.NewResponseController(w)
	w.WriteHeader(http.StatusOK)
	err := control.Flush()
	for piece := q.take(reading); piece != nil && err == nil; piece = q.take(reading) {
		if _, err = w.Write(piece); err == nil {
			err = control.Flush()
		}
	}
	// ctx ends before its children, and they in any order: the response may before reading.
	left := err != nil || ctx.Err() != nil
	cancel() // the reading, if the agent has left
	err = <-finished
	x.usage, x.exact = stream.Usage(x.sent)
	if ending, ok := stream.Ending(); ok {
		a.answers.answered(x, ending)
	}
	switch {
	case errors.Is(err, wire.ErrTooLong):
		x.Reason = responseLong
	case stream.Done(): // agents may leave before the connection ends
	case left:
		x.Reason = agentLeft
	default:
		x.Reason = responseCut
	}
	if err != nil {
		panic(http.ErrAbortHandler) // so that the agent sees that it is not whole
	}
}

// stream returns what reads a stream of events, counts what it costs and passes it on.
func (a *Attempt) stream(ctx context.Context, q *queue, x *exchange) *wire.Stream {
	return x.dialect.wire.NewStream(&a.relay.secrets, a.pool, x.hidden, func(events []byte) error {
		x.response.add(events)
		err := q.put(ctx, events)
		if x.said != nil {
			x.said.Events(events)
		}
		return err
	})
}

// readStream reads a stream until it ends. The key is removed before anything
// is counted, traced or passed on: first from the bytes, then from the texts that
// events bring in pieces.
func (a *Attempt) readStream(from io.Reader, stream *wire.Stream, x *exchange) error {
	clean := a.relay.secrets.Writer(stream)
	piece := make([]byte, 32<<10)
	for {
		n, err := from.Read(piece)
		x.received += int64(n)
		if _, err := clean.Write(piece[:n]); err != nil {
			return err
		}
		switch {
		case errors.Is(err, io.EOF):
			return errors.Join(clean.Close(), stream.Close())
		case err != nil:
			return err
		}
	}
}
