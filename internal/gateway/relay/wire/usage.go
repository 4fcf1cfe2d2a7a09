package wire

import (
	"errors"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"
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
	bare          bool // the last event says only what was used
}

// newMeter returns one of a response of which nothing is known.
func newMeter() meter { return meter{input: -1, output: -1} }

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

// Guess returns how many tokens a text of so many bytes may be.
func Guess(bytes int64) int64 { return (bytes + 3) / 4 }
