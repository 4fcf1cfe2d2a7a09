package wire

import (
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"securebench/internal/gateway/upstream"
)

// Ending says how an answer ended. What is unusual about it is what a score should
// be read with.
type Ending struct {
	Truncated bool   // at the most tokens that it may have
	Stop      string // the API's word for that
	Empty     bool   // with neither text nor a call of a tool
	Declined  bool   // the model refuses, or a filter of the provider's does
}

// ending is what is known of one.
type ending struct {
	stop     string // the API's word
	said     bool   // text, or a call
	declined bool
	failed   bool // the provider ended it with an error
}

// read returns what that means.
func (e *ending) read() Ending {
	declined := e.declined || e.stop == "refusal" || e.stop == "content_filter"
	end := Ending{Empty: !e.said && !declined, Declined: declined}
	if slices.Contains([]string{"max_tokens", "max_output_tokens", "model_context_window_exceeded", "length"}, e.stop) {
		end.Truncated, end.Stop = true, e.stop
	}
	return end
}

// item notes an element of the output in either API.
func (e *ending) item(i item) {
	if i.Type == "reasoning" || strings.HasSuffix(i.Type, "thinking") {
		return
	}
	e.said = e.said || says(i.Text) || i.call()
	for _, part := range i.Content {
		e.said = e.said || says(part.Text)
		e.declined = e.declined || part.Type == "refusal"
	}
}

// Ending says how the answer ended, once it has, unless the provider ended it with
// an error.
func (s *Stream) Ending() (Ending, bool) {
	return s.m.end.read(), s.m.done && !s.m.end.failed
}

// WholeEnding says how an answer that is one JSON text ended, unless it is none.
func WholeEnding(body []byte) (Ending, bool) {
	var raw struct {
		Stop    string `json:"stop_reason"`
		Status  string `json:"status"`
		Output  []item `json:"output"`
		Content []item `json:"content"`
		Details struct {
			Reason string `json:"reason"`
		} `json:"incomplete_details"`
		Error jsontext.Value `json:"error"`
	}
	if upstream.Decode(body, &raw) != nil || raw.Status == "failed" || len(raw.Error) > 0 && raw.Error.Kind() != 'n' {
		return Ending{}, false
	}
	e := ending{stop: raw.Stop}
	if raw.Details.Reason != "" {
		e.stop = raw.Details.Reason
	}
	for _, i := range append(raw.Output, raw.Content...) {
		e.item(i)
	}
	return e.read(), raw.Output != nil || raw.Content != nil
}
