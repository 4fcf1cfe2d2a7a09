package checker_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"go.uber.org/goleak"

	"securebench/internal/family"
	"securebench/internal/family/checker"
	"securebench/internal/sandbox"
	"securebench/internal/sandbox/enginetest"
	"securebench/internal/verdict"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// files are checkers of packs.
var files = map[string]string{
	"right.py": `
import dataclasses, json

@dataclasses.dataclass
class Wanted:
    words: int

def check(answer, text, row):
    wanted = Wanted(row["eval"]["words"])
    return min(1, len(text.split()) / wanted.words), json.dumps([answer, row["id"], row["input"]["question"]])
`,
	"state.py":   "seen = []\ndef check(answer, text, row):\n    seen.append(text)\n    return len(seen) == 1, ''\n",
	"raises.py":  "def check(answer, text, row):\n    raise KeyError('gold is ' + row['id'])\n",
	"exits.py":   "import sys\ndef check(answer, text, row):\n    sys.exit(0)\n",
	"dies.py":    "import os\ndef check(answer, text, row):\n    os._exit(0)\n",
	"more.py":    "def check(answer, text, row):\n    return 1.5, ''\n",
	"nan.py":     "def check(answer, text, row):\n    return float('nan'), ''\n",
	"bare.py":    "def check(answer, text, row):\n    return True\n",
	"broken.py":  "def check(answer, text, row:\n",
	"nothing.py": "x = 1\n",
	"waits.py":   "import time\ndef check(answer, text, row):\n    time.sleep(3600)\n",
	"eats.py":    "def check(answer, text, row):\n    return len([bytearray(1 << 20) for _ in range(4096)]), ''\n",
	"prints.py":  "import os, sys\ndef check(answer, text, row):\n    print('noise' * 100000)\n    os.write(1, b'\\xff' * 100)\n    return 1, ''\n",
	"leaves.py":  "import os, time\ndef check(answer, text, row):\n    if os.fork() == 0:\n        os.closerange(3, 100)\n        time.sleep(3600)\n    return 1, ''\n",
	"evals.py":   "def check(answer, text, row):\n    return text == 'import os', 'it is data'\n",
}

// asker asks checkers on a real engine.
type asker struct {
	t  *testing.T
	c  *checker.Checkers
	of family.Case
}

func newAsker(t *testing.T) asker {
	t.Helper()
	e := enginetest.Open(t)
	dir := t.TempDir()
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	f, err := family.OpenFiles("", dir, nil, map[string]string{"changed.py": "sha256:0"})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "changed.py"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	c := checker.New(family.Resources{Engine: e, RunID: enginetest.Run("checker"), Workers: 1, Files: f})
	t.Cleanup(func() {
		if err := errors.Join(c.Close(context.WithoutCancel(t.Context())), f.Close()); err != nil {
			t.Error(err)
		}
	})
	return asker{t, c, family.Case{Image: enginetest.Image(t, e), Limits: sandbox.Limits{Memory: 256 << 20, Timeout: time.Minute}}}
}

// ask asks one checker.
func (a asker) ask(path, text string) (checker.Result, error) {
	a.t.Helper()
	answer := "stated"
	return a.c.Ask(a.t.Context(), a.of, checker.Options{Path: path},
		checker.Question{Answer: &answer, Text: text, Row: jsontext.Value(`{"id": "r1", "input": {"question": "?"}, "eval": {"words": 4}}`)})
}

// TestCheckers: a checker gets the answer, the text and the row as data, and each call
// is a process of its own.
func TestCheckers(t *testing.T) {
	a := newAsker(t)
	for _, tt := range []struct {
		path, text string
		score      float64
		reason     string
	}{
		{"right.py", "one two three four", 1, `["stated", "r1", "?"]`},
		{"right.py", "one two", 0.5, `["stated", "r1", "?"]`},
		{"right.py", "", 0, `["stated", "r1", "?"]`},
		{"state.py", "first", 1, ""},
		{"state.py", "second", 1, ""},
		{"prints.py", "x", 1, ""},
		{"leaves.py", "x", 1, ""},
		{"evals.py", "import os", 1, "it is data"},
	} {
		got, err := a.ask(tt.path, tt.text)
		if err != nil || got.Score != tt.score || got.Reason != tt.reason {
			t.Errorf("%s, %q: %+v, %v", tt.path, tt.text, got, err)
		}
	}
}

// TestPackFaults: whatever goes wrong in a checker is the pack's, and the next question
// is answered.
func TestPackFaults(t *testing.T) {
	a := newAsker(t)
	for path, want := range map[string]string{
		"raises.py": "gold is r1", "exits.py": "SystemExit", "dies.py": "ended with status 0", "more.py": "from 0 to 1, not 1.5", "nan.py": "not nan",
		"bare.py": "not bool", "broken.py": "SyntaxError", "nothing.py": "AttributeError", "waits.py": "", "eats.py": "", "none.py": "", "changed.py": "",
	} {
		b := a
		if path == "waits.py" {
			b.of.Limits.Timeout = 300 * time.Millisecond
		}
		got, err := b.ask(path, "x")
		f, ok := errors.AsType[*family.Failure](err)
		if !ok || f.Reason != verdict.PackFault || f.Outcome() != verdict.Pending || !strings.Contains(got.Trace, want) {
			t.Errorf("%s: %+v, %v", path, got, err)
			continue
		}
		if strings.Contains(f.Message, "r1") {
			t.Errorf("%s: the message says what the checker does: %s", path, f.Message)
		}
		if got, err := a.ask("evals.py", "import os"); err != nil || got.Score != 1 {
			t.Errorf("after %s: %+v, %v", path, got, err)
		}
	}
}
