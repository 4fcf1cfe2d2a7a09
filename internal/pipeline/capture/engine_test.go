package capture_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"securebench/internal/candidate"
	"securebench/internal/pipeline/capture"
	"securebench/internal/sandbox"
	"securebench/internal/sandbox/enginetest"
	"securebench/internal/task"
	"securebench/internal/verdict"
)

// inRoot runs a script as root in a sandbox whose root it can write, with a
// workspace at /app.
func inRoot(t testing.TB, e sandbox.Engine, script string) *place {
	t.Helper()
	image := enginetest.Image(t, e)
	ctx := context.WithoutCancel(t.Context())
	space, err := e.Workspace(ctx, sandbox.WorkspaceSpec{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := space.Close(ctx); err != nil {
			t.Error(err)
		}
	})
	box, err := e.Open(ctx, sandbox.Spec{Image: image, User: &sandbox.User{}, WritableRoot: true, Command: []string{"sh", "-ec", script},
		Mounts: []sandbox.Mount{{Workspace: space, Target: "/app"}}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := box.Close(ctx); err != nil {
			t.Error(err)
		}
	})
	var out bytes.Buffer
	if res, err := box.Run(ctx, sandbox.Streams{Stdout: &out, Stderr: &out}); err != nil || res.ExitCode != 0 {
		t.Fatal(res, err, out.String())
	}
	return &place{capture.Stage{Sink: newStore(t), Root: box.(sandbox.RootReader)},
		capture.Request{Extraction: tree, Outcome: exited, Tree: roomy, Workdir: "/app", Captured: task.Captured{Filesystem: true}}, space}
}

// TestEngineRoots: what an engine tells of a sandbox's root becomes a tree.
func TestEngineRoots(t *testing.T) { enginetest.Each(t, engineRoots) }

func engineRoots(t *testing.T, e enginetest.Engine) {
	p := inRoot(t, e, `
		echo workspace > /app/w
		echo user:x:1:1:::: >> /etc/passwd
		echo trojan > /usr/bin/pytest; echo /evil.so > /etc/ld.so.preload; mkdir -p /etc/profile.d; echo x > /etc/profile.d/x.sh
		mkdir -p /srv/new/deep; echo new > /srv/new/deep/f; ln /srv/new/deep/f /srv/new/again; ln -s deep/f /srv/new/to; ln -s /proc/self /srv/new/self
		mkfifo /srv/new/pipe; python3 -c "import socket; socket.socket(socket.AF_UNIX).bind('/srv/new/sock')"
		rm -r /etc/skel; mkdir /etc/cron.d/x; rm /etc/issue; echo gone > /tmp/x
		chmod 4755 /srv/new/deep/f`)
	res := p.capture(t)
	if res.Candidate == nil {
		t.Fatalf("%+v", res)
	}
	got := map[string]bool{}
	for _, line := range read(t, *res.Candidate) {
		got[line] = true
	}
	for _, line := range []string{"-rw-r--r-- app/w workspace\n", "drwxr-xr-x srv/new", "-rwxr-xr-x srv/new/deep/f new\n", "-rwxr-xr-x srv/new/again new\n", "Lrwxrwxrwx srv/new/to deep/f",
		"deleted etc/issue", "drwxr-xr-x etc/cron.d/x"} {
		if !got[line] {
			t.Errorf("%q is missing", line)
		}
		delete(got, line)
	}
	passwd := 0
	for line := range got {
		switch {
		case bytes.HasPrefix([]byte(line), []byte("-rw-r--r-- etc/passwd ")):
			passwd++
		case !bytes.HasPrefix([]byte(line), []byte("drwxr-xr-x")): // a folder in which something changed
			t.Errorf("%q was captured", line)
		}
	}
	if passwd != 1 || res.Metadata.Int("dropped_path_count") < 4 {
		t.Errorf("%d times /etc/passwd; metadata %s", passwd, res.Metadata)
	}
}

// TestEngineRootBounds (W11): the engine's archive is bounded as well.
func TestEngineRootBounds(t *testing.T) { enginetest.Each(t, engineRootBounds) }

func engineRootBounds(t *testing.T, e enginetest.Engine) {
	inRoot(t, e, "truncate -s 1T /srv/big").refused(t, verdict.CandidateTooLarge, "more than")
	inRoot(t, e, "mkdir /srv/many; cd /srv/many; for i in $(seq 101); do : > $i; done").refused(t, verdict.CandidateTooLarge, "more than")
	// The engine cannot compare what has a path of more than 4096 bytes.
	inRoot(t, e, `python3 -c 'import os
os.chdir("/srv")
for _ in range(20): os.mkdir("n" * 250); os.chdir("n" * 250)'`).refused(t, verdict.CandidateTooLarge, "too deep")
	inRoot(t, e, `touch "$(printf '/srv/x\377')"`).refused(t, verdict.InvalidUTF8, "UTF-8")
	inRoot(t, e, `mkdir /srv/d; touch "$(printf '/srv/d/x\377')"`).refused(t, verdict.InvalidUTF8, "UTF-8")
	inRoot(t, e, `mkdir /srv/d; ln -s x "$(printf '/srv/d/x\377')"; ln "$(printf '/srv/d/x\377')" /srv/d/y`).refused(t, verdict.InvalidUTF8, "UTF-8")
	inRoot(t, e, `mkdir -p "$(printf '/srv/x\377/y')"`).refused(t, verdict.InvalidUTF8, "UTF-8")
	p := inRoot(t, e, "truncate -s 1T /usr/big; echo x > /srv/f")
	p.req.Captured = task.Captured{Roots: []string{"/srv/f", "/srv/none"}}
	if res := p.want(t, "-rw-r--r-- srv/f x\n"); string(res.Metadata["missing_roots"]) != `["/srv/none"]` {
		t.Errorf("metadata %s", res.Metadata)
	}
}

