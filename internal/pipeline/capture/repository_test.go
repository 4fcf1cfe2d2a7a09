package capture_test

import (
	"bytes"
	"context"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"securebench/internal/candidate"
	"securebench/internal/pipeline/capture"
	"securebench/internal/redact"
	"securebench/internal/repository"
	"securebench/internal/sandbox"
	"securebench/internal/sandbox/sandboxtest"
	"securebench/internal/task"
)

var diff = task.Extraction{Mode: task.FromGitDiff, Kind: task.Patch, OrStdout: true}

// project is an image's repository: a folder on this machine, with a real .git.
type project struct {
	t       *testing.T
	dir     string // pristine
	secrets *redact.Registry
	bounds  candidate.Bounds
	limit   int64
	stdout  string

	left string // on this machine, what the agent left
}

// newProject makes a repository of tracked files, and of others that lie
// beside them in the image.
func newProject(t *testing.T, tracked, others map[string]string) *project {
	t.Helper()
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("git is not installed: what hides from it is not tested")
	}
	p := &project{t: t, dir: filepath.Join(t.TempDir(), "testbed"), bounds: candidate.Bounds{Bytes: 1 << 24, Files: 2000}, limit: 1 << 20}
	p.write(p.dir, tracked)
	p.git(p.dir, "init", "-q")
	p.git(p.dir, "add", "-f", ".")
	p.git(p.dir, "commit", "-qm", "base")
	p.write(p.dir, others)
	return p
}

// on returns the project for another test.
func (p *project) on(t *testing.T) *project {
	q := *p
	q.t = t
	return &q
}

func (p *project) write(dir string, files map[string]string) {
	p.t.Helper()
	for name, content := range files {
		full := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(full), 0o755); err != nil {
			p.t.Fatal(err)
		}
		if err := os.WriteFile(full, []byte(content), 0o644); err != nil {
			p.t.Fatal(err)
		}
	}
}

// git runs git in a folder as a user who trusts what is there.
func (p *project) git(dir string, args ...string) string {
	p.t.Helper()
	out, err := p.tryGit(dir, nil, args...)
	if err != nil {
		p.t.Fatalf("git %v: %v: %s", args, err, out)
	}
	return out
}

func (p *project) tryGit(dir string, stdin []byte, args ...string) (string, error) {
	p.t.Helper()
	cmd := exec.Command("git", append([]string{"-c", "safe.directory=*", "-c", "user.name=n", "-c", "user.email=e"}, args...)...)
	cmd.Dir, cmd.Stdin = dir, bytes.NewReader(stdin)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + p.t.TempDir(), "GIT_CONFIG_NOSYSTEM=1"}
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// naive is what a framework that trusts the agent's repository would take.
func (p *project) naive() string {
	p.t.Helper()
	out, _ := p.tryGit(p.left, nil, "add", "-A", "-N")
	diff, _ := p.tryGit(p.left, nil, "diff", "--binary", "HEAD")
	return out + diff
}

// capture runs the agent and takes its candidate.
func (p *project) capture(edit func(dir string)) capture.Result {
	p.t.Helper()
	engine := sandboxtest.New(sandboxtest.Config{Root: os.DirFS(filepath.Dir(p.dir)), Programs: map[string]sandboxtest.Program{
		"agent": func(_ context.Context, x *sandboxtest.Process) int {
			p.left = x.Dir
			edit(x.Dir)
			return 0
		}}})
	image, err := engine.Image(p.t.Context(), "img")
	if err != nil {
		p.t.Fatal(err)
	}
	space, err := engine.Workspace(p.t.Context(), sandbox.WorkspaceSpec{From: &sandbox.ImageFolder{Image: image, Path: "/testbed"}})
	if err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() { space.Close(context.Background()) })
	base := p.base(space)
	box, err := engine.Open(p.t.Context(), sandbox.Spec{Image: image, Command: []string{"agent"}, Mounts: []sandbox.Mount{{Workspace: space, Target: "/testbed"}}})
	if err != nil {
		p.t.Fatal(err)
	}
	defer box.Close(context.Background())
	if _, err := box.Run(p.t.Context(), sandbox.Streams{}); err != nil {
		p.t.Fatal(err)
	}
	res, err := capture.Stage{Sink: newStore(p.t), Secrets: p.secrets, Checkout: base}.Capture(p.t.Context(),
		capture.Request{Extraction: diff, Outcome: exited, Tree: p.bounds, Limit: p.limit, Stdout: []byte(p.stdout)}, nil)
	if err != nil {
		p.t.Fatal(err)
	}
	return res
}

