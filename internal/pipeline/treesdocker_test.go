package pipeline_test

import (
	"os"
	"slices"
	"strings"
	"testing"

	"securebench/internal/agent"
	"securebench/internal/family"
	"securebench/internal/pipeline/produce"
	"securebench/internal/sandbox"
	"securebench/internal/sandbox/enginetest"
	"securebench/internal/task"
	"securebench/internal/verdict"
)

// service lays the files of a service into an image: with links, a file that
// only root may read, and one of another owner.
const service = `
mkdir -p /testbed/bin /testbed/data /srv/old
printf '#!/bin/sh\n' > /testbed/bin/run && chmod 644 /testbed/bin/run
ln -s run /testbed/bin/start && ln -s /nowhere /testbed/dead
echo secret > /testbed/data/key && chmod 600 /testbed/data/key && chown 4242:4242 /testbed/data
echo x > /testbed/gone && echo x > /srv/old/gone
`

// maintain is what the agent does: it sees all of that, changes modes and owners,
// adds and deletes, and leaves a pipe and a socket behind.
const maintain = `
test "$PWD" = /testbed && test "$(readlink bin/start)" = run && test -L dead && test "$(cat data/key)" = secret
test -f task.json && test "$(stat -c %u data)" = 4242
chmod 755 bin/run && touch bin/start && rm gone && mkdir sub && ln -s ../bin/run sub/tool
echo data > data/table && chown 4242:4242 data/table && chmod 640 data/table
mkfifo pipe && python3 -c 'import socket; socket.socket(socket.AF_UNIX).bind("socket")'
`

// The agent also works outside of the workspace, or finds that it cannot.
const (
	beyond = "rm -r /srv/old && mkdir /srv/new && echo new > /srv/new/file && echo t > /tmp/left && echo hello >> /etc/motd"
	closed = "! touch /srv/new 2>/dev/null && ! rm -r /srv/old 2>/dev/null"
)

// TestTreeOnDocker: on a real engine, a tree is what the agent changed in the
// workspace and in the folders that the row names, with modes and owners. Docker also
// reports a folder for what was added and deleted in it: it is as in the image, so the
// tree with it means the same.
func TestTreeOnDocker(t *testing.T) {
	e := enginetest.Open(t)
	image := enginetest.Script(t, e, enginetest.Image(t, e), service)
	const want = "-rwxr-xr-x 0:0 testbed/bin/run -rw-r----- 4242:4242 testbed/data/table -testbed/gone drwxr-xr-x 0:0 testbed/sub Lrwxrwxrwx 0:0 ../bin/runtestbed/sub/tool"
	const parent, beside = "drwxr-xr-x 0:0 srv ", "drwxr-xr-x 0:0 srv/new -rw-r--r-- 0:0 srv/new/file -srv/old "
	for name, tt := range map[string]struct {
		captured task.Captured
		script   string
		gold     string
	}{
		"the workspace":   {task.Captured{}, maintain + closed, want},
		"a folder beside": {task.Captured{Roots: []string{"/srv", "/testbed"}}, maintain + beyond, beside + want},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, nil)
			b.cfg.Families["changes"], b.cfg.Verifiers = changesFamily(), map[string]family.Verifier{"changes": changesVerifier{detail: true, parent: parent}}
			b.cfg.Images, b.cfg.Retries = map[string]sandbox.Image{"img": image}, 0
			b.cfg.Agent = &agent.Harness{Runner: agent.Runner{RunID: "test",
				Producer: &produce.Producer{Engine: e, Harness: shell(t, tt.script), Env: os.LookupEnv, Granted: sandbox.Grantable()}}}
			if _, err := b.run(t.Context(), changesTask(t, tt.gold, tt.captured, "CHOWN", "DAC_OVERRIDE", "FOWNER")); err != nil {
				t.Fatal(err)
			}
			l := b.entries()[0].Line
			if l.Outcome != verdict.Passed || l.ProducerMetadata.Int("exit_code") != 0 {
				t.Fatalf("%s: %s\nwant %s\n%s%s", l.Outcome, l.FailureMessage, tt.gold, l.ProducerStdout, l.ProducerStderr)
			}
			if got, want := slices.Contains(l.Labels, "disk_sampled"), len(tt.captured.Roots) > 0 && e.Info().DiskSampled; got != want {
				t.Errorf("labels %v", l.Labels)
			}
			if dropped := string(l.ProducerMetadata["dropped_paths"]); !strings.Contains(dropped, "pipe") || !strings.Contains(dropped, "socket") {
				t.Errorf("what is left out: %s", dropped)
			}
		})
	}
}
