package wire

import "slices"

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
	if slices.Contains([]string{"max_tokens", "max_output_tokens", "model_context_window_exceeded", "length", "MAX_TOKENS"}, e.stop) {
		end.Truncated, end.Stop = true, e.stop
	}
	return end
}

// Ending says how the answer ended, once it has, unless the provider ended it with
// an error.
func (s *Stream) Ending() (Ending, bool) {
	return s.m.end.read(), s.m.done && !s.m.end.failed
}