// base reads the pristine repository.
func (p *project) base(space sandbox.Workspace) *capture.Checkout {
	p.t.Helper()
	c := &capture.Checkout{Space: space, Tracked: map[string]bool{}}
	contents, ignores := map[string][]byte{}, map[string][]byte{}
	c.Tree = p.tree(space, contents)
	for name := range strings.SplitSeq(strings.TrimSpace(p.git(p.dir, "ls-files", "-z")), "\x00") {
		c.Tracked[name] = name != ""
		if filepath.Base(name) == ".gitignore" {
			ignores[name] = contents[name]
		}
	}
	c.Ignore = repository.NewIgnore(ignores)
	c.Content = func(name string) ([]byte, error) { return contents[name], nil }
	return c
}

func (p *project) tree(space sandbox.Workspace, contents map[string][]byte) *repository.Tree {
	p.t.Helper()
	var archive bytes.Buffer
	if err := space.Get(p.t.Context(), ".", 1<<30, &archive, ".git"); err != nil {
		p.t.Fatal(err)
	}
	tree, err := repository.Read(&archive, repository.Bounds{Bytes: 1 << 30, Files: 1 << 20}, func(name string, _ repository.Entry, r io.Reader) (err error) {
		contents[name], err = io.ReadAll(r)
		return err
	})
	if err != nil {
		p.t.Fatal(err)
	}
	return tree
}

// applied returns what git makes of a candidate: the files that differ from
// the pristine ones, each with its mode and content; "-" is a deleted one.
func (p *project) applied(res capture.Result) map[string]string {
	p.t.Helper()
	if res.Candidate == nil {
		p.t.Fatalf("no candidate: %+v", res)
	}
	patch, err := res.Candidate.Bytes()
	if err != nil {
		p.t.Fatal(err)
	}
	dir := filepath.Join(p.t.TempDir(), "pristine")
	if err := os.CopyFS(dir, os.DirFS(p.dir)); err != nil {
		p.t.Fatal(err)
	}
	if out, err := p.tryGit(dir, patch, "apply", "--whitespace=nowarn", "-"); err != nil {
		p.t.Fatalf("the patch does not apply: %s\n%s", out, patch)
	}
	was, is := readFiles(p.t, p.dir), readFiles(p.t, dir)
	for name := range was {
		if _, ok := is[name]; !ok {
			is[name] = "-"
		}
	}
	maps.DeleteFunc(is, func(name, content string) bool {
		before, known := was[name]
		return known && before == content
	})
	return is
}

