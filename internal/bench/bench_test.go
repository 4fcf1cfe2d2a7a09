package bench_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"securebench/internal/bench"
	"securebench/internal/sandbox"
	"securebench/internal/sandbox/bare"
	"securebench/internal/sandbox/sandboxtest"
)

// program counts how it was called.
type program struct {
	mu    sync.Mutex
	calls [][]string
	fail  error
}

func (p *program) Run(_ context.Context, args ...string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.calls = append(p.calls, args)
	return p.fail
}

func (p *program) Watch(ctx context.Context, ready func([]byte) bool, args ...string) (resident, peak int64, err error) {
	started := 0
	for !ready([]byte(`{"event":"sandbox_command"}` + "\n")) {
		started++
	}
	return int64(started+1) << 20, int64(started+2) << 20, p.Run(ctx, args...)
}

// floor counts what it makes.
type floor struct {
	mu            sync.Mutex
	cycles, tasks int
	closed        bool
}

func (f *floor) count(n *int) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	*n++
	return nil
}

func (*floor) Name() string                              { return "bare <runtime>" }
func (f *floor) Cycle(context.Context) error             { return f.count(&f.cycles) }
func (f *floor) Task(context.Context, ...[]string) error { return f.count(&f.tasks) }
func (f *floor) Close() error                            { f.closed = true; return nil }
func (f *floor) open() (bare.Floor, error)               { return f, nil }
func config(t *testing.T, p *program, f *floor) bench.Config {
	t.Helper()
	return bench.Config{Engines: []string{"native", "docker"}, Image: "python", Quick: true, Version: "1", Program: p,
		Open: func(_ context.Context, name string) (sandbox.Engine, error) {
			if name == "native" {
				return nil, errors.New("no OCI runtime")
			}
			return engine(), nil
		},
		Bare:     func(string, sandbox.Image) (bare.Floor, error) { return f.open() },
		Progress: func(string) {}}
}

// engine is one whose commands do at once what the benchmark's do.
func engine() *sandboxtest.Engine {
	return sandboxtest.New(sandboxtest.Config{Programs: map[string]sandboxtest.Program{
		"true": func(context.Context, *sandboxtest.Process) int { return 0 },
		"sh": func(_ context.Context, p *sandboxtest.Process) int {
			fmt.Fprintln(p.Stdout)
			name, err := p.Path("/bench-0", true)
			if err != nil || os.WriteFile(name, []byte("0\n"), 0o600) != nil {
				return 1
			}
			return 0
		},
	}})
}

// TestRun measures an engine in memory, beside one that is missing.
func TestRun(t *testing.T) {
	p, f := &program{}, &floor{}
	r, err := bench.Run(t.Context(), config(t, p, f))
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Engines) != 2 || r.Engines[0].Missing != "no OCI runtime" || r.Engines[0].Info != nil {
		t.Fatalf("the missing engine: %+v", r.Engines)
	}
	e := r.Engines[1]
	if e.Cycle == nil || e.Cycle.Box.Samples != f.cycles-1 || e.Cycle.Floor.Samples != f.cycles-1 || e.Cycle.Box.P50 > e.Cycle.Box.P99 {
		t.Errorf("whole sandboxes: %+v, floor's cycles: %d", e.Cycle, f.cycles)
	}
	var names []string
	for _, s := range e.Steps {
		names = append(names, s.Name)
	}
	if want := []string{"workspace", "copy in", "start", "run", "copy out", "capture", "teardown"}; !slices.Equal(names, want) {
		t.Errorf("steps %v, want %v", names, want)
	}
	tasks := 0
	for _, x := range e.Tasks {
		tasks += x.Tasks
	}
	if tasks != 110*len(e.Tasks) || tasks != f.tasks || !f.closed { // a quick run of few tasks measures its start
		t.Errorf("%d tasks, and %d of the floor, closed: %v", tasks, f.tasks, f.closed)
	}
	last := e.Memory[len(e.Memory)-1]
	if last.Running < 2 || last.Resident != int64(last.Running)<<20 || last.Peak <= last.Resident {
		t.Errorf("memory: %+v", e.Memory)
	}
	if len(r.Rows) != 3 || r.Machine.Cores == 0 || r.Machine.Kernel == "" {
		t.Errorf("rows %+v, machine %+v", r.Rows, r.Machine)
	}
}

// TestRunFails: a program that fails, or no engine at all, is an error.
func TestRunFails(t *testing.T) {
	broken := errors.New("broken")
	if _, err := bench.Run(t.Context(), config(t, &program{fail: broken}, &floor{})); !errors.Is(err, broken) {
		t.Errorf("a program that fails: %v", err)
	}
	c := config(t, &program{}, &floor{})
	c.Engines = c.Engines[:1]
	if _, err := bench.Run(t.Context(), c); err == nil || !strings.Contains(err.Error(), "no OCI runtime") {
		t.Errorf("no engine: %v", err)
	}
	ctx, stop := context.WithCancel(t.Context())
	stop()
	f := &floor{}
	if _, err := bench.Run(ctx, config(t, &program{}, f)); !errors.Is(err, context.Canceled) {
		t.Errorf("an interruption: %v", err)
	}
}

// TestSave: what is saved can be read again and drawn, and names from outside
// cannot add to a plot.
func TestSave(t *testing.T) {
	r, err := bench.Run(t.Context(), config(t, &program{}, &floor{}))
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "out")
	if err := r.Save(dir); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(filepath.Join(dir, bench.File))
	if err != nil {
		t.Fatal(err)
	}
	again, err := bench.Read(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	var text, want strings.Builder
	if err := errors.Join(again.Table(&text), r.Table(&want)); err != nil || text.String() != want.String() {
		t.Errorf("the table of what was read: %v\n%s\nwant\n%s", err, &text, &want)
	}
	for _, name := range []string{"sandbox.svg", "steps.svg", "throughput.svg", "memory.svg"} {
		plot, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil || !bytes.HasPrefix(plot, []byte("<svg ")) || bytes.Contains(plot, []byte("<runtime>")) || bytes.Contains(plot, []byte("ZgotmplZ")) {
			t.Errorf("%s: %v\n%s", name, err, plot)
		}
	}
}

// TestReadRefuses: what this version does not know is not drawn.
func TestReadRefuses(t *testing.T) {
	good := `{"schema":"` + bench.Schema + `","engines":[{"name":"docker","missing":"no daemon"}]}`
	if _, err := bench.Read(strings.NewReader(good)); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"another version": strings.Replace(good, bench.Schema, "securebench.bench/0", 1),
		"no version":      `{}`,
		"unknown member":  strings.Replace(good, `"missing"`, `"lost":1,"missing"`, 1),
		"repeated member": strings.Replace(good, `"missing"`, `"name":"x","missing"`, 1),
		"no name":         strings.Replace(good, `docker`, ``, 1),
		"neither":         strings.Replace(good, `no daemon`, ``, 1),
		"cut off":         good[:len(good)-2],
		"too large":       good + strings.Repeat(" ", 5<<20),
	} {
		if _, err := bench.Read(strings.NewReader(text)); err == nil {
			t.Errorf("%s: it was read", name)
		}
	}
}
