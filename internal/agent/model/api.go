package model

import (
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"securebench/internal/agent/harness"
	"securebench/internal/gateway/access"
	"securebench/internal/gateway/upstream"
)

// api is how a provider is asked.
type api struct {
	path  string // below the base URL, with MODEL where the model is in it
	query string
	ask   func(set harness.Model, q Question) any
	whole func(body []byte) (a Answer, ok bool) // reads an answer that is one JSON text
	event func(s *stream, data []byte) error    // reads an event of an answer that is a stream
}

// seed returns the seed of an answer: the question's own, else another one for each attempt,
// because attempts are independent samples; nil if there is none.
func seed(set harness.Model, q Question) *int64 {
	if q.Seed != nil || set.Seed == nil {
		return q.Seed
	}
	return new(*set.Seed + int64(q.Attempt) - 1)
}

// apiOf returns the API of a name.
func apiOf(name string) (api, error) {
	switch name {
	case access.Responses:
		return api{"/responses", "", askResponses, wholeResponse, responseEvent}, nil
	case access.Chat:
		return api{"/chat/completions", "", askChat, wholeChat, chatEvent}, nil
	case access.Messages:
		return api{"/messages", "", askMessages, wholeMessage, messageEvent}, nil
	case access.Completions:
		return api{"/completions", "", askCompletions, wholeCompletion, completionEvent}, nil
	case access.Gemini:
		return api{"/models/MODEL:streamGenerateContent", "alt=sse", askGemini, wholeGemini, geminiEvent}, nil
	}
	return api{}, fmt.Errorf("unknown API %q of a provider", name)
}

// object is a JSON object.
type object map[string]any

// contentOf returns the parts of a question as an API has them.
func contentOf(parts []harness.Part, text func(string) any, file func(harness.Part) any) []any {
	out := make([]any, 0, len(parts))
	for _, p := range parts {
		if p.Type == "" {
			out = append(out, text(p.Text))
			continue
		}
		out = append(out, file(p))
	}
	return out
}

// dataURL is a file as an address that holds it.
func dataURL(p harness.Part) string {
	return "data:" + p.Type + ";base64," + base64.StdEncoding.EncodeToString(p.Data)
}

// stream is an answer as it comes.
type stream struct {
	Answer          // its texts are of an event that has all of them
	text, reasoning strings.Builder
	pending         calls
	say             func(string)
	read            func(s *stream, data []byte) error
	complete        bool
}

// add adds a piece of the text.
func (s *stream) add(piece upstream.Text) {
	s.text.WriteString(string(piece))
	s.say(string(piece))
}

// errDone ends the reading of a stream.
var errDone = errors.New("the stream says that it is done")

// take reads an event.
func (s *stream) take(name, data []byte) error {
	switch {
	case bytes.HasPrefix(data, []byte("[DONE]")):
		return errDone
	case string(name) == "error" || tellsError(data):
		return &eventError{bytes.Clone(data)}
	}
	return s.read(s, data)
}

// tellsError reports whether a JSON text tells an error.
func tellsError(data []byte) bool {
	var e struct {
		Type  jsontext.Value `json:"type"`
		Error jsontext.Value `json:"error"`
	}
	return upstream.Decode(data, &e) == nil && (string(e.Type) == `"error"` || len(e.Error) > 0 && e.Error.Kind() != 'n')
}

