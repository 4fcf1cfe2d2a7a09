package complete

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// TestTasks: the ids of a pack's file of rows and of a folder of tasks are offered, and those
// of a file that is too large to be read at once are not.
func TestTasks(t *testing.T) {
	const row = `{"id": "a", "input": {"question": "2+2?"}, "eval": {"accepted_answers": ["4"]}}` + "\n"
	for name, c := range map[string]struct {
		file, text string
		size       int64
		want       string
	}{
		"rows":              {"tasks.jsonl", row, int64(len(row)), "[a]"},
		"too many rows":     {"tasks.jsonl", row, maxBytes + 1, "[]"},
		"a folder of tasks": {"tasks/b/task.yaml", "input: {question: 2+2?}\neval: {accepted_answers: [\"4\"]}\n", 0, "[b]"},
	} {
		t.Run(name, func(t *testing.T) {
			pack := t.TempDir()
			file := filepath.Join(pack, c.file)
			for _, err := range []error{
				os.WriteFile(filepath.Join(pack, "manifest.yaml"), []byte("id: one\nversion: 1\ndefaults: {family: short_answer}\n"), 0o600),
				os.MkdirAll(filepath.Dir(file), 0o700), os.WriteFile(file, []byte(c.text), 0o600), os.Truncate(file, max(c.size, int64(len(c.text)))),
			} {
				if err != nil {
					t.Fatal(err)
				}
			}
			if got := fmt.Sprint(tasks([]string{pack})); got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
		})
	}
}
