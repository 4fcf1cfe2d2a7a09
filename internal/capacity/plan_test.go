package capacity

import (
	"strings"
	"testing"
	"testing/synctest"

	"securebench/internal/sandbox"
)

const gib = 1 << 30

// code is a task with an agent's sandbox and workspace, a candidate sandbox and a
// test sandbox that is kept.
func code() Load {
	return Load{Agent: Footprint{Boxes: 1, Spaces: 1}, Verify: Footprint{Boxes: 1}, Kept: Footprint{Boxes: 1}}
}

// TestChoose: the number of workers is that of the cores, at most four, and never
// more than memory and disk hold.
func TestChoose(t *testing.T) {
	limits := sandbox.Limits{}.WithDefaults() // 1 GiB and 256 MiB: a task needs 1.5 GiB and keeps 1.25 GiB
	root := Load{Agent: Footprint{Roots: 1, Spaces: 1}, Verify: Footprint{Roots: 2, Spaces: 3}}
	two, beside := limits, code()
	two.CPUs, beside.Once = 2, Footprint{Halves: 1}
	for name, c := range map[string]struct {
		size   sandbox.Size
		limits sandbox.Limits
		load   Load
		onDisk bool
		asked  int
		want   int
		at     int // verifications
		why    string
	}{
		"cores":             {sandbox.Size{CPUs: 2, Memory: 24 * gib}, limits, code(), true, 0, 2, 2, "cores"},
		"many cores":        {sandbox.Size{CPUs: 64, Memory: 512 * gib}, limits, code(), true, 0, 4, 4, "default"},
		"little memory":     {sandbox.Size{CPUs: 8, Memory: 6 * gib}, limits, code(), true, 0, 2, 2, "memory"},
		"a half beside all": {sandbox.Size{CPUs: 8, Memory: 6 * gib}, limits, beside, true, 0, 1, 1, "memory"},
		"very little":       {sandbox.Size{CPUs: 8, Memory: 4 * gib}, limits, code(), true, 0, 1, 1, "memory"},
		"two cores a task":  {sandbox.Size{CPUs: 5, Memory: 64 * gib}, two, code(), true, 0, 2, 2, "cores"},
		"more than cores":   {sandbox.Size{CPUs: 1, Memory: 64 * gib}, two, code(), true, 0, 1, 1, "cores"},
		"unknown":           {sandbox.Size{}, limits, code(), true, 0, 3, 3, "cores"},
		"asked":             {sandbox.Size{CPUs: 2, Memory: 24 * gib}, limits, code(), true, 6, 6, 6, "asked"},
		"asked for more":    {sandbox.Size{CPUs: 2, Memory: 24 * gib}, limits, code(), true, 32, 32, 8, "holds only 8"},
		"roots in memory":   {sandbox.Size{CPUs: 8, Memory: 8 * gib}, limits, root, false, 0, 2, 2, "memory"},
		"roots on the disk": {sandbox.Size{CPUs: 8, Memory: 64 * gib, Disk: 2 * gib}, limits, root, true, 0, 3, 3, "disk"},
	} {
		t.Run(name, func(t *testing.T) {
			p, err := Choose(Request{Size: c.size, Limits: c.limits, OnDisk: c.onDisk, Asked: c.asked, Cores: 3, Loads: map[Load]string{c.load: "a"}})
			if err != nil {
				t.Fatal(err)
			}
			if p.Workers != c.want || p.Verifications != c.at || !strings.Contains(p.Line(), c.why) {
				t.Errorf("%d workers, %d verifications, %s; want %d, %d, %q", p.Workers, p.Verifications, p.Line(), c.want, c.at, c.why)
			}
			if !p.Most.within(usable(c.size)) {
				t.Errorf("may need %v of %v", p.Most, usable(c.size))
			}
		})
	}
}

// TestChooseCountsSockets: what sockets can hold beside the limit on memory counts for
// each box.
func TestChooseCountsSockets(t *testing.T) {
	r := Request{Size: sandbox.Size{CPUs: 2, Memory: 24 * gib}, Loads: map[Load]string{code(): "a"}}
	without, err := Choose(r)
	if err != nil {
		t.Fatal(err)
	}
	r.Sockets = 64 << 20
	with, err := Choose(r)
	if err != nil {
		t.Fatal(err)
	}
	// Each of two verifications keeps a box, and has one box besides or an agent's.
	if got, want := with.Most.Memory-without.Most.Memory, int64(4*64<<20); got != want || with.Verifications != 2 {
		t.Errorf("%d bytes more for %d verifications, want %d", got, with.Verifications, want)
	}
}

