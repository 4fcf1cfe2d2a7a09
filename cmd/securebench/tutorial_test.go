package main

import (
	"crypto/rand"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"securebench/internal/sampletest"
	"securebench/internal/sandbox/enginetest"
	"securebench/internal/wheels"
)

// step is a block of a tutorial: commands, a file to save, or what the commands
// before it print.
type step struct {
	line           int
	language, file string
	text           string
}

var (
	saveAs   = regexp.MustCompile("^Save this as `([^`]+)`:$")
	listens  = regexp.MustCompile(`--listen \S+:([0-9]+) .*&\n$`)
	endsWith = regexp.MustCompile(`^(.*\S)\s+# exit code ([0-9]+)$`)
)

// steps reads a tutorial.
func steps(t *testing.T, path string) (all []step) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var open *step
	file, n := "", 0
	for line := range strings.Lines(string(text)) {
		n++
		language, fence := strings.CutPrefix(strings.TrimSuffix(line, "\n"), "```")
		switch {
		case fence && open == nil:
			open = &step{line: n, language: language, file: file}
		case fence:
			all = append(all, *open)
			open, file = nil, ""
		case open != nil:
			open.text += line
		case strings.TrimSpace(line) != "":
			file = ""
			if m := saveAs.FindStringSubmatch(strings.TrimSpace(line)); m != nil {
				file = m[1]
			}
		}
	}
	return all
}

