package checkout

import (
	"bytes"
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"syscall"
	"testing"

	"securebench/internal/sandbox"
	"securebench/internal/sandbox/initproc"
)

// TestHowGitEnds: what the image's git does is the pack's fault, what the
// sandbox fails to do is not.
func TestHowGitEnds(t *testing.T) {
	failed := errors.New("the engine stumbled")
	for name, c := range map[string]struct {
		res      initproc.Result
		err      error
		out, say string
		want     string
		pack     bool
	}{
		"ends well":       {res: initproc.Result{End: sandbox.Exited}, out: "x"},
		"fails":           {res: initproc.Result{End: sandbox.Exited, ExitCode: 128}, say: "fatal: no", want: `code 128 and said "fatal: no"`, pack: true},
		"is not there":    {res: initproc.Result{End: initproc.NotStarted, Errno: syscall.ENOENT}, want: "no git in its PATH", pack: true},
		"cannot start":    {res: initproc.Result{End: initproc.NotStarted, Errno: syscall.EACCES, Reason: "denied"}, want: "denied", pack: true},
		"never ends":      {res: initproc.Result{End: sandbox.TimedOut}, want: "did not end within", pack: true},
		"floods":          {out: strings.Repeat("x", gitText+1), want: "printed more than", pack: true},
		"complains a lot": {say: strings.Repeat("x", gitText+1), want: "printed more than", pack: true},
		"sandbox fails":   {err: failed, want: "the engine stumbled"},
	} {
		t.Run(name, func(t *testing.T) {
			var got initproc.Command
			g := newGit(func(_ context.Context, cmd initproc.Command) (initproc.Result, error) {
				got = cmd
				_, err1 := io.WriteString(cmd.Stdout, c.out)
				_, err2 := io.WriteString(cmd.Stderr, c.say)
				return c.res, errors.Join(c.err, err1, err2)
			}, "bin:/opt/bin::.:/usr/bin", "/testbed", sandbox.User{UID: 7, GID: 8})
			var out bytes.Buffer
			code, said, err := g.run(t.Context(), nil, &out, gitText, "status")
			if err == nil && code != 0 {
				err = unusable("code %d and said %q", code, said)
			}
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) || errors.Is(err, ErrUnusable) != c.pack {
				t.Errorf("got %v, want %q, the pack's fault %v", err, c.want, c.pack)
			}
			if got.Env[0] != "PATH=/opt/bin:/usr/bin" || got.User != (sandbox.User{UID: 7, GID: 8}) || got.Timeout != gitTimeout ||
				!slices.Contains(got.Argv, "--git-dir=/testbed/.git") || slices.ContainsFunc(got.Env, func(v string) bool { return strings.HasPrefix(v, "GIT_ALTERNATE") }) {
				t.Errorf("the command is %+v", got)
			}
		})
	}
}
