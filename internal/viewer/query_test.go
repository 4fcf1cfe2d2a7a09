package viewer

import (
	"fmt"
	"net/url"
	"strings"
	"testing"
)

// manyRows are rows of a large run.
func manyRows(n int) []Row {
	var rows []Row
	for i := range n {
		r := Row{Key: fmt.Sprintf("%d.1", i), Task: fmt.Sprintf("task/%d", i), Index: i, Attempt: 1, Family: []string{"one", "two"}[i%2], Outcome: "failed", Reason: "tests_failed",
			Basis: "computed", Containment: "split", Tags: []string{[]string{"easy", "hard"}[i%3/2]}, MS: int64(n - i)}
		if i%4 == 0 {
			r.Outcome, r.Reason, r.Passed = "passed", "", true
		}
		rows = append(rows, r)
	}
	return rows
}

// queries are questions and what is found of 1000 rows: how many, and the first.
func queries() map[string]string {
	return map[string]string{
		"":                                    "1000 task/0",
		"outcome=passed":                      "250 task/0",
		"outcome=passed&family=two":           "0 ",
		"q=TASK%2F99+fail":                    "9 task/99", // 99, 990 to 999 without 992 and 996
		"q=easy&tag=hard":                     "0 ",
		"tag=hard&sort=time":                  "333 task/998",
		"sort=-task":                          "1000 task/999",
		"sort=nonsense&page=3":                "1000 task/200",
		"page=999999":                         "1000 task/900",
		"page=-1":                             "1000 task/0",
		"page=x&reason=tests_failed":          "750 task/1",
		"sort=__proto__&q=" + "constructor":   "0 ",
		"sort=reason&containment=split&q=%00": "0 ",
	}
}

func asked(f Found) string {
	first := ""
	if len(f.Rows) > 0 {
		first = f.Rows[0].Task
	}
	return fmt.Sprintf("%d %s", f.Found, first)
}

// TestQuery: what is found is what was asked for.
func TestQuery(t *testing.T) {
	t.Parallel()
	rows := manyRows(1000)
	for text, want := range queries() {
		by, err := url.ParseQuery(text)
		if err != nil {
			t.Fatal(err)
		}
		if got := asked(query(rows, nil, by)); got != want {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
	f := facets(rows)
	if got := fmt.Sprint(f["outcome"], f["tag"]); !strings.Contains(got, "{passed 250}") || !strings.Contains(got, "{hard 333}") {
		t.Error(got)
	}
}

// BenchmarkQuery measures one filter of a run with 10,000 attempts.
func BenchmarkQuery(b *testing.B) {
	rows, by := manyRows(10_000), url.Values{"q": {"task/99 failed"}, "sort": {"-time"}, "family": {"two"}}
	for b.Loop() {
		query(rows, nil, by)
	}
}
