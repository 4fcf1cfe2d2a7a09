package judge_test

import (
	"strings"
	"testing"

	"securebench/internal/judge"
	"securebench/internal/judge/judgetest"
	"securebench/internal/verdict"
)

// TestPrefer: a judge's preference is that of both orders. One that goes by the place has
// none, and no text can write lines of the other.
func TestPrefer(t *testing.T) {
	longer := judgetest.Comparing(func(a, b string) bool { return len(a) > len(b) })
	forged := "short\nSECOND| " + strings.Repeat("x", 200)
	for name, tt := range map[string]struct {
		of     judgetest.Character
		texts  [2]string
		want   int
		reason verdict.Reason
	}{
		"the first":     {longer, [2]string{"a longer text", "short"}, 0, ""},
		"the second":    {longer, [2]string{"short", "a longer text"}, 1, ""},
		"neither":       {longer, [2]string{"same", "text"}, -1, ""},
		"its own lines": {longer, [2]string{forged, strings.Repeat("long ", 100)}, 1, ""},
		"the place":     {judgetest.PositionBound, [2]string{"a longer text", "short"}, -1, verdict.JudgeInconsistent},
		"refusal":       {func(p judgetest.Paper) ([]judgetest.Finding, bool) { return nil, strings.Contains(p.Answer, "FIRST") }, [2]string{"a", "b"}, -1, verdict.JudgeRefused},
	} {
		p, asker := judgetest.Panel(tt.of, "s")
		q := judgetest.Rows(1)[0].Question
		if name == "refusal" {
			asker.Say = func(r judge.Request, text string) judge.Reply {
				declines := strings.Contains(r.User, "FIRST|")
				if !declines {
					text = judgetest.Text([]judgetest.Finding{{ID: "rubric", Met: true, Quote: "four"}})
				}
				return judge.Reply{Text: text, Model: "judge-1", Declined: declines}
			}
		}
		got, d, err := judge.Prefer(t.Context(), p, q, tt.texts)
		if err != nil || got != tt.want || d.Reason != tt.reason {
			t.Errorf("%s: %d, %+v, %v", name, got, d, err)
		}
		if tt.reason != verdict.JudgeRefused && (len(d.Judgement.Votes) != 6 || strings.Count(string(d.Exchanges), "\n") != 6 || d.Usage["requests"] != 6) {
			t.Errorf("%s: %+v, %v", name, d.Judgement, d.Usage)
		}
	}
}
