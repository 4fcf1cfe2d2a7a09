package model_test

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"securebench/internal/agent/model"
)

// weighed is an answer about a text of so many tokens, as servers give it.
func weighed(logprobs string, prompt, output int) string {
	return fmt.Sprintf(`{"model":"m","choices":[{"index":0,"text":"","logprobs":{"token_logprobs":[%s]},"finish_reason":"length"}],"usage":{"prompt_tokens":%d,"completion_tokens":%d}}`, logprobs, prompt, output)
}

// TestLikelihood: the tokens of the text are those before what the server added, whether it
// lists the token that begins every text or not. What does not fit is refused.
func TestLikelihood(t *testing.T) {
	for name, tt := range map[string]struct {
		body    string
		context int
		want    float64 // 1 is an error
	}{
		"all tokens":                 {weighed("null,-1,-2,-4,-8", 4, 1), 2, -6},
		"without the first":          {weighed("null,-1,-2,-8", 4, 1), 2, -3},
		"nothing generated":          {weighed("null,-1,-2,-4", 4, 0), 2, -6},
		"the whole of the context":   {weighed("null,-1,-2,-4,-8", 4, 1), 0, 0},
		"only what was generated":    {weighed("-8", 4, 1), 2, 1},
		"more than there are":        {weighed("null,-1,-2,-4,-8,-16", 4, 1), 2, 1},
		"a context that is as long":  {weighed("null,-1,-2,-4,-8", 4, 1), 4, 1},
		"a context of nothing known": {weighed("null,-1,-2,-4,-8", 4, 1), 1, -7},
		"one that is missing":        {weighed("null,-1,null,-4,-8", 4, 1), 2, 1},
		"a probability":              {weighed("null,-1,0.5,-4,-8", 4, 1), 2, 1},
		"no number":                  {weighed("null,-1,1e999,-4,-8", 4, 1), 2, 1},
		"no usage":                   {weighed("null,-1,-2,-4,-8", 0, 0), 2, 1},
		"two choices":                {strings.Replace(weighed("null,-1,-2", 2, 1), `"choices":[`, `"choices":[{},`, 1), 1, 1},
		"nothing":                    {`{}`, 0, 1},
	} {
		l, err := model.Weigh([]byte(tt.body), tt.context)
		if (err != nil) != (tt.want == 1) || err == nil && l.Sum != tt.want {
			t.Errorf("%s: %+v, %v, want %v", name, l, err, tt.want)
		}
	}
}

// FuzzLikelihood: whatever a server says, a likelihood that is taken from it is one.
func FuzzLikelihood(f *testing.F) {
	f.Add([]byte(weighed("null,-1,-2,-4,-8", 4, 1)), 2)
	f.Add([]byte(weighed("null,-1,-2,-8", 4, 1)), 3)
	f.Add([]byte(weighed("-8", 1<<40, -1)), 1)
	f.Add([]byte(`{"choices":[{"logprobs":null}],"usage":{"prompt_tokens":-1}}`), -1)
	f.Fuzz(func(t *testing.T, body []byte, context int) {
		l, err := model.Weigh(body, context)
		if err == nil && (math.IsNaN(l.Sum) || math.IsInf(l.Sum, 0) || l.Tokens < 1) {
			t.Errorf("%+v", l)
		}
	})
}