// checkout copies the packs and examples of this repository.
func checkout(t *testing.T) (dir string) {
	t.Helper()
	dir = t.TempDir()
	for _, part := range []string{"packs", "examples"} {
		if err := os.CopyFS(filepath.Join(dir, part), os.DirFS(filepath.Join("..", "..", part))); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// follow does what a tutorial says, in one shell, in a folder with a copy of this
// repository's packs and examples, and compares what it prints with what the tutorial
// says. "make build image" stands for what the tests have done already.
func follow(t *testing.T, name string, env ...string) {
	t.Helper()
	dir := checkout(t)
	program, err := binary()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir, "bin"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(program, filepath.Join(dir, "bin", "securebench")); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join("..", "..", "docs", "tutorials", name)
	mark := "block " + rand.Text() + "\n"
	var script strings.Builder
	script.WriteString("set -euo pipefail\nexec 2>&1\ntrap 'kill $(jobs -p) 2>/dev/null || true' EXIT\nmake() { case \"$*\" in build|'build image') ;; *) return 2 ;; esac; }\n")
	all := steps(t, path)
	for _, s := range all {
		fmt.Fprintf(&script, "printf '%%s' '%s'\n", mark)
		switch {
		case s.file != "":
			fmt.Fprintf(&script, "mkdir -p \"$(dirname '%s')\"\ncat > '%s' <<'END OF THE BLOCK'\n%sEND OF THE BLOCK\n", s.file, s.file, s.text)
		case s.language == "sh":
			for line := range strings.Lines(s.text) {
				script.WriteString(typedLine(line))
			}
		}
	}
	cmd := exec.CommandContext(t.Context(), "bash", "-c", script.String())
	cmd.Dir, cmd.Env = dir, append(append(os.Environ(), "HOME="+dir, "NO_COLOR=1", "SECUREBENCH_KEYS="+filepath.Join(dir, "keys"),
		"SECUREBENCH_IMAGES="+enginetest.Images(t)), env...)
	out, err := cmd.Output()
	printed := strings.Split(string(out), mark)[1:]
	if err != nil {
		t.Fatalf("%s:%d: %v\n%s", path, all[max(len(printed)-1, 0)].line, err, printed[len(printed)-1])
	}
	compareSteps(t, path, all, printed)
}

// typedLine is a line of a tutorial for a shell that ends with the first command that
// fails: it may say which exit code it has. People take longer to read on than a
// command in the background takes to listen.
func typedLine(line string) string {
	if m := endsWith.FindStringSubmatch(strings.TrimSuffix(line, "\n")); m != nil {
		return fmt.Sprintf("set +e; %s; code=$?; set -e; [ $code = %s ] || { echo \"exit code $code\"; exit 99; }\n", m[1], m[2])
	}
	if m := listens.FindStringSubmatch(line); m != nil {
		line += fmt.Sprintf("until (: >/dev/tcp/127.0.0.1/%s) 2>/dev/null; do kill -0 $!; sleep 0.1; done\n", m[1])
	}
	return line
}

// compareSteps compares what the commands of a tutorial printed with what it says.
func compareSteps(t *testing.T, path string, all []step, printed []string) {
	t.Helper()
	before, expected := "", 0
	for i, s := range all {
		if s.language != "text" {
			before = printed[i]
			continue
		}
		expected += strings.Count(s.text, "\n")
		if line := notPrinted(s.text, before); line != "" {
			t.Errorf("%s:%d: %q was not printed, but:\n%s", path, s.line, line, before)
		}
	}
	if expected < 3 {
		t.Errorf("%s says of only %d lines that they are printed", path, expected)
	}
}

// notPrinted returns the first line that is not a part of a printed line, in their
// order, or "". Several may be parts of one. Where a line has "…", there may be anything.
func notPrinted(want, printed string) string {
	lines := strings.Split(printed, "\n")
	for w := range strings.Lines(want) {
		w = strings.TrimSpace(w)
		form := regexp.MustCompile(strings.ReplaceAll(regexp.QuoteMeta(w), "…", ".*"))
		found := slices.IndexFunc(lines, form.MatchString)
		if found < 0 {
			return w
		}
		lines = lines[found:]
		lines[0] = lines[0][form.FindStringIndex(lines[0])[1]:]
	}
	return ""
}

// TestNotPrinted checks the comparison that the tests of tutorials make.
func TestNotPrinted(t *testing.T) {
	t.Parallel()
	if notPrinted("a\nb…c\n", "a\nx\nb 1 c\n") != "" || notPrinted("b\na\n", "a\nb\n") != "a" || notPrinted("a.c\n", "abc\n") != "a.c" ||
		notPrinted("a\nc\n", "abc\n") != "" || notPrinted("a\na\n", "abc\n") != "a" {
		t.Error("the comparison finds nothing wrong with what is wrong")
	}
}

// TestCheckAScoreTutorial follows docs/tutorials/check-a-score.md as it is written.
func TestCheckAScoreTutorial(t *testing.T) {
	t.Parallel()
	follow(t, "check-a-score.md", noDocker)
}

// TestFirstPackTutorial follows docs/tutorials/first-pack.md as it is written.
func TestFirstPackTutorial(t *testing.T) {
	t.Parallel()
	needEngine(t)
	follow(t, "first-pack.md")
}

// mpmathIndex is a registry of Python with the package that the tutorial requires. The
// package is that of the library that compares mathematical expressions.
func mpmathIndex(t *testing.T) string {
	t.Helper()
	enginetest.MathVerify(t, enginetest.Open(t))
	set := wheels.MathVerify()
	set.Wheels = slices.DeleteFunc(set.Wheels, func(w wheels.Wheel) bool { return w.Project != "mpmath" })
	cache, err := wheels.OpenCache("", os.Getenv)
	if err != nil {
		t.Fatal(err)
	}
	defer cache.Close()
	if err := cache.Fetch(t.Context(), set, func(string) {}); err != nil {
		t.Fatal(err)
	}
	w, err := cache.Read(set.Wheels[0])
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewServer(http.HandlerFunc(func(to http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/wheel" {
			_, _ = to.Write(w)
			return
		}
		fmt.Fprintf(to, `<html><a href="/wheel#sha256=%s">%s</a>`, set.Wheels[0].SHA256, set.Wheels[0].File)
	}))
	t.Cleanup(s.Close)
	return s.URL
}

// TestOwnAgentTutorial follows docs/tutorials/own-agent.md as it is written, and then
// does what "make own-agent" does: both use the same port.
func TestOwnAgentTutorial(t *testing.T) {
	sampletest.Nightly(t, "the agent of the tutorial is tested by itself, and other tutorials are followed")
	t.Parallel()
	needEngine(t)
	follow(t, "own-agent.md", "PIP_CONFIG_FILE=/dev/null", "PIP_INDEX_URL="+mpmathIndex(t))
	dir := checkout(t)
	program, err := binary()
	if err != nil {
		t.Fatal(err)
	}
	script, err := filepath.Abs(filepath.Join("..", "..", "scripts", "own-agent.sh"))
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), script, program, engineOf(t))
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "SECUREBENCH_KEYS="+filepath.Join(dir, "keys"))
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "total=20 verification=complete verified=20 passed=5 ") {
		t.Errorf("%v\n%s", err, out)
	}
}
