package kinds

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"securebench/internal/redact"
)

// folder makes a folder: names that end in / are folders, "-> x" is a link, "+x " is
// a program.
func folder(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, content := range files {
		p := filepath.Join(dir, name)
		err := os.MkdirAll(filepath.Dir(p), 0o755)
		target, link := strings.CutPrefix(content, "-> ")
		program, executable := strings.CutPrefix(content, "+x ")
		switch {
		case strings.HasSuffix(name, "/"):
			err = errors.Join(err, os.MkdirAll(p, 0o755))
		case link:
			err = errors.Join(err, os.Symlink(target, p))
		case executable:
			err = errors.Join(err, os.WriteFile(p, []byte(program), 0o755))
		default:
			err = errors.Join(err, os.WriteFile(p, []byte(content), 0o644))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// listed is what the archive of the files holds, a line for each entry.
func listed(t *testing.T, f *ownFiles) (out []string) {
	t.Helper()
	var b bytes.Buffer
	if err := f.writeTar(&b); err != nil {
		t.Fatal(err)
	}
	for tr := tar.NewReader(&b); ; {
		h, err := tr.Next()
		if errors.Is(err, io.EOF) {
			return out
		}
		if err != nil {
			t.Fatal(err)
		}
		content, _ := io.ReadAll(tr)
		out = append(out, strings.TrimSpace(fmt.Sprintf("%s %o %s%s", h.Name, h.Mode, h.Linkname, content)))
	}
}

func TestOpen(t *testing.T) {
	dir := folder(t, map[string]string{
		"agent/main.py": "print(1)", "agent/run": "+x #!/bin/sh", "agent/lib/a.py": "a", "agent/empty/": "", "agent/latest": "-> lib",
		"agent/__pycache__/main.pyc": "x", "agent/.git/config": "x", "src/deep/one.py": "one", "tester.yaml": "x",
	})
	all := []string{"empty/ 755", "latest 777 lib", "lib/ 755", "lib/a.py 644 a", "main.py 644 print(1)", "run 755 #!/bin/sh"}
	var prefixed []string
	for _, line := range all {
		prefixed = append(prefixed, "agent/"+line)
	}
	prefixed = append([]string{"agent/ 755"}, prefixed...)
	for name, tt := range map[string]struct {
		o    fileOptions
		want []string
	}{
		"a folder alone":     {fileOptions{Paths: []string{"agent"}, Content: true}, all},
		"a folder in a list": {fileOptions{Paths: []string{"agent"}}, prefixed},
		"a file alone":       {fileOptions{Paths: []string{"src/deep/one.py"}, Content: true}, []string{"src/ 755", "src/deep/ 755", "src/deep/one.py 644 one"}},
		"a list":             {fileOptions{Paths: []string{"src/deep/one.py", "agent/lib"}}, []string{"agent/ 755", "agent/lib/ 755", "agent/lib/a.py 644 a", "src/ 755", "src/deep/ 755", "src/deep/one.py 644 one"}},
	} {
		t.Run(name, func(t *testing.T) {
			tt.o.Dir = dir
			f, err := openFiles(t.Context(), tt.o)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			if got := listed(t, f); !slices.Equal(got, tt.want) {
				t.Errorf("got %q\nwant %q", got, tt.want)
			}
		})
	}
}

// TestHas: what a command names is looked for among the files, also through links.
func TestHas(t *testing.T) {
	f, err := openFiles(t.Context(), fileOptions{Dir: folder(t, map[string]string{"a/lib/x.py": "x", "a/now": "-> lib"}), Paths: []string{"a"}, Content: true})
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for name, want := range map[string]bool{".": true, "lib": true, "lib/x.py": true, "now/x.py": true, "x.py": false, "li": false} {
		if f.has(name) != want {
			t.Errorf("%s: %t", name, !want)
		}
	}
}

// TestDigest: it changes with whatever an agent could notice, and with nothing else.
func TestDigest(t *testing.T) {
	sum := func(all map[string]string) string {
		f, err := openFiles(t.Context(), fileOptions{Dir: folder(t, all), Paths: []string{"a"}, Content: true})
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		return f.Digest
	}
	base := map[string]string{"a/x": "1", "a/y": "2"}
	seen := map[string]string{sum(base): "base"}
	for name, files := range map[string]map[string]string{
		"content": {"a/x": "2", "a/y": "2"}, "name": {"a/z": "1", "a/y": "2"}, "executable": {"a/x": "+x 1", "a/y": "2"},
		"one more": {"a/x": "1", "a/y": "2", "a/w/": ""}, "a link": {"a/x": "-> y", "a/y": "2"}, "another link": {"a/x": "-> ./y", "a/y": "2"},
	} {
		s := sum(files)
		if was := seen[s]; was != "" {
			t.Errorf("%s has the digest of %s", name, was)
		}
		seen[s] = name
	}
	if sum(map[string]string{"a/x": "1", "a/y": "2", "other": "3", "a/__pycache__/x.pyc": "4"}) != sum(base) {
		t.Error("what is not given to the agent changes the digest")
	}
}

// TestRefused: an agent gets nothing that it must not see, and nothing from outside.
func TestRefused(t *testing.T) {
	dir := folder(t, map[string]string{
		"fine/a.py": "1", "pack/tasks.jsonl": "{}", "pack/hidden/t.py": "x", "pack/agent/a.py": "1", "pack/hidden/agent/a.py": "1",
		"env/.env": "KEY=1", "env2/.env.local": "KEY=1", "keys/signing.pem": "x", "earlier/runs/x/run.json": "{}",
		"earlier/runs/x/candidates.jsonl": "", "secret/a.py": "key = 'sk-0123456789abcdef'", "out/run.json": "{}",
		"up/a": "-> ../fine/a.py", "abs/a": "-> /etc/passwd", "dangling/a": "-> nowhere", "top": "-> fine", "odd/a\nb": "x", "white/.wh.a": "x",
	})
	if err := os.Link(filepath.Join(dir, "pack/tasks.jsonl"), filepath.Join(dir, "fine/copy.jsonl")); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir, "pipe"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(filepath.Join(dir, "pipe/p"), 0o600); err != nil {
		t.Fatal(err)
	}
	var secrets redact.Registry
	if err := secrets.Add("OPENAI_API_KEY", []byte("sk-0123456789abcdef")); err != nil {
		t.Fatal(err)
	}
	o := fileOptions{Dir: dir, Clean: func(w io.Writer) io.WriteCloser { return secrets.Writer(w) }, Forbidden: map[string]string{
		filepath.Join(dir, "pack/tasks.jsonl"): "the rows", filepath.Join(dir, "pack/hidden"): "the tests", filepath.Join(dir, "out"): "the output",
		filepath.Join(dir, "not-there"): "nothing"}}
	for name, want := range map[string]string{
		"fine/a.py": "", "pack/agent": "",
		"fine":              "fine/copy.jsonl: it is the rows, which the agent must not see",
		"pack":              "pack/hidden: it is the tests, which the agent must not see",
		"pack/hidden":       "pack/hidden: it is the tests",
		"pack/hidden/agent": "pack/hidden/agent lies in pack/hidden: it is the tests",
		"out":               "out: it is the output",
		"env":               "env/.env: env files hold secrets",
		"secret":            "secret/a.py: it contains a secret of the environment",
		"up":                "up/a: the link leads to ../fine/a.py, which is not among the files",
		"abs":               "abs/a: the link leads to /etc/passwd, which is not among the files",
		"dangling":          "dangling/a: the link leads to nowhere, which is not among the files",
		"top":               "top: it is a link (name what it leads to)",
		"pipe":              "pipe/p: it is a named pipe",
		"earlier":           "earlier/runs/x: it holds the records of a run, and perhaps answers",
		"earlier/runs/x":    "earlier/runs/x: it holds the records of a run",
		"keys":              "keys/signing.pem: it is a key that signs runs",
		"env2":              "env2/.env.local: env files hold secrets",
		"odd":               `"odd/a\nb": its name cannot be in a sandbox`,
		"white":             "white/.wh.a: its name cannot be in a sandbox",
		"nowhere":           "nowhere: ",
	} {
		o.Paths = []string{name}
		for _, content := range []bool{true, false} {
			o.Content = content
			f, err := openFiles(t.Context(), o)
			if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
				t.Errorf("%s: %v, want %q", name, err, want)
			}
			if err == nil {
				f.Close()
			}
		}
	}
	o.Paths, o.Content = []string{"fine/a.py", "fine/a.py"}, false
	if _, err := openFiles(t.Context(), o); err == nil || !strings.Contains(err.Error(), "fine/a.py is listed twice") {
		t.Errorf("twice: %v", err)
	}
}

// TestBounds: files beyond a bound are refused by name, and a file that grows without
// end is not read to it.
func TestBounds(t *testing.T) {
	dir := folder(t, map[string]string{"a/x": "1"})
	big, err := os.Create(filepath.Join(dir, "a/y"))
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(big.Truncate(maxFileBytes), big.Close()); err != nil {
		t.Fatal(err)
	}
	if _, err := openFiles(t.Context(), fileOptions{Dir: dir, Paths: []string{"a"}}); err == nil || !strings.Contains(err.Error(), "a/y: with it the files have more than 536870912 bytes") {
		t.Errorf("%v", err)
	}
}

// TestChanged: what is laid down is what was read.
func TestChanged(t *testing.T) {
	for name, change := range map[string]func(dir string) error{
		"content": func(dir string) error { return os.WriteFile(filepath.Join(dir, "a/x"), []byte("2"), 0o644) },
		"longer":  func(dir string) error { return os.WriteFile(filepath.Join(dir, "a/x"), []byte("11"), 0o644) },
		"shorter": func(dir string) error { return os.Truncate(filepath.Join(dir, "a/x"), 0) },
		"gone":    func(dir string) error { return os.Remove(filepath.Join(dir, "a/x")) },
		"a link": func(dir string) error {
			return errors.Join(os.Remove(filepath.Join(dir, "a/x")), os.Symlink("/etc/passwd", filepath.Join(dir, "a/x")))
		},
	} {
		dir := folder(t, map[string]string{"a/x": "1"})
		f, err := openFiles(t.Context(), fileOptions{Dir: dir, Paths: []string{"a"}})
		if err != nil {
			t.Fatal(err)
		}
		if err := change(dir); err != nil {
			t.Fatal(err)
		}
		err = f.writeTar(io.Discard)
		if (err == nil) != (name == "longer") { // of which the part is laid down that was read
			t.Errorf("%s: %v", name, err)
		}
		f.Close()
	}
}
