package rubric_test

import (
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"securebench/internal/artifact"
	"securebench/internal/datatest"
)

// recorded is what the scorer of DA-Code itself said of a made file: commit b211daf of
// its repository, with pandas 3.1.1 and Python's json.
type recorded struct {
	Rubric    jsontext.Value `json:"rubric"`
	Reference string         `json:"reference"`
	Candidate string         `json:"candidate"`
	Score     float64        `json:"score"`
}

// TestDacodeRecorded holds the official rule to its own scorer's verdicts on variants of
// tables and data: other numbers, texts, types, orders, columns, rows, spellings.
func TestDacodeRecorded(t *testing.T) {
	passed := 0
	lines := datatest.Lines(t, filepath.Join("testdata", "dacode.jsonl"))
	for i, line := range lines {
		var c recorded
		if err := json.Unmarshal(line, &c, json.RejectUnknownMembers(true)); err != nil {
			t.Fatal(err)
		}
		r := parse(t, string(c.Rubric))
		file := jsonFile
		if strings.Contains(string(c.Rubric), "table") {
			file = func(s string) *artifact.File { return csvFile(t, s) }
		}
		res, err := r.Compare(file(c.Candidate), file(c.Reference))
		if err != nil {
			t.Errorf("%d: %v", i, err)
			continue
		}
		holds(t, res)
		if res.Pass != (c.Score == 1) || res.Measure != nil && res.Measure.Value != c.Score {
			t.Errorf("%d: %s of %q for %q: %+v, and the scorer says %v", i, c.Rubric, c.Candidate, c.Reference, res, c.Score)
		}
		if res.Pass {
			passed++
		}
	}
	if passed < len(lines)/5 || passed > len(lines)*4/5 {
		t.Errorf("%d of %d pass: the variants tell little", passed, len(lines))
	}
}

func TestDacodeParse(t *testing.T) {
	for raw, fault := range map[string]string{
		`{"type":"table","match":"dacode"}`:                     ``,
		`{"type":"table","match":"dacode","columns":["b"]}`:     `columns names "b", which the reference lacks`,
		`{"type":"table","match":"dacode","columns":["a","a"]}`: ``,
		`{"type":"json","match":"dacode"}`:                      `the reference is no JSON to compare with`,
	} {
		r := parse(t, raw)
		if got := r.Official(); !slices.Equal(got, []string{"dacode"}) {
			t.Errorf("%s has the official rules %q", raw, got)
		}
		faults := strings.Join(r.Check(csvFile(t, "a,a\n1,2\n")), "\n")
		if faults != fault {
			t.Errorf("%s has %q", raw, faults)
		}
	}
	if got := parse(t, `{"type":"table"}`).Official(); got != nil {
		t.Errorf("a rule of one's own is official: %q", got)
	}
	for raw, fault := range map[string]string{`{"a":null}`: "null, true", `{}`: "no object with members", `[`: "no JSON"} {
		if faults := parse(t, `{"type":"json","match":"dacode"}`).Check(jsonFile(raw)); len(faults) != 1 || !strings.Contains(faults[0], fault) {
			t.Errorf("%s has %q", raw, faults)
		}
	}
}

// dacodeRow is a row of the data set whose answer is a table or data.
type dacodeRow struct {
	id, official, own string // and rubrics
	gold              *artifact.File
}

// dacodeRows reads the data set and makes rubrics of both rules.
func dacodeRows(t *testing.T) (out []dacodeRow) {
	for _, line := range datatest.Lines(t, datatest.Rows(t, "dacode")) {
		var row struct {
			ID   string `json:"id"`
			Eval struct {
				Func    []string         `json:"func"`
				Result  jsontext.Value   `json:"result"`
				Options []map[string]any `json:"options"`
			} `json:"eval"`
		}
		if err := json.Unmarshal(line, &row); err != nil {
			t.Fatal(err)
		}
		order, kind := `"as_is"`, "table"
		if row.Eval.Options[0]["ignore_order"] == true {
			order = `"any"`
		}
		golds, err := filepath.Glob(filepath.Join(datatest.Dir(t), "dacode", "public", "gold", row.ID, "*"))
		if err != nil || len(golds) == 0 {
			t.Fatalf("%s has no gold: %v", row.ID, err)
		}
		text := joinLines(datatest.Lines(t, golds[0]))
		var gold *artifact.File
		switch row.Eval.Func[0] {
		case "compare_csv":
			gold = csvFile(t, text)
		case "compare_text":
			gold, kind = jsonFile(text), "json"
		default:
			continue
		}
		own := `{"type":"table","order":` + order + `,"columns":{"*":{"tolerance":0.01,"ignore_case":true}}}`
		if kind == "json" {
			own = `{"type":"json","order":` + order + `,"tolerance":0.01,"ignore_case":true}`
		}
		out = append(out, dacodeRow{row.ID, `{"type":"` + kind + `","match":"dacode","order":` + order + `}`, own, gold})
	}
	return out
}

func joinLines(lines [][]byte) string {
	var b strings.Builder
	for _, line := range lines {
		b.Write(line)
		b.WriteByte('\n')
	}
	return b.String()
}

// TestDacodeRows: what is right passes by both rules. What has other guesses beside it
// passes by the official one alone (A3).
func TestDacodeRows(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // for made tables
	tables := 0
	for _, row := range dacodeRows(t) {
		official, own := parse(t, row.official), parse(t, row.own)
		for _, r := range []string{row.official, row.own} {
			if faults := parse(t, r).Check(row.gold); len(faults) > 0 {
				t.Errorf("%s: %s has %q", row.id, r, faults)
			}
		}
		if !passes(t, official, row.gold, row.gold) || !passes(t, own, row.gold, row.gold) {
			t.Errorf("%s: its own gold does not pass", row.id)
		}
		if row.gold.Table == nil {
			s := strings.TrimRight(*row.gold.Text, "\n}") + `, "or": ["any other guess"]}`
			if !passes(t, official, jsonFile(s), row.gold) || passes(t, own, jsonFile(s), row.gold) {
				t.Errorf("%s: a guess beside the answer", row.id)
			}
			continue
		}
		tables++
		guesses := &artifact.Table{}
		for i, line := range row.gold.Table.Rows {
			line = slices.Clone(line)
			for range 5 {
				guess := "guess"
				if i > 0 {
					guess = string(rune('0' + random.IntN(10)))
				}
				line = append(line, guess)
			}
			guesses.Rows = append(guesses.Rows, line)
		}
		all := &artifact.File{Type: artifact.CSV, Table: guesses}
		if !passes(t, official, all, row.gold) {
			t.Errorf("%s: the table with every guess does not pass the official rule", row.id)
		}
		if passes(t, own, all, row.gold) {
			t.Errorf("%s: the table with every guess passes our rule", row.id)
		}
	}
	if tables == 0 {
		t.Error("the data set has no tables")
	}
}
