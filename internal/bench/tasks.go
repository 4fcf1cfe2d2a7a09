package bench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"securebench/internal/sandbox/bare"
)

// Program is securebench itself, as a process of its own.
type Program interface {
	// Run runs it to its end, which must be a success.
	Run(ctx context.Context, args ...string) error
	// Watch starts it, passes lines of its standard error to ready until that
	// returns true, then reads how much memory the process holds and held at
	// most, in bytes, and interrupts it.
	Watch(ctx context.Context, ready func(line []byte) bool, args ...string) (resident, peak int64, err error)
}

// agentCommand is the agent: it writes the solution.
func agentCommand() []string {
	return []string{"sh", "-c", `printf %s "$1" | tee candidate.py`, "sh", solution}
}

// checkCommand is what split scoring costs at least: two processes, one of which
// holds the tests and asks the other, which holds the solution, over pipes. Nothing
// protects one from the other.
func checkCommand(solution string) []string {
	return []string{"python3", "-I", "-S", "-c", bareTests, solution + bareWorker}
}

// bareWorker answers calls until its input ends.
const bareWorker = `

import marshal, sys

while sys.stdin.buffer.peek(1):
    name, arguments = marshal.load(sys.stdin.buffer)
    marshal.dump(globals()[name](*arguments), sys.stdout.buffer)
    sys.stdout.buffer.flush()
`

// bareTests starts its argument as the worker and tests it.
const bareTests = `
import marshal, os, sys

asked, answered = os.pipe(), os.pipe()
worker = os.fork()
if worker == 0:
    os.dup2(asked[0], 0)
    os.dup2(answered[1], 1)
    os.execv(sys.executable, [sys.executable, "-I", "-S", "-c", sys.argv[1]])
os.close(asked[0])
os.close(answered[1])
questions, answers = open(asked[1], "wb"), open(answered[0], "rb")


def call(name, *arguments):
    marshal.dump((name, arguments), questions)
    questions.flush()
    return marshal.load(answers)


assert call("longest", ["a", "bb", "c"]) == "bb"
assert call("longest", []) == ""
questions.close()
assert os.waitpid(worker, 0)[1] == 0
`

// throughput measures whole runs of the program in turns with the floor.
func throughput(ctx context.Context, p Program, dir, engine string, f bare.Floor, t Tasks) (Tasks, error) {
	var ours, floor time.Duration
	for i := range t.Rounds {
		name := fmt.Sprintf("%s-tasks-%d-%d", engine, t.Workers, i)
		config, err := tester(dir, name, engine, agentCommand(), object{})
		if err != nil {
			return t, err
		}
		start := time.Now()
		if err := p.Run(ctx, "run", "--config", config, "--workers", strconv.Itoa(t.Workers), "--limit", strconv.Itoa(t.Tasks), "--fail-on", "any", "--quiet"); err != nil {
			return t, err
		}
		ours += time.Since(start)
		if f == nil {
			continue
		}
		start = time.Now()
		if err := side(ctx, f, t.Tasks, t.Workers); err != nil {
			return t, err
		}
		floor += time.Since(start)
	}
	t.Seconds = round(ours.Seconds()/float64(t.Rounds), 3)
	t.PerSecond = per(float64(t.Tasks), t.Seconds)
	if f != nil {
		t.FloorSeconds = round(floor.Seconds()/float64(t.Rounds), 3)
		t.FloorRate = per(float64(t.Tasks), t.FloorSeconds)
		t.Share = per(t.PerSecond, t.FloorRate)
	}
	return t, nil
}

// side makes the floor's sandboxes of tasks, some side by side.
func side(ctx context.Context, f bare.Floor, tasks, workers int) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	jobs := make(chan struct{}, tasks)
	for range tasks {
		jobs <- struct{}{}
	}
	close(jobs)
	errs := make([]error, workers)
	var wg sync.WaitGroup
	for i := range workers {
		wg.Go(func() {
			for range jobs {
				if errs[i] = f.Task(ctx, agentCommand(), checkCommand(solution)); errs[i] != nil {
					stop()
					return
				}
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// memory measures the parent while agents run that do nothing.
func memory(ctx context.Context, p Program, dir, engine string, queued, running int) (Memory, error) {
	m := Memory{Queued: queued, Running: running}
	name := fmt.Sprintf("%s-memory-%d-%d", engine, queued, running)
	config, err := tester(dir, name, engine, []string{"sleep", "1000"}, object{"memory": "32MiB", "disk": "4MiB"})
	if err != nil {
		return m, err
	}
	started := 0
	m.Resident, m.Peak, err = p.Watch(ctx, func(line []byte) bool {
		if bytes.Contains(line, []byte(`"event":"sandbox_command"`)) {
			started++
		}
		return started >= running
	}, "run", "--config", config, "--workers", strconv.Itoa(running), "--limit", strconv.Itoa(queued), "--progress", "json")
	return m, err
}

// rows measures how fast rows are loaded, scored and verified, of a family that
// needs no engine.
func rows(ctx context.Context, p Program, dir string, n int) (out []Rows, err error) {
	pack, result := filepath.Join(dir, "text"), filepath.Join(dir, "text-run")
	if err := textPack(pack, n); err != nil {
		return nil, err
	}
	for _, c := range []struct {
		name string
		args []string
	}{
		{"load", []string{"pack", "check", pack}},
		{"score", []string{"run", pack, "--agent", "oracle", "--fail-on", "any", "--quiet", "-o", result}},
		{"verify", []string{"verify", result}},
	} {
		start := time.Now()
		if err := p.Run(ctx, c.args...); err != nil {
			return out, err
		}
		took := time.Since(start).Seconds()
		out = append(out, Rows{Name: c.name, Rows: n, Seconds: round(took, 3), PerSecond: per(float64(n), took)})
	}
	return out, nil
}
