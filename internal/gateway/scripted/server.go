package scripted

import (
	"compress/gzip"
	"crypto/subtle"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"securebench/internal/bounded"
)

// maxBody bounds a request's body, packed and unpacked.
const maxBody = 64 << 20

// Server plays a script. It is an [http.Handler] for the root of a base URL.
type Server struct {
	script *Script
	notify func(Request)

	mu       sync.Mutex
	requests []*Request
	tries    map[string]int // by conversation of the agent, and turn
}

// New makes a server. notify gets each request before it is answered, one at a
// time; it may be nil.
func New(s *Script, notify func(Request)) *Server {
	return &Server{script: s, notify: notify, tries: map[string]int{}}
}

// Requests returns what has come so far, in order.
func (s *Server) Requests() []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make([]Request, len(s.requests))
	for i, r := range s.requests {
		out[i] = *r
	}
	return out
}

// Credentials returns every credential that came, sorted, each once.
func (s *Server) Credentials() []string {
	var out []string
	for _, r := range s.Requests() {
		out = append(out, r.Credentials...)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// ServeHTTP records and answers a request.
func (s *Server) ServeHTTP(w http.ResponseWriter, in *http.Request) {
	r := &Request{At: time.Now(), Method: in.Method, Path: in.URL.Path, Query: in.URL.RawQuery,
		Header: in.Header.Clone(), Credentials: credentials(in.Header, in.URL.Query())}
	x := &exchange{w: w, in: in, r: r, key: strings.Join(r.Credentials, " ")}
	answer := s.plan(x)
	s.mu.Lock()
	s.requests = append(s.requests, r)
	if s.notify != nil {
		s.notify(*r)
	}
	s.mu.Unlock()
	answer()
}

// refusal is an answer that a provider would give to a bad request.
type refusal struct {
	status     int
	kind, text string
}

func refuse(status int, kind, format string, args ...any) *refusal {
	return &refusal{status, kind, fmt.Sprintf(format, args...)}
}

// plan decides what a request gets, and completes its record.
func (s *Server) plan(x *exchange) (answer func()) {
	r := x.r
	body, err := readBody(x.in)
	r.Body = body
	bad := s.route(r)
	if bad == nil && err != nil {
		bad = refuse(http.StatusBadRequest, "invalid_request_error", "reading the body: %v", err)
	}
	switch {
	case bad != nil:
	case r.API == gemini && strings.HasSuffix(r.Path, ":countTokens"):
		r.Status = http.StatusOK
		return func() { x.json(http.StatusOK, map[string]any{"totalTokens": estimate(len(r.Body))}) }
	case r.Method == http.MethodGet && strings.HasSuffix(r.Path, "/models"):
		r.Status = http.StatusOK
		return func() { x.models(s.script.Models) }
	case r.Method == http.MethodGet:
		_, name, _ := strings.Cut(r.Path, "/models/")
		if bad = s.unknown(name); bad == nil {
			r.Status = http.StatusOK
			return func() { x.json(http.StatusOK, r.modelJSON(name)) }
		}
	case strings.HasSuffix(r.Path, "/count_tokens"):
		r.Status = http.StatusOK
		return func() { x.json(http.StatusOK, map[string]any{"input_tokens": estimate(len(r.Body))}) }
	default:
		var play func()
		if play, bad = s.play(x); bad == nil {
			return play
		}
	}
	r.Status, r.Refused = bad.status, bad.text
	return func() { x.refuse(*bad) }
}

// route checks method, path and credential.
func (s *Server) route(r *Request) *refusal {
	where := r.Path
	if strings.HasPrefix(where, modelsPath+"/") {
		where = modelsPath
	}
	switch line := r.Method + " " + where; {
	case r.askedGemini():
	case line == "POST /v1/responses":
		r.API = responses
	case line == "POST /v1/chat/completions":
		r.API = chat
	case line == "POST /v1/messages", line == "POST /v1/messages/count_tokens":
		r.API = messages
	case line == "GET /v1/models":
		if r.API = responses; r.Header.Get("Anthropic-Version") != "" {
			r.API = messages
		}
	default:
		return refuse(http.StatusNotFound, "not_found_error", "there is no %s %s", r.Method, r.Path)
	}
	switch {
	case len(r.Credentials) == 0 && !s.script.Open:
		return refuse(http.StatusUnauthorized, "authentication_error", "a credential is missing")
	case s.script.Key != "" && !slices.ContainsFunc(r.Credentials, s.isKey):
		return refuse(http.StatusUnauthorized, "authentication_error", "incorrect API key provided: %s", strings.Join(r.Credentials, " "))
	case r.API == messages && r.Header.Get("Anthropic-Version") == "":
		return refuse(http.StatusBadRequest, "invalid_request_error", "anthropic-version: header is required")
	}
	return nil
}

func (s *Server) isKey(c string) bool {
	return subtle.ConstantTimeCompare([]byte(c), []byte(s.script.Key)) == 1
}

// play finds the turn of a request, and returns what answers it.
func (s *Server) play(x *exchange) (func(), *refusal) {
	r := x.r
	b, err := r.read()
	if err == nil {
		err = check(r, b)
	}
	switch {
	case err != nil:
		return nil, refuse(http.StatusBadRequest, "invalid_request_error", "%v", err)
	}
	if bad := s.unknown(b.Model); bad != nil {
		return nil, bad
	}
	last := r.turn()
	if b.compacts() {
		r.Status = http.StatusOK
		return func() { x.answer(Turn{Say: fmt.Sprintf("Summary: scripted-turn-%d is done.", last)}, nil) }, nil
	}
	name, turns := s.script.turns(b.prompt(), r.Body)
	r.Conversation, r.Turn = name, last+1
	t := Turn{Say: "Done."}
	if last < len(turns) {
		t = turns[last]
	}
	r.Try = s.try(fmt.Sprintf("%s\x00%s\x00%s\x00%d", b.Conversation, b.Metadata.UserID, name, r.Turn))
	if f := t.fault(r.Try - 1); f != nil {
		r.Status = f.status()
		return func() { x.fail(*f, t) }, nil
	}
	calls, err := r.calls(t)
	if err != nil {
		return nil, refuse(http.StatusBadRequest, "invalid_request_error", "the script cannot go on: %v", err)
	}
	r.Status = http.StatusOK
	return func() { x.answer(t, calls) }, nil
}

// modelsPath lists the models, and below it is each of them.
const modelsPath = "/v1/models"

// unknown refuses a model that the script does not have.
func (s *Server) unknown(model string) *refusal {
	if len(s.script.Models) == 0 || slices.Contains(s.script.Models, model) {
		return nil
	}
	return refuse(http.StatusNotFound, "not_found_error", "the model %q does not exist", model)
}

// try counts the requests of a turn.
func (s *Server) try(turn string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tries[turn]++
	return s.tries[turn]
}

// check finds what a provider would refuse.
func check(r *Request, b *bodyJSON) error {
	switch {
	case b.Model == "":
		return errors.New("model: a value is required")
	case r.API == messages && b.MaxTokens <= 0:
		return errors.New("max_tokens: a positive number is required")
	case r.API == gemini && r.Stream && r.Query != "alt=sse":
		return errors.New("alt: a stream is only served as events")
	case r.API == gemini && len(b.Contents) == 0:
		return errors.New("contents: at least one is required")
	case r.API != responses && len(b.Messages) == 0:
		return errors.New("messages: at least one message is required")
	case r.API == responses && len(b.Input) == 0:
		return errors.New("input: a value is required")
	}
	calls := map[string]bool{}
	for _, item := range b.Input {
		switch {
		case strings.HasSuffix(item.Type, "_call"):
			calls[item.CallID] = true
		case strings.HasSuffix(item.Type, "_call_output") && !calls[item.CallID]:
			return fmt.Errorf("no tool call found for function call output with call_id %s", item.CallID)
		}
	}
	return nil
}

// readBody reads a body whole, and unpacks it.
func readBody(in *http.Request) ([]byte, error) {
	raw, err := bounded.ReadAll(in.Body, maxBody)
	if err != nil || in.Header.Get("Content-Encoding") != "gzip" {
		return raw, err
	}
	unpacked, err := gzip.NewReader(strings.NewReader(string(raw)))
	if err != nil {
		return nil, err
	}
	return bounded.ReadAll(unpacked, maxBody)
}

// estimate is a number of tokens for a number of bytes.
func estimate(n int) int64 { return int64(n)/4 + 1 }
