package importer_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"securebench/internal/artifact"
	"securebench/internal/artifact/reader"
	"securebench/internal/artifact/rubric"
	"securebench/internal/artifact/spoilt"
	"securebench/internal/datatest"
	"securebench/internal/importer"
)

// deliverable is a row of an imported pack, with its files as they read.
type deliverable struct {
	id     string
	rubric *rubric.Rubric
	metric bool
	wanted []*artifact.File
	before *artifact.File // nil without one
}

func (d deliverable) passes(t *testing.T, f *artifact.File) bool {
	t.Helper()
	for _, want := range d.wanted {
		res, err := d.rubric.Compare(f, want)
		if err != nil {
			t.Errorf("%s: %v", d.id, err)
		}
		if res.Pass {
			return true
		}
	}
	return false
}

// deliverables imports a data set and reads its files. Rows of several files are left out.
func deliverables(t *testing.T, format, rows string, o importer.Options) (out []deliverable) {
	t.Helper()
	dir, _ := importFile(t, format, rows, o)
	at := func(name string, kind artifact.Type) *artifact.File {
		data, err := os.ReadFile(filepath.Join(dir, filepath.FromSlash(name)))
		if err != nil {
			return nil
		}
		f, err := reader.Read(data, kind)
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		return f
	}
	for line := range strings.Lines(read(t, dir, "tasks.jsonl")) {
		var row struct {
			ID    string `json:"id"`
			Input struct {
				Output struct {
					Type artifact.Type `json:"type"`
					Path string        `json:"path"`
				} `json:"output_spec"`
			} `json:"input"`
			Assets []struct{ Path, Mount string } `json:"assets"`
			Eval   struct {
				Reference jsontext.Value `json:"reference_artifact"`
				Rubric    jsontext.Value `json:"rubric"`
			} `json:"eval"`
		}
		if err := json.Unmarshal([]byte(line), &row, json.MatchCaseInsensitiveNames(true)); err != nil {
			t.Fatal(err)
		}
		d := deliverable{id: row.ID, metric: bytes.Contains(row.Eval.Rubric, []byte(`"metric"`))}
		var err error
		if d.rubric, err = rubric.Parse(row.Eval.Rubric); err != nil {
			t.Fatalf("%s: %v", row.ID, err)
		}
		references := []struct{ Path string }{{}}
		into := any(&references[0])
		if row.Eval.Reference.Kind() == '[' {
			into = &references
		}
		if err := json.Unmarshal(row.Eval.Reference, into, json.MatchCaseInsensitiveNames(true)); err != nil {
			t.Fatal(err)
		}
		for _, ref := range references {
			d.wanted = append(d.wanted, at("eval/"+ref.Path, row.Input.Output.Type))
		}
		for _, a := range row.Assets {
			if a.Mount == row.Input.Output.Path {
				d.before = at("assets/"+a.Path, row.Input.Output.Type)
			}
		}
		out = append(out, d)
	}
	return out
}

// TestDeliverables: under either rule, the references of a data set pass; the file that the
// agent finds and a file with a wrong value do not, but for rows that validation names; a
// table with every guess passes by DA-Code's own rule, and not by ours.
func TestDeliverables(t *testing.T) {
	for _, tt := range []struct{ format, rule string }{
		{importer.DACode, importer.OfficialRule}, {importer.DACode, importer.OwnRule}, {importer.SheetCopilot, importer.OfficialRule},
	} {
		t.Run(tt.format+"/"+tt.rule, func(t *testing.T) {
			rows := deliverables(t, tt.format, datatest.Rows(t, tt.format), importer.Options{Name: datatest.Rows(t, tt.format), Rule: tt.rule})
			unchanged, changed, missed, tables, guessed := 0, 0, 0, 0, 0
			for _, d := range rows {
				for i, want := range d.wanted {
					if !d.passes(t, want) {
						t.Errorf("%s: reference %d does not pass", d.id, i+1)
					}
				}
				if faults := d.rubric.Check(d.wanted[0]); len(faults) > 0 {
					t.Errorf("%s: %q", d.id, faults)
				}
				if d.before != nil && d.passes(t, d.before) {
					t.Logf("%s: the file that the agent finds passes", d.id)
					unchanged++
				}
				for _, empty := range spoilt.Empty(d.wanted[0]) {
					if d.passes(t, empty) {
						t.Errorf("%s: an empty file passes", d.id)
					}
				}
				if g := spoilt.Guesses(d.wanted[0]); g != nil && !d.metric {
					if tables++; d.passes(t, g) {
						guessed++
					}
				}
				if d.metric {
					continue
				}
				n := spoilt.Values(d.wanted[0])
				for i := range min(n, 100) {
					at := i * n / min(n, 100)
					beyond := spoilt.Changed(d.wanted[0], at, spoilt.Beyond)
					if beyond == nil || d.passes(t, beyond) {
						continue // it is not compared
					}
					if changed++; d.passes(t, spoilt.Changed(d.wanted[0], at, spoilt.Slightly)) {
						t.Logf("%s: value %d of %d may be wrong", d.id, at, n)
						missed++
					}
				}
			}
			t.Logf("%d rows: %d pass unchanged, %d of %d wrong values pass, %d of %d tables of guesses", len(rows), unchanged, missed, changed, guessed, tables)
			if len(rows) == 0 || missed > 0 || unchanged*20 > len(rows) || changed == 0 {
				t.Error("too much passes")
			}
			if want := map[bool]int{true: tables}[tt.rule == importer.OfficialRule]; tt.format == importer.DACode && guessed != want {
				t.Errorf("%d of %d tables of guesses pass, want %d", guessed, tables, want)
			}
		})
	}
}
