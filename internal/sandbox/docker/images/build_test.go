package images

import (
	"strings"
	"testing"
)

func TestFollow(t *testing.T) {
	for in, want := range map[string]string{
		"": "", `{"stream":"Step 1\n"}{"aux":{"ID":"x"}}` + "\n" + `{"status":"Pulling","id":"a","progressDetail":{}}`: "Step 1\nPulling\n",
	} {
		var log strings.Builder
		if err := follow(strings.NewReader(in), &log); err != nil || log.String() != want {
			t.Errorf("follow(%q): got %q and %v", in, log.String(), err)
		}
	}
	for in, want := range map[string]string{
		`{"stream":"x"}{"error":"no such image","errorDetail":{"message":"no such image"}}`: "the engine reports: no such image",
		`{"stream":"cut`: "reading the engine's messages",
	} {
		if err := follow(strings.NewReader(in), new(strings.Builder)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("follow(%q): got %v, want %q", in, err, want)
		}
	}
}
