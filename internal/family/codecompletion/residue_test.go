package codecompletion

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"securebench/internal/family"
	"securebench/internal/sandbox"
	"securebench/internal/sandbox/enginetest"
	"securebench/internal/verdict"
)

// leavesFiles are tests that pass in a sandbox as it was made and leave in it
// whatever files they can think of.
const leavesFiles = `
import os, tempfile
top = tempfile.gettempdir()
shm = '/dev/shm' if top == '/tmp' else os.path.dirname(top) + '/shm'
here = os.path.basename(os.getcwd())
assert os.path.dirname(os.getcwd()) == top and os.listdir() == []
assert [n for n in os.listdir(top) if n != here] == [] == os.listdir(shm)

def fill(at):
    os.mkdir(at + '/w')
    os.mkdir(at + '/w/closed')
    for name in ('file', '.hidden', '-rf', 'new\nline'):
        open(at + '/w/closed/' + name, 'w').write('x')
    os.mkfifo(at + '/fifo')
    open(os.fsencode(at) + b'/w/\xff', 'w').write('x')
    os.symlink('OUTSIDE', at + '/w/link')
    os.symlink('OUTSIDE', at + '/link')
    os.symlink('nowhere', at + '/dangling')
    os.symlink(at, at + '/itself')
    os.chmod(at + '/w/closed', 0)
    os.chmod(at + '/w', 0)

for at in (top, shm, os.getcwd()):
    fill(at)
for _ in range(3000):  # deeper than a path can be long
    os.mkdir('deeper')
    os.chdir('deeper')
assert add(2, 3) == 5
`

// TestRowsLeaveNothing: each row finds the test box's sandbox as it was made,
// and nothing outside is touched for it.
func TestRowsLeaveNothing(t *testing.T) {
	t.Parallel()
	outside := openFolder(t)
	victim := filepath.Join(outside, "file")
	if err := os.WriteFile(victim, nil, 0o666); err != nil {
		t.Fatal(err)
	}
	e := newLocalEngine(t)
	v := newTestVerifier(t, e)
	s := add()
	s.tests = strings.ReplaceAll(leavesFiles, "OUTSIDE", outside)
	for i, candidate := range []string{s.reference, "def add(a, b): return 4\n", s.reference, "import os\ndef add(a, b): os._exit(0)\n", s.reference} {
		want := verdict.Failed
		if i%2 == 0 {
			want = verdict.Passed
		}
		if got := verify(t, v, makeCase(t, s), candidate); got.Outcome != want {
			t.Errorf("row %d: %s", i+1, describe(got))
		}
	}
	// One for all, but that a slow machine may cost a test box its time once.
	if o := e.count(roleTest); o > 2 {
		t.Errorf("%d test boxes, want the same one for all", o)
	}
	if _, err := os.Stat(victim); err != nil {
		t.Errorf("what a link led to: %v", err)
	}
}

// TestTestBoxThatCannotCleanUp: where something stays, each row has a test box
// to itself.
func TestTestBoxThatCannotCleanUp(t *testing.T) {
	t.Parallel()
	e := newLocalEngine(t)
	if !e.isolated {
		t.Skip("only root can make what the test box cannot remove")
	}
	e.furnish = func(role, dir string) {
		if role == roleTest {
			if err := os.MkdirAll(filepath.Join(dir, "fixed", "inside"), 0o755); err != nil {
				t.Error(err)
			}
		}
	}
	v := newTestVerifier(t, e)
	var sessions []family.Session
	for i := range 3 {
		s := add()
		s.tests = fmt.Sprintf("import tempfile\nopen(tempfile.gettempdir() + '/left', 'x')\nassert add(2, 3) == 5 # %d\n", i)
		sessions = append(sessions, v.Open(t.Context(), makeCase(t, s)))
	}
	for i, s := range sessions {
		before := e.count(roleTest)
		got, err := s.Verify(t.Context(), module(add().reference))
		if err != nil || got.Outcome != verdict.Passed {
			t.Errorf("row %d: %v %s", i+1, err, describe(got))
		}
		if i > 0 && e.count(roleTest) == before {
			t.Errorf("row %d has the test box of another", i+1)
		}
		if err := s.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}
	if w := e.count(roleCandidate); w != 3 {
		t.Errorf("%d candidate boxes for 3 rows: there were second tries", w)
	}
}

// TestDockerRowsLeaveNothing: the same in a real sandbox, with what only that
// has: bounds that one row can exhaust for the next, and an engine's own
// places.
func TestDockerRowsLeaveNothing(t *testing.T) {
	t.Parallel()
	e := enginetest.Open(t)
	img := enginetest.Image(t, e)
	counted := &countingEngine{Engine: e}
	v := newTestVerifier(t, counted)
	roomy := sandbox.Limits{Memory: 256 << 20, Disk: 64 << 20, Files: 8 << 10}
	full := add()
	full.limits = roomy
	full.tests = "with open('/tmp/big', 'wb') as f: f.write(bytes(60 << 20))\n" +
		"with open('/dev/shm/big', 'wb') as f: f.write(bytes(60 << 20))\nassert add(2, 3) == 5\n"
	files := add()
	files.limits = roomy
	files.tests = strings.ReplaceAll(leavesFiles, "OUTSIDE", "/etc") + "open('/dev/mqueue/q', 'x')\n"
	many := add()
	many.limits = roomy
	many.tests = "for i in range(5_000): open('/tmp/%d' % i, 'x').close()\nassert add(2, 3) == 5\n"
	for i, s := range []spec{full, files, full, files, many, many} {
		if got := verify(t, v, onDocker(t, img, s), s.reference); got.Outcome != verdict.Passed {
			t.Errorf("row %d: %s", i+1, describe(got))
		}
	}
	if n := counted.testBoxes.Load(); n != 1 {
		t.Errorf("%d test boxes for rows that clean up after themselves", n)
	}
	ipc := add()
	ipc.limits = roomy
	ipc.tests = "import ctypes\nassert len(open('/proc/sysvipc/shm').readlines()) == 1\n" +
		"assert ctypes.CDLL(None).shmget(0, 4096, 0o1600) >= 0\nassert add(2, 3) == 5\n"
	for i := range 2 {
		if got := verify(t, v, onDocker(t, img, ipc), ipc.reference); got.Outcome != verdict.Passed {
			t.Errorf("shared memory, row %d: %s", i+1, describe(got))
		}
	}
	if n := counted.testBoxes.Load(); n != 2 {
		t.Errorf("%d test boxes, want one more for the row after shared memory", n)
	}
}
