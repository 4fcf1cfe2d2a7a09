package scripted

import (
	"cmp"
	"compress/gzip"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"securebench/internal/attended"
)

// exchange is one request and its answer.
type exchange struct {
	w   http.ResponseWriter
	in  *http.Request
	r   *Request
	key string // what the request authenticated with
}

// models lists the script's models.
func (x *exchange) models(names []string) {
	list := []any{}
	for _, name := range names {
		list = append(list, x.r.modelJSON(name))
	}
	if x.r.API == gemini {
		x.json(http.StatusOK, map[string]any{"models": list})
		return
	}
	x.json(http.StatusOK, map[string]any{"object": "list", "data": list})
}

func (r *Request) modelJSON(name string) any {
	if r.API == gemini {
		return geminiModel(name)
	}

	return map[string]any{"id": name, "object": "model", "type": "model", "owned_by": "scripted"}
}

// json writes a whole answer.
func (x *exchange) json(status int, v any) {
	x.w.Header().Set("Content-Type", "application/json")
	x.w.WriteHeader(status)
	x.write(object(v))
}

// write writes to a client that may be gone, and reports whether it is there.
func (x *exchange) write(text string) bool {
	if _, err := io.WriteString(x.w, text); err != nil {
		return false
	}
	return http.NewResponseController(x.w).Flush() == nil
}

// refuse writes an error in the API's form.
func (x *exchange) refuse(bad refusal) {
	x.json(bad.status, x.r.errorBody(bad.status, bad.kind, bad.text))
}

func (r *Request) errorBody(status int, kind, text string) any {
	if r.API == gemini {
		return geminiError(status, kind, text)
	}
	if r.API == messages {
		return map[string]any{"type": "error", "error": map[string]any{"type": kind, "message": text}, "request_id": "req_scripted"}
	}
	return map[string]any{"error": map[string]any{"type": kind, "message": text, "code": kind, "param": nil}}
}

// event is one event of a stream. Its type is in its data; those of chat
// Completions have none, and the last of them, which is nil, is no JSON.
type event map[string]any

func (e event) text() string {
	switch kind := e["type"]; {
	case e == nil:
		return "data: [DONE]\n\n"
	case kind == nil:
		return fmt.Sprintf("data: %s\n\n", object(e))
	default:
		return fmt.Sprintf("event: %s\ndata: %s\n\n", kind, object(e))
	}
}

// answer plays a turn.
func (x *exchange) answer(t Turn, calls []call) {
	if !x.wait(t.Delay.Duration) {
		return
	}
	if t.Reflect {
		t.Say += reflected(x.key)
		x.reflect()
	}
	for name, value := range t.Headers {
		x.w.Header().Set(name, value)
	}
	events, whole := x.r.events(t, calls)
	if !x.r.Stream {
		x.json(http.StatusOK, whole)
		return
	}
	x.stream(events, t)
}

// stream writes events.
func (x *exchange) stream(events []event, t Turn) {
	x.w.Header().Set("Content-Type", "text/event-stream")
	flush := http.NewResponseController(x.w)
	var out io.Writer = x.w
	if t.Gzip && strings.Contains(x.in.Header.Get("Accept-Encoding"), "gzip") {
		x.w.Header().Set("Content-Encoding", "gzip")
		packed := gzip.NewWriter(x.w)
		defer packed.Close()
		out = packed
	}
	x.w.WriteHeader(http.StatusOK)
	for i, e := range events {
		if i > 0 && !x.wait(t.Pause.Duration) {
			return
		}
		if _, err := io.WriteString(out, e.text()); err != nil {
			return
		}
		if packed, ok := out.(*gzip.Writer); ok && packed.Flush() != nil {
			return
		}
		if flush.Flush() != nil {
			return
		}
	}
}

// wait waits, and reports whether the client is still there.
func (x *exchange) wait(d time.Duration) bool {
	return attended.Pause(x.in.Context(), d) == nil && x.in.Context().Err() == nil
}

// reflect gives the request's headers back.
func (x *exchange) reflect() {
	for name, values := range x.in.Header {
		x.w.Header()["X-Reflected-"+name] = values
	}
	x.w.Header().Set("Set-Cookie", "key="+x.key)
	x.w.Header().Set("X-Request-Id", x.key)
}

