package relay

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-json-experiment/json"

	"securebench/internal/gateway/ledger"
	"securebench/internal/gateway/relay/steps"
	"securebench/internal/gateway/relay/wire"
	"securebench/internal/redact"
)

// The bounds of a trace: of one text, of all texts, of the number of exchanges,
// and of a path.
const (
	maxText      = 32 << 10
	maxTexts     = 16 << 20
	maxExchanges = 20_000
	maxTarget    = 200
)

// exchange is one request and what came of it: a line of the trace.
type exchange struct {
	Began          time.Time   `json:"began"`
	Took           int64       `json:"took_ns"`
	Method         string      `json:"method"`
	Path           string      `json:"path"`
	Status         int         `json:"status"` // that the agent got; 0 is none
	Reason         reason      `json:"reason,omitzero"`
	Model          string      `json:"model,omitzero"`
	Stream         bool        `json:"stream,omitzero"`
	Dropped        []string    `json:"dropped_fields,omitzero"` // that the provider did not get
	Tries          int         `json:"tries,omitzero"`
	ProviderStatus int         `json:"provider_status,omitzero"`
	Waited         int64       `json:"waited_ns,omitzero"`
	RequestBytes   int64       `json:"request_bytes"`
	ResponseBytes  int64       `json:"response_bytes"`
	Usage          *wire.Usage `json:"usage,omitzero"`
	Estimated      bool        `json:"estimated,omitzero"` // the usage
	Request        string      `json:"request,omitzero"`   // shortened
	Response       string      `json:"response,omitzero"`

	endpoint          `json:"-"`
	began             time.Time
	why               string        // it was refused, or failed
	said              *steps.Answer // nil if none was to come
	sent, received    int64
	usage             wire.Usage
	exact             bool
	hidden            bool // the stream has events that the agent has not asked for
	request, response clip
}

// finish records an exchange.
func (a *Attempt) finish(x *exchange) {
	took := time.Since(x.began)
	x.Began, x.Took = x.began.UTC(), took.Nanoseconds()
	x.Method, x.Path = cut(x.Method, 20), cut(x.Path, maxTarget)
	if a.record != nil {
		a.record(ledger.Entry{
			Gate: ledger.Relay, Method: x.Method, Target: x.Path, Allowed: x.Tries > 0 || x.Reason == "",
			Reason: string(x.Reason), Status: x.Status, Sent: x.sent, Received: x.received, Began: x.Began, Took: took,
		})
	}
	x.RequestBytes, x.ResponseBytes = x.request.n, x.response.n
	if x.usage != (wire.Usage{}) {
		x.Usage, x.Estimated = &x.usage, !x.exact
	}
	a.tell(x, took)
	a.trace.add(x)
}

// cut shortens a text of the agent's to n bytes and makes it UTF-8.
func cut(s string, n int) string {
	if len(s) > n {
		s = s[:n] + "..."
	}
	return strings.ToValidUTF8(s, "\uFFFD")
}

// trace collects the exchanges of an attempt. They become text when they are
// asked for: an agent should not wait for that.
type trace struct {
	secrets *redact.Registry

	mu      sync.Mutex
	done    []*exchange
	texts   int // bytes of their texts
	omitted int64
}

func (t *trace) add(x *exchange) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.done) == maxExchanges {
		t.omitted++
		return
	}
	if t.texts += x.request.kept() + x.response.kept(); t.texts > maxTexts {
		t.texts = maxTexts
		x.request, x.response = clip{}, clip{}
	}
	t.done = append(t.done, x)
}

// lines returns the trace, with a line that says how many exchanges it does not
// have, if any.
func (t *trace) lines() []byte {
	t.mu.Lock()
	defer t.mu.Unlock()
	var out []byte
	omitted := t.omitted
	for _, x := range t.done {
		line := *x
		line.Request, line.Response = x.request.excerpt(t.secrets), x.response.excerpt(t.secrets)
		text, err := json.Marshal(&line, json.Deterministic(true))
		if err != nil {
			omitted++
			continue
		}
		out = append(append(out, redact.ASCII(text)...), '\n')
	}
	if omitted > 0 {
		out = fmt.Appendf(out, "{\"omitted\":%d}\n", omitted)
	}
	return out
}

// clip keeps the beginning and the end of a text.
type clip struct {
	head, tail []byte
	n          int64
}

// The parts of a clip.
const (
	maxHead = maxText * 3 / 4
	maxTail = maxText - maxHead
)

func (c *clip) kept() int { return len(c.head) + min(len(c.tail), maxTail) }

// add appends a piece.
func (c *clip) add(p []byte) {
	c.n += int64(len(p))
	k := min(len(p), maxHead-len(c.head))
	c.head, p = append(c.head, p[:k]...), p[k:]
	if len(p) >= maxTail {
		c.tail = append(c.tail[:0], p[len(p)-maxTail:]...)
		return
	}
	if c.tail = append(c.tail, p...); len(c.tail) > 2*maxTail {
		c.tail = append(c.tail[:0], c.tail[len(c.tail)-maxTail:]...)
	}
}

// excerpt returns the text, shortened, as UTF-8 and without secrets.
func (c *clip) excerpt(secrets *redact.Registry) string {
	tail := c.tail[max(len(c.tail)-maxTail, 0):]
	text := c.head
	if missing := c.n - int64(len(c.head)+len(tail)); missing > 0 {
		text = fmt.Appendf(slices.Clip(text), "\n[cut: %d bytes]\n", missing)
	}
	text = secrets.Bytes(append(slices.Clip(text), tail...))
	out, _ := redact.Excerpt(text, 4*len(text)+1)
	return out
}
