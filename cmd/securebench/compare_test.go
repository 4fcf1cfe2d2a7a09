package main

import (
	"encoding/json"
	"fmt"
	"math/big"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"securebench/internal/datatest"
)

// TestCompareRecorded replays the recorded answers of GSM8K's four models and
// compares the runs. What changed between models is known from the verdicts that
// the data set publishes; McNemar's p value is the exact sum over them. (That and
// all other figures are compared with scipy's in internal/compare.)
func TestCompareRecorded(t *testing.T) {
	t.Parallel()
	dir, models := t.TempDir(), []string{"6b_finetuning", "6b_verification", "175b_finetuning", "175b_verification"}
	rows, solutions := datatest.Rows(t, "gsm8k"), datatest.Solutions(t)
	args := []string{"compare", "--json"}
	for _, c := range [][]string{
		{"pack", "import", "gsm8k", rows, "-o", filepath.Join(dir, "pack")},
		{"pack", "import", "gsm8k-answers", solutions, "-o", filepath.Join(dir, "answers")},
	} {
		if res := securebench(t, nil, c...); res.code != 0 {
			t.Fatal(res.stderr)
		}
	}
	for _, m := range models {
		out := filepath.Join(dir, m)
		if res := securebench(t, nil, "run", filepath.Join(dir, "pack"), "--agent", "replay:"+filepath.Join(dir, "answers", m+".jsonl"), "-o", out, "-q"); res.code != 0 {
			t.Fatal(res.stderr)
		}
		args = append(args, out)
	}
	res := securebench(t, nil, args...)
	var got struct {
		Comparisons []struct {
			Counts  struct{ Both, Gained, Lost, Neither int }
			P       float64
			McNemar struct {
				Exact float64 `json:"exact_p"`
			}
			Interval [2]float64 `json:"interval_95"`
		}
	}
	if err := json.Unmarshal([]byte(res.stdout), &got); err != nil || len(got.Comparisons) != len(models)-1 {
		t.Fatalf("%v: %s%s", err, res.stdout, res.stderr)
	}
	verdicts := publishedVerdicts(t, solutions, models)
	for i, c := range got.Comparisons {
		var want struct{ Both, Gained, Lost, Neither int }
		for _, v := range verdicts {
			switch before, after := v[models[0]], v[models[i+1]]; {
			case before && after:
				want.Both++
			case before:
				want.Lost++
			case after:
				want.Gained++
			default:
				want.Neither++
			}
		}
		if c.Counts != want {
			t.Errorf("%s: %+v, the data says %+v", models[i+1], c.Counts, want)
		}
		p := exactMcNemar(t, want.Gained, want.Lost)
		if c.P != p || c.McNemar.Exact != p {
			t.Errorf("%s: p = %v, want %v", models[i+1], c.P, p)
		}
		d := float64(want.Gained-want.Lost) / float64(len(verdicts))
		if c.Interval[0] >= d || c.Interval[1] <= d {
			t.Errorf("%s: the difference %v is not in %v", models[i+1], d, c.Interval)
		}
	}
}

// publishedVerdicts reads what the data set says of each answer, row by row.
func publishedVerdicts(t *testing.T, file string, models []string) (out []map[string]bool) {
	t.Helper()
	for _, line := range datatest.Lines(t, file) {
		var row map[string]json.RawMessage
		if err := json.Unmarshal(line, &row); err != nil {
			t.Fatal(err)
		}
		of := map[string]bool{}
		for _, m := range models {
			var answer struct {
				Correct bool `json:"is_correct"`
			}
			if err := json.Unmarshal(row[m], &answer); err != nil {
				t.Fatal(err)
			}
			of[m] = answer.Correct
		}
		out = append(out, of)
	}
	return out
}

// exactMcNemar sums binomial coefficients, and cuts to six significant digits.
func exactMcNemar(t *testing.T, gained, lost int) float64 {
	t.Helper()
	n := int64(gained + lost)
	sum := new(big.Int)
	for k := range int64(min(gained, lost)) + 1 {
		sum.Add(sum, new(big.Int).Binomial(n, k))
	}
	p := new(big.Rat).SetFrac(sum.Lsh(sum, 1), new(big.Int).Lsh(big.NewInt(1), uint(n)))
	exact, _ := p.Float64()
	cut, err := strconv.ParseFloat(strings.TrimSpace(fmt.Sprintf("%.6g", min(1, exact))), 64)
	if err != nil {
		t.Fatal(err)
	}
	return cut
}