// TestChooseWithoutSandboxes: tasks without sandboxes need nothing.
func TestChooseWithoutSandboxes(t *testing.T) {
	p, err := Choose(Request{Size: sandbox.Size{CPUs: 2, Memory: 1}, Loads: map[Load]string{{}: "a"}})
	if err != nil || p.Workers != 2 {
		t.Errorf("got %+v, %v", p, err)
	}
}

// TestChooseRefuses: a task that the machine cannot hold alone is named, with the
// limits that decide.
func TestChooseRefuses(t *testing.T) {
	large := Load{Verify: Footprint{Boxes: 9}}
	loads := map[Load]string{code(): "small", large: "large"}
	_, err := Choose(Request{Size: sandbox.Size{CPUs: 2, Memory: 8 * gib}, Loads: loads})
	if err == nil || !strings.Contains(err.Error(), `"large"`) || !strings.Contains(err.Error(), "limits.memory") || strings.Contains(err.Error(), "\n") {
		t.Errorf("got %v", err)
	}
	_, err = Choose(Request{Size: sandbox.Size{CPUs: 2, Memory: 64 * gib, Disk: gib}, OnDisk: true,
		Loads: map[Load]string{{Verify: Footprint{Roots: 3}}: "wide"}})
	if err == nil || !strings.Contains(err.Error(), `"wide"`) || !strings.Contains(err.Error(), "disk") {
		t.Errorf("got %v", err)
	}
	if _, err = Choose(Request{Size: sandbox.Size{CPUs: 2, Memory: 16 * gib}, Loads: loads}); err != nil {
		t.Errorf("a larger machine: %v", err)
	}
}

// TestStay: beside one task that takes the machine there is no other, and its
// verification is prepared ahead only where there is room.
func TestStay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, err := Choose(Request{Size: sandbox.Size{CPUs: 1, Memory: 4 * gib}, Asked: 2, Loads: map[Load]string{code(): "a"}})
		if err != nil {
			t.Fatal(err)
		}
		first, err := p.Enter(t.Context(), code())
		if err != nil {
			t.Fatal(err)
		}
		if first.Ahead() {
			t.Error("there is room for both parts of a task")
		}
		entered := make(chan *Stay)
		go func() {
			s, _ := p.Enter(t.Context(), code())
			entered <- s
		}()
		synctest.Wait()
		select {
		case <-entered:
			t.Error("a second task was admitted")
		default:
		}
		held, err := first.Cores(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if p.cores.try(Amount{CPUs: core}) != nil {
			t.Error("the only core is still free")
		}
		held.Release()
		first.Leave()
		first.Leave()
		(<-entered).Leave()
		if p.room.used != (Amount{}) || p.cores.used != (Amount{}) {
			t.Errorf("%v and %v are still in use", p.room.used, p.cores.used)
		}
	})
}

// TestStayOfAnUnplannedTask: what was not planned is an error, not a wait without
// an end.
func TestStayOfAnUnplannedTask(t *testing.T) {
	p, err := Choose(Request{Size: sandbox.Size{CPUs: 1, Memory: 4 * gib}, Loads: map[Load]string{code(): "a"}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.Enter(t.Context(), Load{Agent: Footprint{Boxes: 50}}); err == nil {
		t.Error("admitted")
	}
	var none *Plan
	s, err := none.Enter(t.Context(), code())
	if err != nil || !s.Ahead() {
		t.Error("no plan holds a task back")
	}
	s.Leave()
}

func TestBytes(t *testing.T) {
	for n, want := range map[int64]string{0: "0 bytes", 1023: "1023 bytes", 1 << 20: "1 MiB", 1536 << 20: "1.5 GiB", 3 << 40: "3 TiB"} {
		if got := Bytes(n); got != want {
			t.Errorf("%d: got %s, want %s", n, got, want)
		}
	}
}
