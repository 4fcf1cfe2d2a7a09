package wire

import (
	"errors"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"securebench/internal/gateway/upstream"
)

// Usage is what one response used.
type Usage struct {
	Input     int64 `json:"input_tokens"` // with what was read from a cache, and written to one
	Cached    int64 `json:"cached_input_tokens"`
	Written   int64 `json:"cache_write_input_tokens,omitzero"`
	Output    int64 `json:"output_tokens"`
	ToolCalls int64 `json:"tool_calls"`
}

// maxCount bounds a number of tokens: a larger one is a mistake.
const maxCount = 1_000_000_000

// ErrTooLong is the error of a response that is longer than what is read of one.
var ErrTooLong = errors.New("the provider's response is too long")

// rawUsage is the usage in both APIs.
type rawUsage struct {
	Input   jsontext.Value `json:"input_tokens"`
	Output  jsontext.Value `json:"output_tokens"`
	Read    jsontext.Value `json:"cache_read_input_tokens"`
	Created jsontext.Value `json:"cache_creation_input_tokens"`
	Details struct {
		Cached  jsontext.Value `json:"cached_tokens"`
		Written jsontext.Value `json:"cache_write_tokens"`
	} `json:"input_tokens_details"`
}

// merge takes over what a usage says. A later one replaces the parts that it
// has; a part that makes no sense leaves nothing known.
func (m *meter) merge(v jsontext.Value) {
	var raw rawUsage
	if len(v) == 0 || v.Kind() == 'n' {
		return
	}
	if upstream.Decode(v, &raw) != nil {
		m.input, m.output = -1, -1
		return
	}
	cached := max(number(raw.Read), number(raw.Details.Cached), 0)
	if in := number(raw.Input); in >= 0 {
		// Anthropic's input excludes the cache, OpenAI's includes it.
		m.input = max(in+max(number(raw.Read), 0)+max(number(raw.Created), 0), m.input)
		m.cached = min(max(cached, m.cached), m.input)
		m.written = min(max(number(raw.Created), number(raw.Details.Written), m.written), m.input-m.cached)
	} else if len(raw.Input) > 0 {
		m.input = -1
	}
	if len(raw.Output) > 0 {
		m.output = number(raw.Output)
	}
}

// number returns a count, -1 if it is none.
func number(v jsontext.Value) int64 {
	if v.Kind() != '0' {
		return -1
	}
	n, err := strconv.ParseInt(string(v), 10, 64)
	if err != nil {
		f, err := strconv.ParseFloat(string(v), 64)
		if err != nil || !(f >= 0 && f <= maxCount) {
			return -1
		}
		n = int64(f)
	}
	if n < 0 || n > maxCount {
		return -1
	}
	return n
}

// meter counts one response.
type meter struct {
	input, output int64 // -1 if not known
	cached        int64 // read from a cache
	written       int64 // to a cache
	calls         int64
	guess         int64 // tokens of output, from its length
	done          bool  // the response ended as its API says
	end           ending
}

// usage returns the counts, with guesses for what is not known. requestTokens is
// the guess for the input.
func (m *meter) usage(requestTokens int64) (u Usage, exact bool) {
	u = Usage{Input: m.input, Cached: m.cached, Written: m.written, Output: m.output, ToolCalls: m.calls}
	exact = m.done && m.input >= 0 && m.output >= 0
	if m.input < 0 {
		u.Input, u.Cached, u.Written = requestTokens, 0, 0
	}
	if m.output < 0 || !m.done {
		u.Output = max(m.output, m.guess)
	}
	return u, exact
}

// item is an element of the output in either API.
type item struct {
	Type    string        `json:"type"`
	Text    upstream.Text `json:"text"`
	Content spans         `json:"content"`
}

// span is a part of an item.
type span struct {
	Type string        `json:"type"`
	Text upstream.Text `json:"text"`
}

// spans are those of an item. Some have a text instead, which is not of interest.
type spans []span

// UnmarshalJSON is lenient.
func (p *spans) UnmarshalJSON(v []byte) error {
	var all []span
	if jsontext.Value(v).Kind() == '[' && upstream.Decode(v, &all) == nil {
		*p = all
	}
	return nil
}

// says reports whether a text is more than blanks.
func says(t upstream.Text) bool { return strings.TrimSpace(string(t)) != "" }

// call reports whether the client is to run a tool.
func (i item) call() bool {
	return i.Type == "tool_use" || strings.HasSuffix(i.Type, "_call") &&
		i.Type != "web_search_call" && i.Type != "file_search_call" && i.Type != "image_generation_call"
}

// Guess returns how many tokens a text of so many bytes may be.
func Guess(bytes int64) int64 { return (bytes + 3) / 4 }

// Whole returns the usage of a response that is one JSON text.
func Whole(body []byte, requestBytes int64) (u Usage, exact bool) {
	var raw struct {
		Usage   jsontext.Value `json:"usage"`
		Output  []item         `json:"output"`
		Content []item         `json:"content"`
	}
	m := meter{input: -1, output: -1, guess: Guess(int64(len(body)))}
	if upstream.Decode(body, &raw) == nil {
		m.done = true
		m.merge(raw.Usage)
		for _, i := range append(raw.Output, raw.Content...) {
			if i.call() {
				m.calls++
			}
		}
	}
	return m.usage(Guess(requestBytes))
}
