package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"securebench/internal/console"
)

// example is a block of code in a document.
type example struct {
	file     string
	line     int
	language string
	text     string
}

func (e example) String() string { return fmt.Sprintf("%s:%d", e.file, e.line) }

// examples returns the blocks of code of the documents, and the command lines in
// their sentences.
func examples(t *testing.T) (all []example) {
	t.Helper()
	root := filepath.Join("..", "..")
	files := []string{filepath.Join(root, "README.md"), filepath.Join(root, "CONTRIBUTING.md"), filepath.Join(root, "bench", "peers", "README.md")}
	for _, pattern := range []string{"docs/*.md", "docs/*/*.md", "packs/*/*.md", "examples/*/*.md"} {
		found, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, found...)
	}
	for _, path := range files {
		text, err := os.ReadFile(path)
		if os.IsNotExist(err) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		var open *example
		n := 0
		for line := range strings.Lines(string(text)) {
			n++
			language, fence := strings.CutPrefix(strings.TrimSpace(line), "```")
			switch {
			case !fence && open != nil:
				open.text += line
			case fence && open == nil:
				name, err := filepath.Rel(root, path)
				if err != nil {
					t.Fatal(err)
				}
				open = &example{file: name, line: n + 1, language: language}
			case fence:
				all = append(all, *open)
				open = nil
			}
		}
		for _, m := range codeSpan.FindAllSubmatchIndex(text, -1) {
			name, err := filepath.Rel(root, path)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, example{name, 1 + bytes.Count(text[:m[0]], []byte("\n")), "sentence", string(text[m[2]:m[3]])})
		}
		if open != nil {
			t.Errorf("%v: a block of code without an end", open)
		}
	}
	return all
}

var (
	// codeSpan is a command line in a sentence.
	codeSpan     = regexp.MustCompile("`(securebench [^`]*)`")
	continuation = regexp.MustCompile(`\\\n\s*`)
	remark       = regexp.MustCompile(`(^|\s+)#.*`)
	// programCall is a call of securebench at the beginning of a line, or after a
	// variable, a pipe or the like.
	programCall = regexp.MustCompile(`(?:^|[|;&(]\s*|\s)(?:\w+=\S*\s+)*(?:\./)?(?:bin/)?securebench((?:\s+(?:'[^']*'|"[^"]*"|[^\s|;&<>()'"]+))*)`)
	shellWord   = regexp.MustCompile(`'[^']*'|"[^"]*"|\S+`)
	makeCall    = regexp.MustCompile(`^make((?:\s+[^\s|;&<>()]+)*)`)
)

// calls returns the calls of securebench in lines of a shell.
func calls(text string) (all [][]string) {
	for line := range strings.Lines(continuation.ReplaceAllString(text, " ")) {
		for _, m := range programCall.FindAllStringSubmatch(remark.ReplaceAllString(strings.TrimSpace(line), ""), -1) {
			args := []string{}
			for _, word := range shellWord.FindAllString(m[1], -1) {
				args = append(args, strings.Trim(word, `'"`))
			}
			all = append(all, args)
		}
	}
	return all
}

// parsed reports why the program would refuse a command line, before it looks
// at any file.
func parsed(args []string) error {
	a := &app{stdout: &console.Stream{W: new(bytes.Buffer)}, stderr: &console.Stream{W: new(bytes.Buffer)}}
	root := a.root()
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	cmd, rest, err := root.Find(args)
	if err != nil {
		return err
	}
	if cmd.DisableFlagParsing {
		return nil
	}
	if err := cmd.ParseFlags(rest); err != nil {
		return err
	}
	if cmd.HasSubCommands() && !strings.Contains(cmd.Use, " ") && len(args) > 0 && len(cmd.Flags().Args()) > 0 {
		return fmt.Errorf("%s has no command %s", cmd.CommandPath(), cmd.Flags().Args()[0])
	}
	for _, check := range []func() error{
		func() error { return cmd.ValidateArgs(cmd.Flags().Args()) }, cmd.ValidateRequiredFlags, cmd.ValidateFlagGroups,
	} {
		if help, _ := cmd.Flags().GetBool("help"); help {
			return nil
		}
		if err := check(); err != nil {
			return err
		}
	}
	return nil
}

