package docker_test

import (
	"bytes"
	"testing"
	"time"

	"securebench/internal/sandbox"
	"securebench/internal/sandbox/dockertest"
)

func TestSmoke(t *testing.T) {
	e := dockertest.Docker(t)
	img := dockertest.Image(t, e)
	ctx := t.Context()
	t0 := time.Now()
	w, err := e.Workspace(ctx, sandbox.WorkspaceSpec{Owner: sandbox.Nobody, Disk: 8 << 20})
	if err != nil {
		t.Fatal(err)
	}
	t.Log("workspace", time.Since(t0))
	for _, c := range []string{"id; cat /proc/self/status | grep -iE 'cap|nonew'; ip a; cat /proc/net/dev; cat /proc/self/mountinfo; ls -la / /dev; env; hostname; ulimit -a; cat /proc/self/cgroup", "exit 3", "echo hi > a; mkdir d; ln -s x d/l; mkfifo f; ls -la", "head -c 20000000 /dev/zero > big", "sleep 1; kill -9 $$"} {
		t0 = time.Now()
		b, err := e.Open(ctx, sandbox.Spec{Image: img, Command: []string{"sh", "-c", c}, User: &sandbox.Nobody, Workspace: w, Target: "/work"})
		if err != nil {
			t.Fatal(err)
		}
		t1 := time.Now()
		var out bytes.Buffer
		o, err := b.Run(ctx, sandbox.Streams{Stdout: &out, Stderr: &out})
		t2 := time.Now()
		t.Log(o, err, b.Close(ctx), t1.Sub(t0), t2.Sub(t1), time.Since(t2))
		t.Log(out.String())
		t2 = time.Now()
		u, err := w.Usage(ctx)
		t.Log(u, err, time.Since(t2))
	}
	var b bytes.Buffer
	t.Log(w.Get(ctx, "d", 1<<20, &b), b.Len())
	t.Logf("%q", b.String()[:1200])
	t0 = time.Now()
	t.Log(w.Close(ctx), time.Since(t0))
	n, err := e.Owned(ctx)
	t.Log(n, err)
}
