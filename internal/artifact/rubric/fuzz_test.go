package rubric_test

import (
	"encoding/csv"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"securebench/internal/artifact"
	"securebench/internal/artifact/rubric"
)

// FuzzParse: what is no rubric is refused in one line, and nothing stops the reader.
func FuzzParse(f *testing.F) {
	for _, s := range []string{
		`{"type":"table","key":["id"],"columns":{"*":{"tolerance":0.01,"ignore_case":true},"x":{"ignore":true}},"extra_columns":"allow"}`,
		`{"type":"table","match":"dacode","columns":["a"],"order":"any","score_rule":"all"}`,
		`{"type":"json","ignore":["/a/*/b"],"order":{"/rows":"any"}}`, `{"type":"text","contains":["a"],"lacks":["b"]}`,
		`{"type":"metric","metric":"f1","positive":"1","id":"id","target":"y","at_least":0.5}`,
		`{"type":"cells","sheet":"S","range":"A1:B2,$C:$D,5:6","compare":"format","formats":["fill"]}`,
		`{"type":"workbook","charts":["type"],"pivot_tables":true}`, `{"type":"image","compare":"ssim","at_least":0.9}`,
		`{"type":"document","styles":["Title"],"pages":true}`, `{"all":[{"type":"archive","ignore":["x"]},{"type":"array"}]}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		r, err := rubric.Parse(raw)
		switch {
		case err != nil && (err.Error() == "" || strings.Contains(err.Error(), "\n")):
			t.Errorf("%q: an error that is no line: %q", raw, err)
		case err == nil:
			for _, line := range r.Check(csvFileOrNone("a,b\n1,2\n")) {
				if strings.Contains(line, "\n") {
					t.Errorf("%q: a fault of several lines: %q", raw, line)
				}
			}
		}
	})
}

// csvFileOrNone is the model of a CSV file, without rows if it is none.
func csvFileOrNone(s string) *artifact.File {
	rows, err := csv.NewReader(strings.NewReader(s)).ReadAll()
	if err != nil {
		rows = nil
	}
	return &artifact.File{Type: artifact.CSV, Table: &artifact.Table{Rows: rows}, Text: &s}
}

// FuzzCompare: whatever the files, there is a result or a fault of the reference, and a
// reference without faults passes itself.
func FuzzCompare(f *testing.F) {
	var rubrics []*rubric.Rubric
	for _, s := range []string{
		`{"type":"table"}`, `{"type":"table","order":"any","columns":{"*":{"tolerance":0.5}}}`, `{"type":"table","key":["id"],"extra_columns":"allow"}`,
		`{"type":"table","match":"dacode","order":"any"}`, `{"type":"json","order":"any","tolerance":0.1}`, `{"type":"json","ignore":["/a","/*/0"]}`,
		`{"type":"json","match":"dacode","order":"any"}`, `{"type":"text"}`, `{"type":"text","compare":"lines","order":"any"}`, `{"type":"text","contains":["a"]}`,
		`{"type":"metric","metric":"auc","id":"id","target":"y","at_least":0.5}`, `{"type":"metric","metric":"f1_macro","id":"id","target":"y","at_least":0.5}`,
		`{"type":"metric","metric":"map_at_k","k":3,"id":"id","target":"y","at_least":0.5}`, `{"type":"metric","metric":"log_loss","id":"id","target":["y","z"],"at_most":0.5}`,
		`{"type":"metric","metric":"quadratic_kappa","id":"id","target":"y","at_least":0.5}`, `{"type":"metric","metric":"r2","id":"id","target":"y","at_least":0.5}`,
	} {
		rubrics = append(rubrics, parse(f, s))
	}
	f.Add("id,y,z\n1,0,1\n2,1,0\n", "id,y,z\n2,0.9,0\n1,0.1,1\n")
	f.Add(`{"a":[1,{"b":2.5}],"c":null}`, `[{"A":"1"},[true,{"":1e5}]]`)
	f.Add("id,y\n1,1e400\n1,NaN\n", "id,y\n007,-inf\n,12345678901234567890\n")
	f.Fuzz(func(t *testing.T, gotText, wantText string) {
		got, want := csvFileOrNone(gotText), csvFileOrNone(wantText)
		for i, r := range rubrics {
			res, err := r.Compare(got, want)
			if err == nil {
				holds(t, res)
			}
			if len(r.Check(want)) > 0 {
				continue
			}
			if err != nil {
				t.Errorf("%d: the reference has no faults, and cannot be compared with: %v", i, err)
			}
			if res, err := r.Compare(want, want); err != nil || !res.Pass {
				t.Errorf("%d: the reference does not pass itself: %+v, %v", i, res, err)
			}
		}
	})
}

// Rows in any order within a tolerance are paired if any way of pairing them is right.
func TestAnyOrderProperty(t *testing.T) {
	r := parse(t, `{"type":"table","order":"any","columns":{"*":{"tolerance":1}}}`)
	row := rapid.SliceOfN(rapid.SampledFrom([]string{"0", "1", "2", "3", "x", ""}), 2, 2)
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 5).Draw(t, "rows")
		rows := rapid.SliceOfN(row, n, n)
		got, want := rows.Draw(t, "got"), rows.Draw(t, "want")
		file := func(rows [][]string) *artifact.File {
			return &artifact.File{Type: artifact.CSV, Table: &artifact.Table{Rows: append([][]string{{"a", "b"}}, rows...)}}
		}
		res, err := r.Compare(file(got), file(want))
		if err != nil {
			t.Fatal(err)
		}
		if pass := pairable(got, want); res.Pass != pass {
			t.Errorf("%v for %v passes: %t", got, want, res.Pass)
		}
	})
}

// pairable tries all ways.
func pairable(got, want [][]string) bool {
	if len(want) == 0 {
		return len(got) == 0
	}
	for i, g := range got {
		if near(g[0], want[0][0]) && near(g[1], want[0][1]) {
			rest := append(append([][]string{}, got[:i]...), got[i+1:]...)
			if pairable(rest, want[1:]) {
				return true
			}
		}
	}
	return false
}

func near(a, b string) bool {
	if len(a) != 1 || len(b) != 1 || a == "x" || b == "x" {
		return a == b
	}
	d := int(a[0]) - int(b[0])
	return d >= -1 && d <= 1
}
