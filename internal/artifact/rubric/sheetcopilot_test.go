package rubric_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	"securebench/internal/artifact"
	"securebench/internal/artifact/reader"
	"securebench/internal/artifact/rubric"
	"securebench/internal/datatest"
)

// copilotTask is a task of SheetCopilot that changes cells alone.
type copilotTask struct {
	ID      string                                           `json:"id"`
	Source  string                                           `json:"source"`
	Golds   []string                                         `json:"golds"`
	Board   map[string]map[string]map[string]map[string]bool `json:"check_board"`
	Checked []string                                         `json:"checked"`
	dir     string
}

// copilotTasks reads the tasks whose workbooks are compared by cells alone.
func copilotTasks(t *testing.T) (out []copilotTask) {
	rows := datatest.Rows(t, "sheetcopilot")
	for _, line := range datatest.Lines(t, rows) {
		task := copilotTask{dir: filepath.Dir(rows)}
		if err := json.Unmarshal(line, &task); err != nil {
			t.Fatal(err)
		}
		if slices.Equal(task.Checked, []string{"cells"}) {
			out = append(out, task)
		}
	}
	return out
}

func readWorkbook(t *testing.T, name string) *artifact.File {
	t.Helper()
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	f, err := reader.Read(data, artifact.XLSX)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return f
}

// rubricOf is what the task's board says of a gold: which sheets are compared, by values
// or by formats as well.
func (task copilotTask) rubricOf(t *testing.T, name string, gold *artifact.File) *rubric.Rubric {
	t.Helper()
	var parts []string
	for _, number := range slices.Sorted(maps.Keys(task.Board[name])) {
		cells := task.Board[name][number]["cells"]
		i, err := strconv.Atoi(number)
		if err != nil || i < 1 || i > len(gold.Workbook.Sheets) {
			t.Fatalf("%s: %s has no sheet %s", task.ID, name, number)
		}
		sheet, err := json.Marshal(gold.Workbook.Sheets[i-1].Name)
		if err != nil {
			t.Fatal(err)
		}
		if cells["values"] {
			parts = append(parts, fmt.Sprintf(`{"type":"cells","sheet":%s}`, sheet))
		}
		if cells["formatting"] {
			parts = append(parts, fmt.Sprintf(`{"type":"cells","sheet":%s,"compare":"format"}`, sheet))
		}
	}
	if len(parts) == 0 {
		return nil
	}
	return parse(t, `{"all":[`+strings.Join(parts, ",")+`]}`)
}

// TestSheetCopilot: each gold passes against its task's golds, the unchanged workbook does
// not, and a changed cell is found.
func TestSheetCopilot(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4)) //nolint:gosec // for made workbooks
	mutated, missed, tasks := 0, 0, 0
	var unchanged []string
	for _, task := range copilotTasks(t) {
		tasks++
		before := readWorkbook(t, filepath.Join(task.dir, task.Source))
		same := false
		for _, name := range task.Golds {
			gold := readWorkbook(t, filepath.Join(task.dir, "gold", task.ID, name))
			r := task.rubricOf(t, name, gold)
			if r == nil {
				continue
			}
			if res, err := r.Compare(gold, gold); err != nil || !res.Pass {
				t.Errorf("%s: its gold %s is %+v, %v", task.ID, name, res, err)
			}
			if faults := r.Check(gold); len(faults) > 0 {
				t.Errorf("%s: its gold %s has %q", task.ID, name, faults)
			}
			same = same || passes(t, r, before, gold)
			for range 60 {
				changed, what := mutate(gold, task.Board[name], random)
				if changed == nil {
					continue
				}
				mutated++
				if passes(t, r, changed, gold) {
					missed++
					t.Errorf("%s: %s passes against %s", task.ID, what, name)
				}
			}
		}
		if same {
			unchanged = append(unchanged, task.ID)
		}
	}
	t.Logf("%d tasks, %d changed cells, unchanged passes in %q", tasks, mutated, unchanged)
	if missed > 0 || tasks == 0 {
		t.Errorf("%d of %d changed cells are missed", missed, mutated)
	}
}

// mutate changes one cell of a sheet whose values are compared.
func mutate(f *artifact.File, board map[string]map[string]map[string]bool, random *rand.Rand) (*artifact.File, string) {
	var sheets []int
	for number, parts := range board {
		if i, err := strconv.Atoi(number); err == nil && parts["cells"]["values"] && len(f.Workbook.Sheets[i-1].Cells) > 0 {
			sheets = append(sheets, i-1)
		}
	}
	if len(sheets) == 0 {
		return nil, ""
	}
	slices.Sort(sheets)
	out := *f
	book := artifact.Workbook{Sheets: slices.Clone(f.Workbook.Sheets)}
	out.Workbook = &book
	s := &book.Sheets[sheets[random.IntN(len(sheets))]]
	s.Cells = slices.Clone(s.Cells)
	c := &s.Cells[random.IntN(len(s.Cells))]
	before := *c
	c.Formula, c.Stored, c.Uncomputed = "", nil, false
	switch v := &c.Value; {
	case random.IntN(5) == 0:
		c.Value = artifact.Value{}
	case v.Kind == artifact.Number:
		v.Number += []float64{0.01, -1, 1000, 0.0051}[random.IntN(4)]
	case v.Kind == artifact.Date:
		v.Number += []float64{1, -1, 365}[random.IntN(3)]
	case v.Kind == artifact.String && random.IntN(2) == 0:
		v.Text += "."
	case v.Kind == artifact.Bool:
		v.Number = 1 - v.Number
	default:
		c.Value = artifact.Value{Kind: artifact.String, Text: "another text"}
	}
	if before.Value == c.Value || before.Value.Text == "" && (before.Value.Kind == artifact.Empty || before.Value.Kind == artifact.String) && c.Value.Kind == artifact.Empty {
		return nil, "" // an empty text is nothing
	}
	return &out, fmt.Sprintf("%+v for %+v in sheet %s", c.Value, before.Value, s.Name)
}