// read reads a response to a question. What came of an answer is returned with an
// error, too.
func (c *Client) read(response *http.Response, say func(string)) (Answer, error) {
	form, _, _ := mime.ParseMediaType(response.Header.Get("Content-Type"))
	if form == "application/json" { // though a stream was asked for
		body, err := io.ReadAll(response.Body)
		if err != nil {
			return Answer{}, err
		}
		a, ok := c.api.whole(body)
		switch {
		case ok:
			a = a.stated()
			say(a.Text)
			return a, nil
		case tellsError(body):
			return Answer{}, &eventError{body}
		}
		return Answer{}, &formError{"JSON that is not an answer of the API"}
	}
	s := stream{say: say, read: c.api.event}
	_, err := io.Copy(&upstream.Events{Each: s.take}, response.Body)
	s.Text, s.Reasoning = cmp.Or(s.Text, s.text.String()), cmp.Or(s.reasoning.String(), s.Reasoning)
	switch {
	case err != nil && !errors.Is(err, errDone):
		return s.Answer, err
	case s.complete:
		if s.calls == nil {
			s.calls = s.pending.all()
		}
		shown := len(s.calls) == 0
		a := s.stated()
		if !shown {
			say(a.Text)
		}
		return a, nil
	case form != "" && form != "text/event-stream":
		return s.Answer, &formError{c.name(form)}
	}
	return s.Answer, errCut
}

// errCut is the error of an answer that ended too early, though its connection did
// not break.
var errCut = errors.New("the answer ended before it was complete")

// formError is the error of an answer that is not a stream: the address is not that
// of an API, or of one that does not stream.
type formError struct{ form string }

// Error says so.
func (e *formError) Error() string {
	return fmt.Sprintf("the server answers with %s, not with a stream of events: check the base URL, and that the server can stream", e.form)
}

// The bounds of what is read of a response, whatever it is, and of an error.
const (
	maxResponse = 32 << 20
	maxError    = 64 << 10
)

// send makes a request for a path of the API, with a body unless that is nil. The caller
// closes the response.
func (c *Client) send(ctx context.Context, method, path, query string, body any) (*http.Response, error) {
	var content io.Reader
	if body != nil {
		text, err := json.Marshal(body, jsontext.AllowInvalidUTF8(true), json.Deterministic(true))
		if err != nil {
			return nil, err
		}
		content = bytes.NewReader(text)
	}
	r, err := http.NewRequestWithContext(ctx, method, c.endpoint.URL(path, query), content)
	if err != nil {
		return nil, err
	}
	c.head(r.Header, body != nil)
	response, err := c.transport.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	response.Body = http.MaxBytesReader(nil, response.Body, maxResponse)
	switch s := response.StatusCode; {
	case s < 300:
		return response, nil
	case s < 400:
		return nil, errors.Join(&redirectError{s}, response.Body.Close()) // nothing of it is read
	}
	defer response.Body.Close()
	text, err := io.ReadAll(io.LimitReader(response.Body, maxError))
	if err != nil {
		text = nil // which is not quoted
	}
	return nil, &refusal{response.StatusCode, response.Header, text}
}

// head sets the headers of a request.
func (c *Client) head(h http.Header, body bool) {
	h.Set("User-Agent", "securebench")
	h.Set("Accept", "application/json")
	if body {
		h.Set("Content-Type", "application/json")
	}
	c.endpoint.Sign(h)
}

// redirectError is the error of a redirect, which is not followed: it would take
// the key along.
type redirectError struct{ status int }

// Error says so.
func (e *redirectError) Error() string {
	return fmt.Sprintf("the provider answers with a redirect (status %d), which is not followed; check the base URL", e.status)
}

// refusal is a response with which a provider refuses a request.
type refusal struct {
	status int
	header http.Header
	body   []byte
}

// Error says so.
func (r *refusal) Error() string { return fmt.Sprintf("status %d", r.status) }

// eventError is the error of an event, or an answer, that tells one.
type eventError struct{ data []byte }

// Error says so.
func (e *eventError) Error() string { return "the provider ended the answer with an error" }

// count is a number of tokens, 0 if it is none. One that is impossible stays so.
type count int64

// UnmarshalJSON is lenient.
func (c *count) UnmarshalJSON(v []byte) error {
	if n, err := strconv.ParseFloat(string(v), 64); err == nil {
		*c = count(min(max(n, -1), 2*maxCount))
	}
	return nil
}