// TestDocumentedCommands checks that the program takes every command line of the
// documents and of its own help, and that each target of make exists.
func TestDocumentedCommands(t *testing.T) {
	if parsed([]string{"run", "pack", "--no-such-flag"}) == nil || parsed([]string{"pack", "explode"}) == nil ||
		parsed([]string{"verify"}) == nil || len(calls("FOO=1 bin/securebench verify \\\n  'a b' # --x\n(umask 077; ./securebench version) | cat")) != 2 {
		t.Fatal("the test finds nothing wrong with what is wrong")
	}
	makefile, err := os.ReadFile(filepath.Join("..", "..", "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	check := func(where, text string, sentence bool) {
		for _, args := range calls(text) {
			n++
			if _, rest, err := (&app{}).root().Find(args); sentence && err == nil && len(rest) == 0 {
				continue // a command is spoken of
			}
			if err := parsed(args); err != nil {
				t.Errorf("%s: securebench %s: %v", where, strings.Join(args, " "), err)
			}
		}
	}
	for _, e := range examples(t) {
		if e.language != "sh" && e.language != "sentence" || e.text == "securebench tree 2" { // the comment of an archive
			continue
		}
		check(e.String(), e.text, e.language == "sentence")
		for line := range strings.Lines(e.text) {
			m := makeCall.FindStringSubmatch(remark.ReplaceAllString(strings.TrimSpace(line), ""))
			if m == nil {
				continue
			}
			for _, word := range strings.Fields(m[1]) {
				if !strings.Contains(word, "=") && !strings.HasPrefix(word, "-") && !bytes.Contains(makefile, []byte("\n"+word+":")) {
					t.Errorf("%v: make has no target %s", e, word)
				}
			}
		}
	}
	var walk func(*cobra.Command)
	walk = func(cmd *cobra.Command) {
		check(cmd.CommandPath()+" --help", cmd.Example, false)
		for _, sub := range cmd.Commands() {
			walk(sub)
		}
	}
	walk((&app{}).root())
	if n < 50 {
		t.Errorf("only %d command lines were found", n)
	}
}

// TestDocumentedFiles checks that each tester YAML, manifest and row in the
// documents can be saved and used as it stands. Parts of them are put where they
// belong.
func TestDocumentedFiles(t *testing.T) {
	const (
		manifest = "id: documented\nversion: 1\n"
		head     = "schema_version: \"0.2\"\nrun: {id: r, output_dir: out}\nbenchmark: {manifest: pack/manifest.yaml, tasks: pack/tasks.jsonl}\n"
		row      = `{"id": "a", "family": "short_answer", "input": {"question": "2+2?"}, "eval": {"accepted_answers": ["4"]}}`
		code     = `{"id": "a", "family": "code_completion", "input": {"prompt": "p"}, "environment": {"image": "i"}, "eval": {"tests": %s}}`
		rubric   = `{"id": "a", "family": "artifact_task", "input": {"brief": "b", "output_spec": {"type": "csv", "path": "a.csv"}}, "eval": {"reference_artifact": "a\n1\n", "rubric": %s}}`
		service  = `{"id": "a", "family": "terminal_task", "input": {"instructions": "i"}, "environment": {"image": "i"}, "eval": {"start": %s, "checker": {"command": ["true"]}}}`
	)
	n := 0
	for _, e := range examples(t) {
		files := map[string]string{"pack/manifest.yaml": manifest, "pack/tasks.jsonl": row}
		for _, name := range []string{"assets/total/prompt.md", "hidden/total/tests.py", "hidden/total/solution.py", "hidden/sum.csv", "hidden/stack/tests/test_order.py"} {
			files["pack/"+name] = "def test(): pass\n" // what rows name
		}
		arg := "pack"
		switch text := strings.TrimSpace(e.text); {
		case e.language == "yaml" && strings.Contains(e.text, "schema_version:"):
			files["tester.yaml"], arg = e.text, "tester.yaml"
			// Packs of the documents are this checkout's, or stand for the reader's.
			files["tester.yaml"] = regexp.MustCompile(`(manifest|tasks): \S+/(manifest.yaml|tasks.jsonl)`).ReplaceAllString(e.text, "$1: pack/$2")
		case e.language == "yaml" && strings.HasPrefix(text, "harness:"):
			files["tester.yaml"], arg = head+e.text, "tester.yaml"
		case e.language == "yaml" && strings.HasPrefix(text, "family:"):
			files = map[string]string{"pack/manifest.yaml": manifest}
			for name, content := range map[string]string{"task.yaml": e.text, "prompt.md": "p", "tests.py": "def test(): pass\n", "solution.py": "pass\n", "data/orders.csv": "1\n"} {
				files["pack/tasks/add/"+name] = content
			}
		case e.language == "yaml" && strings.Contains(e.text, "version:"):
			files["pack/manifest.yaml"] = e.text
		case e.language == "json" && strings.HasPrefix(text, `{"type"`):
			files["pack/tasks.jsonl"] = fmt.Sprintf(rubric, oneLine(t, e))
		case e.language == "json" && strings.Contains(text, `"id"`):
			files["pack/tasks.jsonl"] = e.text
		case e.language == "json" && strings.Contains(text, `"source"`):
			files["pack/tasks.jsonl"] = fmt.Sprintf(code, oneLine(t, e))
		case e.language == "json" && strings.Contains(text, `"digest": "sha256:…"`):
			continue // a lock file, which pack lock writes
		case e.language == "json" && strings.Contains(text, `"ready"`):
			files["pack/tasks.jsonl"] = fmt.Sprintf(service, oneLine(t, e))
		case e.language == "yaml" && strings.Contains(e.text, "  start:"):
			continue // of pack import --start, which has tests of its own
		case e.language == "yaml" && strings.Contains(e.text, "securebench report run --html"):
			continue // a recipe for CI, which a test of its own runs
		case e.language == "yaml" || e.language == "json":
			t.Errorf("%v: what is this a part of?", e)
			continue
		default:
			continue
		}
		n++
		dir := t.TempDir()
		for name, content := range files {
			path := filepath.Join(dir, name)
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				t.Fatal(err)
			}
			write(t, path, content)
		}
		var stdout, stderr bytes.Buffer
		if exit := execute([]string{"pack", "check", filepath.Join(dir, arg)}, &stdout, &stderr); exit != 0 {
			t.Errorf("%v: exit %d: %s%s", e, exit, &stdout, &stderr)
		}
	}
	if n < 8 {
		t.Errorf("only %d files were found", n)
	}
}

// oneLine returns the value of a part of a row, which documents may wrap.
func oneLine(t *testing.T, e example) string {
	t.Helper()
	var line bytes.Buffer
	if err := json.Compact(&line, []byte(e.text)); err != nil {
		t.Errorf("%v: %v", e, err)
	}
	return line.String()
}
