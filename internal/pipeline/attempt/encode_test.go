package attempt_test

import (
	"strings"
	"testing"
	"time"

	"securebench/internal/pipeline/attempt"
)

func TestDurations(t *testing.T) {
	type message struct {
		Limit time.Duration `json:"limit"`
	}
	b, err := attempt.Encode(message{1500 * time.Nanosecond})
	if err != nil || string(b) != `{"limit":1500}` {
		t.Fatalf("%s, %v", b, err)
	}
	for text, want := range map[string]string{
		`{"limit":1500}`: "", `{"limit":"1s"}`: "whole number", `{"limit":1.5}`: "whole number", `{"limit":9e99}`: "whole number",
		`{"limit":1,"x":2}`: "unknown", `{"limit":1} {}`: "after", `{"limit":1,"limit":2}`: "duplicate",
	} {
		var m message
		err := attempt.Decode([]byte(text), &m)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) || err == nil && m.Limit != 1500 {
			t.Errorf("%s: %v, %v; want %q", text, m, err, want)
		}
	}
}
