package owner

import (
	"io/fs"
	"strings"
	"syscall"
	"testing"

	"pgregory.net/rapid"
)

func TestParseStat(t *testing.T) {
	const rest = " S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 4711 20 21"
	for in, want := range map[string]uint64{"12 (name)" + rest: 4711, "12 (a) b) 1 2" + ")" + rest: 4711} {
		if got, ok := parseStat(in); !ok || got != want {
			t.Errorf("parseStat(%q) = %d, %v", in, got, ok)
		}
	}
	for _, in := range []string{"", "12 (x", "12 (x) S 1 2", "12 (x)" + strings.Replace(rest, "4711", "-1", 1)} {
		if got, ok := parseStat(in); ok {
			t.Errorf("parseStat(%q) = %d", in, got)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add(Current().String())
	f.Add("a/b/c/1/2")
	f.Add("a/b/c/01/2")
	f.Add("a/b/c/-1/2")
	f.Fuzz(func(t *testing.T, s string) {
		o, ok := Parse(s)
		if ok && (o.String() != s || o.PID <= 0) {
			t.Errorf("Parse(%q) = %+v", s, o)
		}
	})
}

// TestDead states the rule the other way round: an owner that is
// proven dead is neither running here nor possibly running elsewhere.
func TestDead(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		word := rapid.SampledFrom([]string{"", "a", "b"})
		num := rapid.IntRange(0, 2)
		gen := func(name string) Owner {
			return Owner{word.Draw(t, name+" machine"), word.Draw(t, name+" boot"), word.Draw(t, name+" ns"),
				num.Draw(t, name+" pid") + 1, uint64(num.Draw(t, name+" start"))}
		}
		o, me := gen("o"), gen("me")
		running := map[int]uint64{num.Draw(t, "running pid") + 1: uint64(num.Draw(t, "running start"))}
		dead := o.dead(me, func(pid int, start uint64) bool { s, ok := running[pid]; return !ok || s != start })
		rebooted := o.Boot != "" && me.Boot != "" && o.Boot != me.Boot && o.Machine != "" && o.Machine == me.Machine
		visible := o.Boot != "" && o.Boot == me.Boot && o.PIDNS != "" && o.PIDNS == me.PIDNS && o.Start != 0
		start, alive := running[o.PID]
		alive = alive && start == o.Start
		if want := rebooted || visible && !alive; dead != want {
			t.Fatalf("%+v is dead for %+v: %v, want %v", o, me, dead, want)
		}
	})
}

// TestEnded checks that a process counts as ended only if the kernel says that
// its number is free or belongs to another process. Under hidepid, another
// user's living runner has no files in /proc and may not be signalled.
func TestEnded(t *testing.T) {
	stat := func(start string) string {
		return "7 (name) S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 " + start + " 20"
	}
	for name, c := range map[string]struct {
		signal, err error
		stat        string
		want        bool
	}{
		"no such process":            {signal: syscall.ESRCH, err: fs.ErrNotExist, want: true},
		"running":                    {stat: stat("4711")},
		"number used again":          {stat: stat("4712"), want: true},
		"another user's":             {signal: syscall.EPERM, stat: stat("4711")},
		"another user's, used again": {signal: syscall.EPERM, stat: stat("4712"), want: true},
		"another user's, hidden":     {signal: syscall.EPERM, err: fs.ErrNotExist},
		"another user's, unreadable": {signal: syscall.EPERM, err: fs.ErrPermission},
		"no /proc":                   {err: fs.ErrNotExist},
		"a broken line":              {stat: "7 (name) S"},
		"other errors":               {signal: syscall.EIO, err: syscall.EIO},
	} {
		p := processes{func(pid int, s syscall.Signal) error {
			if pid != 7 || s != 0 {
				t.Errorf("%s: process %d is sent signal %d", name, pid, s)
			}
			return c.signal
		}, func(int) (string, error) { return c.stat, c.err }}
		if got := p.ended(7, 4711); got != c.want {
			t.Errorf("%s: ended: %v", name, got)
		}
	}
}
