package codecompletion

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"securebench/internal/verdict"
)

// dataCase is a public row with its honest candidate.
type dataCase struct {
	spec
	honest string
}

func humanEval(tb testing.TB) []dataCase {
	var out []dataCase
	for _, r := range dataRows(tb, "humaneval") {
		entry := r["entry_point"].(string)
		prompt, solution := r["prompt"].(string), r["canonical_solution"].(string)
		out = append(out, dataCase{spec{
			id: r["task_id"].(string), prompt: prompt, reference: solution, entry: entry,
			tests: r["test"].(string) + "\ncheck(" + entry + ")\n",
		}, prompt + solution})
	}
	return out
}

func mbpp(tb testing.TB) []dataCase {
	var out []dataCase
	for _, r := range dataRows(tb, "mbpp") {
		tests := []string{r["test_setup_code"].(string)}
		for _, line := range r["test_list"].([]any) {
			tests = append(tests, line.(string))
		}
		code := r["code"].(string)
		out = append(out, dataCase{spec{
			id: fmt.Sprint("mbpp/", r["task_id"]), prompt: r["text"].(string), reference: code,
			tests: strings.Join(tests, "\n") + "\n",
		}, code})
	}
	return out
}

func TestHumanEval(t *testing.T) { testData(t, humanEval(t)) }

func TestMBPP(t *testing.T) { testData(t, mbpp(t)) }

// testData verifies the reference of each row, and an empty module, which
// must fail: a verifier that passes everything would pass the first half.
func testData(t *testing.T, rows []dataCase) {
	t.Parallel()
	v := newTestVerifier(t, newLocalEngine(t))
	var times []time.Duration
	for _, r := range rows {
		c := makeCase(t, r.spec)
		start := time.Now()
		if got := verify(t, v, c, r.honest); got.Outcome != verdict.Passed {
			t.Errorf("%s: reference: %s", r.id, describe(got))
		}
		times = append(times, time.Since(start))
		if got := verify(t, v, c, "pass\n"); got.Score() != 0 || got.Reason == verdict.ProtocolViolation {
			t.Errorf("%s: empty module: %s", r.id, describe(got))
		}
	}
	slices.Sort(times)
	t.Logf("%d rows: median %v, p90 %v, max %v", len(times), times[len(times)/2], times[len(times)*9/10], times[len(times)-1])
}

// TestHumanEvalLeaning: a reference's body alone is completed by the prompt, and
// its function alone finds what the prompt imports and defines.
func TestHumanEvalLeaning(t *testing.T) {
	t.Parallel()
	v := newTestVerifier(t, newLocalEngine(t))
	leaning := 0
	for _, r := range humanEval(t) {
		head := strings.LastIndex("\n"+r.prompt, "\ndef ")
		function := r.prompt[head:] + r.reference
		if strings.TrimSpace(r.prompt[:head]) != "" {
			leaning++
			if got := verify(t, v, makeCase(t, r.spec), function); got.Outcome != verdict.Passed {
				t.Errorf("%s: function: %s", r.id, describe(got))
			}
		}
		for form, words := range map[string]string{
			"body": r.reference, "trimmed body": strings.TrimSpace(r.reference), "fenced function": "Sure!\n" + fenced(function) + "Done.",
		} {
			if got := verifySaid(t, v, makeCase(t, r.spec), words); got.Outcome != verdict.Passed {
				t.Errorf("%s: %s: %s", r.id, form, describe(got))
			}
		}
	}
	t.Logf("%d prompts have more than the function's head", leaning)
}