// TestEngineBase: a workspace that began as an image's folder differs in what
// the agent changed alone.
func TestEngineBase(t *testing.T) { enginetest.Each(t, engineBase) }

func engineBase(t *testing.T, e enginetest.Engine) {
	image := enginetest.Image(t, e)
	ctx := context.WithoutCancel(t.Context())
	space, err := e.Workspace(ctx, sandbox.WorkspaceSpec{From: &sandbox.ImageFolder{Image: image, Path: "/usr/lib/python3"}, Owner: sandbox.User{}})
	if err != nil {
		t.Fatal(err)
	}
	box, err := e.Open(ctx, sandbox.Spec{Image: image, User: &sandbox.User{}, Command: []string{"sh", "-ec", "find /app -exec touch {} +; echo 42 > /app/answer; rm -r /app/dist-packages"},
		Mounts: []sandbox.Mount{{Workspace: space, Target: "/app"}}})
	if err != nil {
		t.Fatal(errors.Join(err, space.Close(ctx)))
	}
	t.Cleanup(func() {
		if err := errors.Join(box.Close(ctx), space.Close(ctx)); err != nil {
			t.Error(err)
		}
	})
	p := &place{capture.Stage{Sink: newStore(t)}, capture.Request{Extraction: tree, Outcome: exited, Tree: roomy, Workdir: "/app"}, space}
	var archive bytes.Buffer
	if err := space.Get(ctx, ".", 1<<30, &archive); err != nil {
		t.Fatal(err)
	}
	if p.stage.Base, err = candidate.ReadBase(&archive, candidate.Bounds{Bytes: 1 << 30, Files: 1 << 20}); err != nil || p.stage.Base.Bounds().Files == 0 {
		t.Fatal(err)
	}
	if out, err := box.Run(ctx, sandbox.Streams{}); err != nil || out.ExitCode != 0 {
		t.Fatal(out, err)
	}
	p.want(t, "-rw-r--r-- app/answer 42\n", "deleted app/dist-packages")
}

// TestEngineLinksInCircles: an engine can fail to look at links that lead in
// circles or far away. They are left out if it cannot read them either, and
// captured as they are if it can.
func TestEngineLinksInCircles(t *testing.T) { enginetest.Each(t, engineLinksInCircles) }

func engineLinksInCircles(t *testing.T, e enginetest.Engine) {
	p := inRoot(t, e, `cd /srv; mkdir d; ln -s b a; ln -s a b; ln -s x d/x; ln -s $(python3 -c 'print("t/" * 2000, end="")') far`)
	res, err := p.stage.Capture(t.Context(), p.req, p.space)
	if err != nil || res.Candidate == nil {
		t.Fatalf("got %+v, %v", res, err)
	}
	dropped := strings.Contains(string(res.Metadata["dropped_paths"]), `{"path":"/srv/a","reason":"link"}`)
	captured := slices.Contains(read(t, *res.Candidate), "Lrwxrwxrwx srv/a b")
	if dropped == captured || captured != (e.Info().Name == "native") {
		t.Errorf("dropped %v, captured %v; %s", dropped, captured, res.Metadata)
	}
	inRoot(t, e, `python3 -c 'import os
os.chdir("/srv")
for _ in range(300): os.mkdir("d"); os.chdir("d")'`).refused(t, verdict.CandidateTooLarge, "too deep")
}

// BenchmarkFilesystem captures a root in which an agent made many files.
func BenchmarkFilesystem(b *testing.B) {
	for _, k := range enginetest.Kinds() {
		for _, files := range []int{100, 10_000} {
			b.Run(fmt.Sprintf("engine=%s/files=%d", k.Name, files), func(b *testing.B) {
				p := inRoot(b, k.Open(b), fmt.Sprintf(`python3 -c 'import os
for i in range(%d):
	d = "/srv/%%d" %% (i %% 100)
	os.makedirs(d, exist_ok=True)
	with open(d + "/%%d" %% i, "w") as f: f.write("x" * 100)' `, files))
				p.req.Tree = candidate.Bounds{Bytes: 1 << 30, Files: 1 << 20}
				for b.Loop() {
					res, err := p.stage.Capture(b.Context(), p.req, p.space)
					if err != nil || res.Candidate == nil {
						b.Fatal(res, err)
					}
				}
				b.ReportMetric(b.Elapsed().Seconds()*1e6/float64(b.N*files), "µs/file")
			})
		}
	}
}