// reflected is a text that has the credential in many encodings. [pieces] makes
// sure that the edges of events split it.
func reflected(key string) string {
	b := []byte(key)
	back := slices.Clone(b)
	slices.Reverse(back)
	return strings.Join([]string{"\n" + key, base64.StdEncoding.EncodeToString(b), base64.URLEncoding.EncodeToString(b),
		hex.EncodeToString(b), strings.ToUpper(hex.EncodeToString(b)), string(back), ""}, "\n")
}

// pieces cuts a text into the deltas of a stream. They are short and of uneven
// length, so that whatever the text contains lies across their edges.
func pieces(text string) []string {
	var out []string
	runes := []rune(text)
	for n := 3; len(runes) > 0; n = n%7 + 3 {
		n = min(n, len(runes))
		out = append(out, string(runes[:n]))
		runes = runes[n:]
	}
	return out
}

// status is what a request with this fault gets.
func (f Fault) status() int {
	switch {
	case f.Redirect != "":
		return cmp.Or(f.Status, http.StatusTemporaryRedirect)
	case f.Close || f.Hang:
		return 0
	}
	return cmp.Or(f.Status, http.StatusOK)
}

// fail plays a fault of a turn.
func (x *exchange) fail(f Fault, t Turn) {
	if !x.wait(f.Delay.Duration) {
		return
	}
	if f.Reflect {
		x.reflect()
	}
	for name, value := range f.Headers {
		x.w.Header().Set(name, value)
	}
	switch {
	case f.Close:
		panic(http.ErrAbortHandler)
	case f.Hang:
		<-x.in.Context().Done()
	case f.Endless != "":
		x.endless(f.Endless)
	case f.Bomb > 0:
		x.bomb(f.Bomb)
	case f.Cut > 0:
		events, _ := x.r.events(t, nil)
		x.stream(events[:min(f.Cut, len(events)-1)], t)
		panic(http.ErrAbortHandler)
	default:
		if f.Redirect != "" {
			x.w.Header().Set("Location", f.Redirect)
		}
		x.slowly(f)
	}
}

// slowly writes an error, byte by byte if the script says so.
func (x *exchange) slowly(f Fault) {
	text := cmp.Or(f.Message, "a scripted failure")
	if f.Reflect {
		text += reflected(x.key)
	}
	body := f.Body
	if body == "" {
		body = object(x.r.errorBody(f.status(), kinds[f.status()], text))
	}
	if x.w.Header().Get("Content-Type") == "" {
		x.w.Header().Set("Content-Type", "application/json")
	}
	x.w.WriteHeader(f.status())
	if f.Slow.Duration == 0 {
		x.write(body)
		return
	}
	for i := range len(body) {
		if !x.write(body[i:i+1]) || !x.wait(f.Slow.Duration) {
			return
		}
	}
}

// kinds are the types of errors, by status.
var kinds = map[int]string{ //nolint:gochecknoglobals // a constant
	400: "invalid_request_error", 401: "authentication_error", 403: "permission_error", 404: "not_found_error",
	413: "request_too_large", 429: "rate_limit_error", 500: "api_error", 503: "api_error", 529: "overloaded_error",
}

// endless writes a stream that the client must end.
func (x *exchange) endless(kind string) {
	x.w.Header().Set("Content-Type", "text/event-stream")
	start, again := "", "event: ping\ndata: {\"type\": \"ping\"}\n\n"
	filler := strings.Repeat("x", 32<<10)
	switch kind {
	case "line":
		start, again = "event: response.output_text.delta\ndata: {\"type\":\"", filler
	case "events":
		again = "event: response.output_text.delta\ndata: " + object(map[string]any{"type": "response.output_text.delta", "delta": filler}) + "\n\n"
	}
	for ok := x.write(start); ok && x.in.Context().Err() == nil; {
		ok = x.write(again)
	}
}

// bomb writes a small body that unpacks to a large one.
func (x *exchange) bomb(size int64) {
	x.w.Header().Set("Content-Type", "text/event-stream")
	x.w.Header().Set("Content-Encoding", "gzip")
	const member = 1 << 20 // of which packed data may have many
	whole := packed(member)
	for ; size >= member; size -= member {
		if !x.write(whole) {
			return
		}
	}
	if size > 0 {
		x.write(packed(size))
	}
}

// packed packs so many bytes.
func packed(size int64) string {
	var b strings.Builder
	w := gzip.NewWriter(&b)
	_, _ = w.Write(make([]byte, size)) // which a builder takes
	_ = w.Close()
	return b.String()
}

// jsonOf reads JSON that the package made itself.
func jsonOf(text string) any {
	var v any
	if json.Unmarshal([]byte(text), &v) != nil {
		return map[string]any{}
	}
	return v
}
