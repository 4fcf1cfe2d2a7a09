package capture_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"securebench/internal/sandbox/sandboxtest"
)

// in returns a path below the workspace of a process.
func in(p *sandboxtest.Process, name string) string { return filepath.Join(p.Dir, name) }

// all does one thing after another.
func all(do ...func(p *sandboxtest.Process) error) func(p *sandboxtest.Process) error {
	return func(p *sandboxtest.Process) error {
		for _, f := range do {
			if err := f(p); err != nil {
				return err
			}
		}
		return nil
	}
}

func write(name, data string) func(p *sandboxtest.Process) error {
	return func(p *sandboxtest.Process) error { return os.WriteFile(in(p, name), []byte(data), 0o644) }
}

func remove(name string) func(p *sandboxtest.Process) error {
	return func(p *sandboxtest.Process) error { return os.RemoveAll(in(p, name)) }
}

func mode(name string, m os.FileMode) func(p *sandboxtest.Process) error {
	return func(p *sandboxtest.Process) error { return os.Chmod(in(p, name), m) }
}

func folder(name string) func(p *sandboxtest.Process) error {
	return func(p *sandboxtest.Process) error { return os.MkdirAll(in(p, name), 0o755) }
}

func symlink(name, target string) func(p *sandboxtest.Process) error {
	return func(p *sandboxtest.Process) error { return os.Symlink(target, in(p, name)) }
}

// start is what the workspaces of these tests begin with.
func start(dir string) error {
	if err := files(map[string]string{"a": "one", "d/x": "two", "d/y": "three", "d/e/f": "four", "run.sh": "#!", "z": "five"})(dir); err != nil {
		return err
	}
	return os.Symlink("a", filepath.Join(dir, "l"))
}

// TestChangesAreCaptured: a tree is the difference to what the workspace began
// with, whatever times say.
func TestChangesAreCaptured(t *testing.T) {
	now := time.Now()
	backdated := func(p *sandboxtest.Process) error {
		info, err := os.Stat(in(p, "a"))
		if err != nil {
			return err
		}
		if err := os.WriteFile(in(p, "a"), []byte("ONE"), 0o644); err != nil {
			return err
		}
		return os.Chtimes(in(p, "a"), info.ModTime(), info.ModTime())
	}
	for name, tt := range map[string]struct {
		agent func(p *sandboxtest.Process) error
		want  []string
	}{
		"nothing":                    {all(), nil},
		"the same bytes again":       {all(remove("a"), write("a", "one"), func(p *sandboxtest.Process) error { return os.Chtimes(in(p, "d"), now, now) }), nil},
		"as many other bytes, dated": {backdated, []string{"-rw-r--r-- app/a ONE"}},
		"more bytes":                 {write("d/x", "more"), []string{"-rw-r--r-- app/d/x more"}},
		"a mode":                     {all(mode("run.sh", 0o755), mode("d/e", 0o700)), []string{"drwx------ app/d/e", "-rwxr-xr-x app/run.sh #!"}},
		"a deletion":                 {remove("z"), []string{"deleted app/z"}},
		"a deleted folder":           {remove("d"), []string{"deleted app/d"}},
		"everything":                 {all(remove("a"), remove("d"), remove("run.sh"), remove("z"), remove("l")), []string{"deleted app/a", "deleted app/d", "deleted app/l", "deleted app/run.sh", "deleted app/z"}},
		"a folder for a file":        {all(remove("a"), folder("a"), write("a/b", "x")), []string{"drwxr-xr-x app/a", "-rw-r--r-- app/a/b x"}},
		"a file for a folder":        {all(remove("d"), write("d", "x")), []string{"-rw-r--r-- app/d x"}},
		"a link for a folder":        {all(remove("d"), symlink("d", "other")), []string{"Lrwxrwxrwx app/d other"}},
		"another target":             {all(remove("l"), symlink("l", "z")), []string{"Lrwxrwxrwx app/l z"}},
		"new things between":         {all(write("d.txt", "x"), folder("c"), write("d/x2", "y")), []string{"drwxr-xr-x app/c", "-rw-r--r-- app/d/x2 y", "-rw-r--r-- app/d.txt x"}},
		"a folder made again":        {all(remove("d"), folder("d"), write("d/y", "three")), []string{"deleted app/d/e", "deleted app/d/x"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			agentChanges(t, nil, start, tt.agent).want(t, tt.want...)
		})
	}
}

