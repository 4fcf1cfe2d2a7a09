package bench

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// solution is what the agent writes for every task: each tests one of the
// functions, so that tasks are alike and nothing depends on a data set.
const solution = `def longest(words):
    best = ""
    for word in words:
        if len(word) > len(best):
            best = word
    return best


def running_sums(numbers):
    out, total = [], 0
    for n in numbers:
        total += n
        out.append(total)
    return out


def is_palindrome(text):
    letters = [c.lower() for c in text if c.isalnum()]
    return letters == letters[::-1]


def digits(number, base):
    out = []
    while number:
        number, digit = divmod(number, base)
        out.append(digit)
    return out[::-1] or [0]
`

// exercise is a function of the solution, and a test of it with a place for a number.
type exercise struct{ name, prompt, test string }

func exercises() []exercise {
	return []exercise{
		{"longest", "def longest(words):\n    \"\"\"Return the longest word, the first of several.\"\"\"\n",
			"    assert candidate(['a', 'b' * %[1]d, 'c']) == ('b' * %[1]d if %[1]d > 1 else 'a')\n    assert candidate([]) == ''\n"},
		{"running_sums", "def running_sums(numbers):\n    \"\"\"Return the sums of the first one, two, three and so on of the numbers.\"\"\"\n",
			"    assert candidate([%[1]d, 1, 2]) == [%[1]d, %[1]d + 1, %[1]d + 3]\n    assert candidate([]) == []\n"},
		{"is_palindrome", "def is_palindrome(text):\n    \"\"\"Say whether the letters and digits of a text are the same backwards.\"\"\"\n",
			"    assert candidate(str(%[1]d) + ', ' + str(%[1]d)[::-1])\n    assert not candidate('ab%[1]d')\n"},
		{"digits", "def digits(number, base):\n    \"\"\"Return the digits of a number, the highest first.\"\"\"\n",
			"    assert candidate(%[1]d, 1000000) == [%[1]d]\n    assert candidate(5, 2) == [1, 0, 1]\n    assert candidate(0, 7) == [0]\n"},
	}
}

// codePack writes a pack of tasks like those of HumanEval.
func codePack(dir, image string, rows int) error {
	all := exercises()
	return writePack(dir, object{"family": "code_completion", "environment": object{"image": image}}, rows, func(i int) object {
		x := all[i%len(all)]
		return object{"input": object{"prompt": x.prompt, "language": "python"}, "eval": object{
			"tests": object{"source": "inline", "entry_point": x.name,
				"code": "def check(candidate):\n" + fmt.Sprintf(x.test, i+1) + "\n\ncheck(" + x.name + ")\n"},
			"reference_solution": solution,
		}}
	})
}

// textPack writes a pack whose tasks need no engine.
func textPack(dir string, rows int) error {
	return writePack(dir, object{"family": "short_answer"}, rows, func(i int) object {
		return object{"input": object{"question": fmt.Sprintf("How much is %d plus %d?", i, i)},
			"eval": object{"accepted_answers": []string{fmt.Sprint(2 * i)}}}
	})
}

type object = map[string]any

func writePack(dir string, defaults object, rows int, row func(int) object) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("writing a pack: %w", err)
	}
	var lines bytes.Buffer
	for i := range rows {
		r := row(i)
		r["id"] = fmt.Sprintf("bench/%d", i)
		b, err := json.Marshal(r, json.Deterministic(true))
		if err != nil {
			return fmt.Errorf("writing a pack: %w", err)
		}
		lines.Write(append(b, '\n'))
	}
	if err := os.WriteFile(filepath.Join(dir, "tasks.jsonl"), lines.Bytes(), 0o600); err != nil {
		return fmt.Errorf("writing a pack: %w", err)
	}
	return writeYAML(filepath.Join(dir, "manifest.yaml"), object{"id": "bench", "version": 1, "defaults": defaults})
}

// tester writes a tester YAML beside the folder "pack".
func tester(dir, name, engine string, command []string, limits object) (string, error) {
	file := filepath.Join(dir, name+".yaml")
	config := object{"command": command}
	return file, writeYAML(file, object{
		"schema_version": "0.2",
		"run":            object{"id": name, "output_dir": name},
		"benchmark":      object{"manifest": "pack/manifest.yaml", "tasks": "pack/tasks.jsonl"},
		"harness":        object{"type": "command", "config": config},
		"limits":         limits,
		"sandbox":        object{"engine": engine},
	})
}

// writeYAML writes JSON, which is YAML too.
func writeYAML(file string, v object) error {
	b, err := json.Marshal(v, json.Deterministic(true), jsontext.WithIndent("  "))
	if err == nil {
		err = os.WriteFile(file, append(b, '\n'), 0o600)
	}
	if err != nil {
		return fmt.Errorf("writing %s: %w", filepath.Base(file), err)
	}
	return nil
}