// readFiles reads a folder without its .git.
func readFiles(t *testing.T, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := filepath.WalkDir(dir, func(name string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			if err == nil && d.Name() == ".git" {
				return filepath.SkipDir
			}
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		content, err := os.ReadFile(name)
		mode := ""
		if info.Mode()&0o100 != 0 {
			mode = "x "
		}
		rel, _ := filepath.Rel(dir, name)
		out[rel] = mode + string(content)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// run runs a shell script in a folder.
func run(t *testing.T, dir, script string) {
	t.Helper()
	cmd := exec.Command("sh", "-ec", script)
	cmd.Dir = dir
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir(), "GIT_CONFIG_NOSYSTEM=1", "GIT_AUTHOR_NAME=n", "GIT_AUTHOR_EMAIL=e",
		"GIT_COMMITTER_NAME=n", "GIT_COMMITTER_EMAIL=e", "GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=safe.directory", "GIT_CONFIG_VALUE_0=*"}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%s: %v: %s", script, err, out)
	}
}

// TestRepositoryChanges: every kind of change becomes a patch from which git
// makes the same files, and nothing but the work is in it.
func TestRepositoryChanges(t *testing.T) {
	if testing.Short() {
		t.Skip("SKIPPED: -short: it is about much that changes")
	}
	tracked := map[string]string{"a.py": "one\ntwo\nthree\n", "dir/b.py": "b\n", "bin/test": "#!/bin/sh\n", ".gitignore": "*.log\nbuild/\n", "kept.log": "tracked\n", "data.bin": "\x00\x01"}
	others := map[string]string{"dir/__pycache__/b.pyc": "\x00old", "build/lib": "old", "setup.cfg.orig": "beside\n"}
	all := newProject(t, tracked, others)
	for name, tt := range map[string]struct {
		script  string
		want    map[string]string
		ignored []string
	}{
		"a change":                  {script: "echo four >> a.py", want: map[string]string{"a.py": "one\ntwo\nthree\nfour\n"}},
		"a new file":                {script: "mkdir -p new/er && echo x > new/er/c.py", want: map[string]string{"new/er/c.py": "x\n"}},
		"an empty file":             {script: ": > empty", want: map[string]string{"empty": ""}},
		"a deleted file":            {script: "rm dir/b.py", want: map[string]string{"dir/b.py": "-"}},
		"a moved file":              {script: "mv dir/b.py c.py", want: map[string]string{"dir/b.py": "-", "c.py": "b\n"}},
		"a name of 255 bytes (W11)": {script: "echo x > $(printf %0255d 1)", want: map[string]string{strings.Repeat("0", 254) + "1": "x\n"}},
		"everything is deleted (W11)": {script: "rm -r * .gitignore", want: map[string]string{"a.py": "-", "dir/b.py": "-", "bin/test": "-", ".gitignore": "-", "kept.log": "-", "data.bin": "-",
			"setup.cfg.orig": "-"}, ignored: []string{"build/lib", "dir/__pycache__/b.pyc"}},
		"setuid and setgid (W12)":        {script: "chmod 6755 bin/test; echo x > run; chmod 6755 run; chmod 1777 dir", want: map[string]string{"bin/test": "x #!/bin/sh\n", "run": "x x\n"}},
		"a mode":                         {script: "chmod +x bin/test", want: map[string]string{"bin/test": "x #!/bin/sh\n"}},
		"bytes":                          {script: `printf '\000\377' > data.bin`, want: map[string]string{"data.bin": "\x00\xff"}},
		"no newline at the end":          {script: `printf x > a.py`, want: map[string]string{"a.py": "x"}},
		"a file that was a folder":       {script: "rm -r bin && echo x > bin", want: map[string]string{"bin": "x\n", "bin/test": "-"}},
		"an untracked file of the image": {script: "echo more >> setup.cfg.orig", want: map[string]string{"setup.cfg.orig": "beside\nmore\n"}},
		"a tracked file that is ignored": {script: "echo more >> kept.log", want: map[string]string{"kept.log": "tracked\nmore\n"}},
		"caches and builds beside work": {script: "echo x > c.py; mkdir -p .pytest_cache build/deep; echo x > .pytest_cache/v; echo x > build/deep/x; echo x > dir/__pycache__/b.pyc; rm build/lib; echo x > run.log",
			want: map[string]string{"c.py": "x\n"}, ignored: []string{".pytest_cache/v", "build/deep/x", "build/lib", "dir/__pycache__/b.pyc", "run.log"}},
		"a virtual environment": {script: "echo x > c.py; mkdir -p .venv/bin; ln -s /usr/bin/python3 .venv/bin/python; mkfifo .venv/pipe; echo a > .venv/a; ln .venv/a .venv/b; mkdir -p .venv/src/x/.git",
			want: map[string]string{"c.py": "x\n"}, ignored: []string{".venv/a", ".venv/b", ".venv/bin/python", ".venv/pipe", ".venv/src/x/.git"}},
		"scratch files": {script: "echo fixed > a.py; echo x > reproduce.sh; echo x > test_fix.py", want: map[string]string{"a.py": "fixed\n", "reproduce.sh": "x\n", "test_fix.py": "x\n"}},
	} {
		t.Run(name, func(t *testing.T) {
			p := all.on(t)
			res := p.capture(func(dir string) { run(t, dir, tt.script) })
			if d := cmp.Diff(tt.want, p.applied(res)); d != "" {
				t.Errorf("-want +got:\n%s", d)
			}
			if res.Candidate.Origin != candidate.GitDiff || res.Candidate.Kind != task.Patch {
				t.Errorf("candidate %+v", res.Candidate)
			}
			if d := cmp.Diff(tt.ignored, ignored(t, res)); d != "" {
				t.Errorf("left out (-want +got):\n%s", d)
			}
		})
	}
}

// ignored returns the paths that a capture says it left out.
func ignored(t *testing.T, res capture.Result) (out []string) {
	t.Helper()
	if res.Metadata == nil {
		return nil
	}
	text := strings.Trim(string(res.Metadata["ignored_paths"]), "[]")
	for part := range strings.SplitSeq(text, ",") {
		out = append(out, strings.Trim(part, `"`))
	}
	if int(res.Metadata.Int("ignored_path_count")) != len(out) || !slices.IsSorted(out) {
		t.Errorf("metadata %s", res.Metadata)
	}
	return out
}
