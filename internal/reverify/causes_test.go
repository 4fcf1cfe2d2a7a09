package reverify

import (
	"strings"
	"testing"

	"securebench/internal/digest"
	"securebench/internal/evidence"
	"securebench/internal/pipeline/commit"
	"securebench/internal/pipeline/record"
)

// TestCauses: a difference is explained by what is different, and by nothing else.
func TestCauses(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		change func(*Review)
		is     commit.Judged
		want   string
	}{
		"nothing":        {func(*Review) {}, commit.Judged{}, "nothing that was compared"},
		"no salt":        {func(r *Review) { r.Salt = nil }, commit.Judged{}, "--salt"},
		"another build":  {func(r *Review) { r.otherBuild = "another" }, commit.Judged{}, "with that one, 1.2"},
		"its image":      {func(r *Review) { r.otherImage = map[string]bool{"img": true} }, commit.Judged{}, "1 verdict in an image"},
		"another image":  {func(r *Review) { r.otherImage = map[string]bool{"other": true} }, commit.Judged{}, "nothing that was compared"},
		"another engine": {func(r *Review) { r.otherName = "docker" }, commit.Judged{}, "--engine docker"},
		"lower limits":   {func(r *Review) { r.lowered = true }, commit.Judged{}, "--run-limits"},
		"out of time":    {func(*Review) {}, commit.Judged{Outcome: "verifier_timeout"}, "--run-limits"},
	} {
		r := &Review{Salt: &digest.Salt{}, Result: &evidence.Result{Manifest: record.Manifest{Version: "1.2"}}}
		tt.change(r)
		if got := r.Causes([]Rederived{{Image: "img", Is: tt.is}}); len(got) != 1 || !strings.Contains(got[0], tt.want) {
			t.Errorf("%s: %q, want %q", name, got, tt.want)
		}
	}
}