// TestHonestLeftovers: what work leaves behind beside its result is listed, and
// does not cost the result (W10, W12, W13). A socket in the place of a file is a
// deletion.
func TestHonestLeftovers(t *testing.T) {
	socket := func(name string) func(*sandboxtest.Process) error {
		return func(p *sandboxtest.Process) error {
			return syscall.Mknod(in(p, name), syscall.S_IFSOCK|0o600, 0)
		}
	}
	p := agentChanges(t, nil, start, all(
		write("answer", "42"), write(".wh.z", "a name like any other"),
		socket("server.sock"), remove("z"), socket("z"),
		func(p *sandboxtest.Process) error { return syscall.Mkfifo(in(p, "pipe"), 0o600) },
		func(p *sandboxtest.Process) error { return os.Link(in(p, "answer"), in(p, "answer2")) },
		mode("run.sh", 0o755|os.ModeSetuid),
		folder("venv/bin"), symlink("venv/bin/python", "/usr/bin/python3"), symlink("venv/lib64", "lib"), symlink("venv/up", "../answer"), symlink("venv/self", "/proc/self/exe")))
	res := p.want(t, "-rw-r--r-- app/.wh.z a name like any other", "-rw-r--r-- app/answer 42", "-rw-r--r-- app/answer2 42", "-rwxr-xr-x app/run.sh #!",
		"drwxr-xr-x app/venv", "drwxr-xr-x app/venv/bin", "Lrwxrwxrwx app/venv/bin/python /usr/bin/python3", "Lrwxrwxrwx app/venv/lib64 lib",
		"Lrwxrwxrwx app/venv/up ../answer", "deleted app/z")
	want := `[{"path":"/app/answer","reason":"hard_link"},{"path":"/app/answer2","reason":"hard_link"},{"path":"/app/pipe","reason":"pipe"},` +
		`{"path":"/app/run.sh","reason":"special_bits"},{"path":"/app/server.sock","reason":"socket"},{"path":"/app/venv/self","reason":"link"},{"path":"/app/z","reason":"socket"}]`
	if got := string(res.Metadata["dropped_paths"]); got != want || res.Metadata.Int("dropped_path_count") != 7 {
		t.Errorf("left out: %s", got)
	}
}

// TestExtendedAttributes: they are listed, of files and folders alike, and the
// rest counts (W12).
func TestExtendedAttributes(t *testing.T) {
	attribute := func(name string) func(*sandboxtest.Process) error {
		return func(p *sandboxtest.Process) error {
			err := unix.Setxattr(in(p, name), "user.note", []byte("x"), 0)
			if errors.Is(err, unix.ENOTSUP) {
				t.Skip("the file system of temporary files has no extended attributes")
			}
			return err
		}
	}
	p := agentChanges(t, nil, start, all(write("noted", "1"), attribute("noted"), folder("kept"), attribute("kept")))
	res := p.want(t, "drwxr-xr-x app/kept", "-rw-r--r-- app/noted 1")
	want := `[{"path":"/app/kept","reason":"xattrs"},{"path":"/app/noted","reason":"xattrs"}]`
	if got := string(res.Metadata["dropped_paths"]); got != want {
		t.Errorf("listed: %s", got)
	}
}

// TestManyLeftovers: the list is bounded, the count is not.
func TestManyLeftovers(t *testing.T) {
	p := agentLeaves(t, func(dir string) error {
		for i := range 150 {
			if err := os.Symlink("/", filepath.Join(dir, strings.Repeat("x", i+1))); err != nil {
				return err
			}
		}
		return os.Symlink("/", filepath.Join(dir, "\x1b[31m"))
	})
	m := p.want(t).Metadata
	if n := strings.Count(string(m["dropped_paths"]), `"link"`); n != 100 || m.Int("dropped_path_count") != 151 || strings.Contains(string(m["dropped_paths"]), "u001b[") {
		t.Errorf("%d listed, metadata %s", n, m)
	}
}

// TestSecretsInChangedFiles: a file of the base that the agent wrote a secret
// into is redacted; one that is as it was is not looked into.
func TestSecretsInChangedFiles(t *testing.T) {
	before := files(map[string]string{"config": "key=sk-secret-value", "code": "0123456789abcde"})
	p := agentChanges(t, nil, before, write("code", "sk-secret-value"))
	p.want(t, "-rw-r--r-- app/code sk-secret-value")
	p.stage.Secrets = secrets(t)
	if res := p.want(t, "-rw-r--r-- app/code [redacted:KEY]"); !res.Candidate.Redacted {
		t.Error("the candidate is not marked as redacted")
	}
}
