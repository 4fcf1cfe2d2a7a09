package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestWeakSetUps shows that the attacks of the corpus are real: each of them
// works against a set-up that is weak in just its own way. An attack that
// never fires would prove nothing when it fails here.
func TestWeakSetUps(t *testing.T) {
	image := needDocker(t)
	dir := t.TempDir()
	write(t, filepath.Join(dir, "tasks.jsonl"), canary+"\n")
	write(t, filepath.Join(dir, "candidates.jsonl"), "{}\n")
	for _, a := range corpus() {
		t.Run(a.id, func(t *testing.T) {
			var fired bool
			if a.weakly != nil {
				fired = a.weakly(t, image, a.script)
			} else {
				args := []string{}
				for _, w := range a.weak {
					w = strings.Replace(w, "PACK:", dir+":", 1)
					args = append(args, strings.Replace(w, "RUN:", dir+":", 1))
				}
				fired = strings.Contains(weakRun(t, args, image, a.script), "PWN")
			}
			if !fired {
				t.Error("the attack does not work even against a weak set-up")
			}
		})
	}
}

// weakRun runs a script in a container without any of our hardening.
func weakRun(t *testing.T, args []string, image, script string) string {
	t.Helper()
	ctx, stop := context.WithTimeout(t.Context(), 60*time.Second)
	defer stop()
	args = append(append([]string{"run", "--rm"}, args...), "--tmpfs", "/workspace", image, "sh", "-c", script)
	if i := strings.Join(args, " "); strings.Contains(i, ":/workspace") {
		args = dropTmpfs(args)
	}
	var out bytes.Buffer
	cmd := exec.CommandContext(ctx, "docker", args...)
	cmd.Stdout, cmd.Stderr = &out, &out
	_ = cmd.Run() // the script's exit code says nothing
	return out.String()
}

func dropTmpfs(args []string) []string {
	var out []string
	for i := 0; i < len(args); i++ {
		if args[i] == "--tmpfs" {
			i++
			continue
		}
		out = append(out, args[i])
	}
	return out
}

// twiceInOneVolume keeps the workspace between two attempts.
func twiceInOneVolume(t *testing.T, image, script string) bool {
	dir := t.TempDir()
	args := []string{"-v", dir + ":/workspace"}
	weakRun(t, args, image, script)
	return strings.Contains(weakRun(t, args, image, script), "PWN")
}

// twiceWithSharedMemory shares the host's IPC namespace between two tasks.
func twiceWithSharedMemory(t *testing.T, image, script string) bool {
	t.Cleanup(func() { os.Remove("/dev/shm/sbnote") })
	args := []string{"--ipc=host"}
	weakRun(t, args, image, script)
	return strings.Contains(weakRun(t, args, image, script), "PWN")
}

// killsRunner runs the agent as a plain child in the PID namespace of a
// runner that would have recorded it.
func killsRunner(t *testing.T, image, script string) bool {
	out := weakRun(t, nil, image, "sh -c '(sleep 2; echo RECORDED) & sh -c \"$0\"; wait' \""+strings.ReplaceAll(script, `"`, `\"`)+`"`)
	return !strings.Contains(out, "RECORDED")
}

// unbounded is a plain runner without any limit of its own: what the script
// prints or does has no end that it would notice. It holds for every script
// that an ordinary process may run, so it shows that the script starts and
// that nothing in a bare container ends it as a named outcome.
func unbounded(t *testing.T, image, script string) bool {
	name := fmt.Sprintf("securebench-weak-%d", time.Now().UnixNano())
	ctx, stop := context.WithTimeout(t.Context(), 4*time.Second)
	defer stop()
	// The bounds keep the machine alive; they are far above those of the corpus.
	cmd := exec.CommandContext(ctx, "docker", "run", "--name", name, "--pids-limit=512", "--memory=2g", "--memory-swap=2g",
		"--log-driver=none", "--tmpfs", "/workspace:size=512m", image, "sh", "-c", script)
	var out bytes.Buffer
	cmd.Stdout = &out
	err := cmd.Run()
	defer exec.Command("docker", "rm", "-f", name).Run()
	running, inspectErr := exec.Command("docker", "inspect", "-f", "{{.State.Running}}", name).Output()
	if inspectErr != nil {
		return false
	}
	stillRuns := strings.TrimSpace(string(running)) == "true"
	flooded := out.Len() > 8<<20
	named := strings.Contains(out.String(), "_limit")
	return (stillRuns || flooded || err != nil || ctx.Err() == nil) && !named
}

// injectsLine builds a record by pasting text between quotes.
func injectsLine(t *testing.T, image, script string) bool {
	line := `{"task_id": "t", "stdout": "` + weakRun(t, nil, image, script) + `"}`
	for _, l := range strings.Split(line, "\n") {
		var r struct {
			TaskID string `json:"task_id"`
			Score  int
		}
		l, _, _ = strings.Cut(l, "\r")
		if json.Unmarshal([]byte(l), &r) == nil && r.TaskID == "twin-D06" && r.Score == 1 {
			return true
		}
	}
	return false
}

// forgesSummary reads the verdict out of everything that was printed.
func forgesSummary(t *testing.T, image, script string) bool {
	return strings.Contains(weakRun(t, nil, image, script), "\nsecurebench: PASS twin-D10 score=1\n")
}

// keepsSecret writes output down as it comes.
func keepsSecret(t *testing.T, image, script string) bool {
	return strings.Contains(weakRun(t, []string{"-e", "SB_TEST_API_KEY=" + secret}, image, script), secret)
}

// printsRaw sends output to the operator as it comes.
func printsRaw(t *testing.T, image, script string) bool {
	return strings.ContainsAny(weakRun(t, nil, image, script), "\x1b\r\b")
}

// inlinesAll puts the whole candidate into the record.
func inlinesAll(t *testing.T, image, script string) bool {
	return len(weakRun(t, nil, image, script)) > 64<<10
}
