package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"securebench/internal/awaittest"
	"securebench/internal/sampletest"
)

// TestWeakSetUps shows that the attacks of the corpus are real: each works
// against a set-up with exactly the weakness that it exploits. An attack that
// never works would prove nothing by failing.
func TestWeakSetUps(t *testing.T) {
	t.Parallel()
	image := needDocker(t)
	dir := t.TempDir()
	write(t, filepath.Join(dir, "tasks.jsonl"), canary+"\n")
	write(t, filepath.Join(dir, "candidates.jsonl"), "{}\n")
	for _, a := range sampletest.Of(t, 8, corpus()) {
		t.Run(a.id, func(t *testing.T) {
			t.Parallel()
			var fired bool
			if a.weakly != nil {
				fired = a.weakly(t, image, a.script)
			} else {
				args := []string{}
				for _, w := range a.weak {
					w = strings.Replace(w, "PACK:", dir+":", 1)
					args = append(args, strings.Replace(w, "RUN:", dir+":", 1))
				}
				out := weakRun(t, args, image, a.script)
				if strings.Contains(out, otherMachine) {
					t.Skip(otherMachine)
				}
				fired = strings.Contains(out, "PWN")
			}
			if !fired {
				t.Error("the attack does not work even against a weak set-up")
			}
		})
	}
}

// weakRun runs a script in a container without hardening, and returns its
// output. The workspace is bounded to keep the machine alive.
func weakRun(t *testing.T, args []string, image, script string) string {
	t.Helper()
	var out bytes.Buffer
	weakRunTo(t, &out, args, image, script)
	return out.String()
}

func weakRunTo(t *testing.T, out io.Writer, args []string, image, script string) {
	t.Helper()
	ctx, stop := context.WithTimeout(t.Context(), hung)
	defer stop()
	name := weakName(t)
	if !strings.Contains(strings.Join(args, " "), ":/workspace") {
		args = append(slices.Clone(args), "--tmpfs=/workspace:size=512m")
	}
	args = append(append([]string{"run", "--name", name, "--log-driver=none"}, args...), image, "sh", "-c", script)
	cmd := exec.CommandContext(ctx, "docker", args...)
	cmd.Stdout, cmd.Stderr = out, out
	_ = cmd.Run() // the script's exit code says nothing
}

// weakName names a container that is removed at the end of the test.
func weakName(t *testing.T) string {
	name := "securebench-weak-" + strings.ToLower(rand.Text())
	t.Cleanup(func() { _ = exec.Command("docker", "rm", "-f", name).Run() })
	return name
}

// twiceInOneVolume keeps the workspace between two attempts.
func twiceInOneVolume(t *testing.T, image, script string) bool {
	dir := t.TempDir()
	args := []string{"-v", dir + ":/workspace"}
	weakRun(t, args, image, script)
	return strings.Contains(weakRun(t, args, image, script), "PWN")
}

// twiceInOneIPC lets two tasks share an IPC namespace: memory and queues. The
// second one must find all that the script looks for.
func twiceInOneIPC(t *testing.T, image, script string) bool {
	holder := weakStart(t, []string{"--ipc=shareable"}, image, "sleep 600")
	args := []string{"--ipc=container:" + holder}
	first := weakRun(t, args, image, script)
	found := strings.Count(weakRun(t, args, image, script), "PWN")
	return !strings.Contains(first, "PWN") && found == strings.Count(script, "PWN")
}

// killsRunner runs the agent as a plain child in the PID namespace of a
// runner that would have recorded it.
func killsRunner(t *testing.T, image, script string) bool {
	out := weakRun(t, nil, image, "sh -c '(sleep 20; echo RECORDED) & sh -c \"$0\"; wait' \""+strings.ReplaceAll(script, `"`, `\"`)+`"`)
	return !strings.Contains(out, "RECORDED")
}

// weakStart starts a container and does no more to it. The bounds that callers
// give keep the machine alive; they are far above those of the corpus.
func weakStart(t *testing.T, args []string, image, script string) (name string) {
	t.Helper()
	name = weakName(t)
	args = append(append([]string{"run", "-d", "--name", name, "--log-driver=none", "--cpus=1"}, args...), image, "sh", "-c", script)
	dockerOutput(t, args...)
	return name
}

// commands lists the processes of a container that runs: number, mask of the
// signals that it ignores, and name.
func commands(name string) []string {
	out, err := exec.Command("docker", "top", name, "-eo", "pid,ignored,comm").Output()
	if err != nil { // it ends just now, or has ended
		return nil
	}
	return strings.Split(strings.TrimSpace(string(out)), "\n")[1:]
}

// manyProcesses detects more processes than the corpus's limit allows.
func manyProcesses(t *testing.T, image, script string) bool {
	name := weakStart(t, []string{"--pids-limit=160"}, image, script)
	return awaittest.Soon(func() bool { return len(commands(name)) > corpusPids })
}

// muchMemory lets the kernel end the script at four times the corpus's limit.
func muchMemory(t *testing.T, image, script string) bool {
	limit := fmt.Sprint(4 * corpusMemory)
	name := weakStart(t, []string{"--memory=" + limit, "--memory-swap=" + limit}, image, script)
	dockerOutput(t, "wait", name)
	return dockerOutput(t, "inspect", "-f", "{{.State.OOMKilled}}", name) == "true"
}

// muchDisk measures the file that the script leaves.
func muchDisk(t *testing.T, image, script string) bool {
	out := weakRun(t, nil, image, "("+script+"); stat -c %s /workspace/x")
	n, err := strconv.Atoi(strings.TrimSpace(out))
	return err == nil && n > corpusDisk
}

// muchOutput takes all that is printed.
func muchOutput(t *testing.T, image, script string) bool {
	var n counter
	weakRunTo(t, &n, nil, image, script)
	return n > corpusOutput
}

// counter is a writer that counts bytes.
type counter int

func (c *counter) Write(p []byte) (int, error) {
	*c += counter(len(p))
	return len(p), nil
}

// outlivesClient ends a container as a polite runner does at a time limit: it
// kills its own client and asks the processes to end. All of the script's are
// still there, while those of a plain script have ended.
func outlivesClient(t *testing.T, image, script string) bool {
	stays := weakClient(t, image, script)
	time.Sleep(time.Second)
	left := strings.Join(commands(stays), "\n")
	plain := weakClient(t, image, "sleep 1000")
	return strings.Count(left, "sleep") == strings.Count(script, "sleep") && strings.Contains(left, "sh") &&
		awaittest.Soon(func() bool { return commands(plain) == nil })
}

// ignoresTerm reports whether a line of commands is of a process that ignores
// TERM.
func ignoresTerm(line string) bool {
	fields := strings.Fields(line)
	if len(fields) < 2 {
		return false
	}
	mask, err := strconv.ParseUint(fields[1], 16, 64)
	return err == nil && mask&(1<<(syscall.SIGTERM-1)) != 0
}

// weakClient runs a script, kills the client that runs it and sends the
// script a TERM.
func weakClient(t *testing.T, image, script string) (name string) {
	name = weakName(t)
	client := exec.Command("docker", "run", "--init", "--cpus=1", "--name", name, image, "sh", "-c", script)
	if err := client.Start(); err != nil {
		t.Fatal(err)
	}
	awaittest.Soon(func() bool {
		running := commands(name)
		return len(running) >= 2 && strings.Count(strings.Join(running, "\n"), "sleep") == strings.Count(script, "sleep") &&
			(!strings.Contains(script, "trap") || slices.ContainsFunc(running, ignoresTerm))
	})
	_ = client.Process.Kill()
	_ = client.Wait() // it was killed
	dockerOutput(t, "kill", "--signal=TERM", name)
	return name
}

// holdsPipe runs the script under a runner that reads its output to the end:
// it waits in vain, and what the script left is alive after it.
func holdsPipe(t *testing.T, image, script string) bool {
	out := weakRun(t, []string{"-e", "SCRIPT=" + script}, image,
		`timeout 6 sh -c 'answer=$(sh -c "$SCRIPT"); echo "got $answer"'; echo "status $?"; grep -l sleep /proc/[0-9]*/comm | wc -l`)
	return strings.TrimSpace(out) == "status 124\n2"
}

// changesInJSON stores what came as JSON: what is scored later are not the
// bytes that were submitted.
func changesInJSON(t *testing.T, image, script string) bool {
	out := weakRun(t, nil, image, script)
	stored, err := json.Marshal(out)
	var again string
	return err == nil && json.Unmarshal(stored, &again) == nil && strings.HasSuffix(out, "wrong") && again != out
}

// isPartOfAll scores an answer by whether the right one contains it.
func isPartOfAll(t *testing.T, image, script string) bool {
	return strings.Contains("an honest answer", weakRun(t, nil, image, script))
}

// keysLieAround gives the agent one key at a time, each in another place.
func keysLieAround(t *testing.T, image, script string) bool {
	key := filepath.Join(t.TempDir(), "key")
	write(t, key, "password of the operator\n")
	fires := func(args ...string) bool { return strings.Contains(weakRun(t, args, image, script), "PWN") }
	for _, args := range [][]string{{"-e", "SB_OTHER_TOKEN=x"}, {"-v", key + ":/root/.netrc:ro"},
		{"-v", key + ":/root/.aws/credentials:ro"}, {"-v", key + ":/root/.config/gh/hosts.yml:ro"}} {
		if !fires(args...) {
			t.Errorf("no key was found with %v", args)
		}
	}
	return !fires()
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

// keepsSecret writes output down as it comes: the key is in it in every form.
func keepsSecret(t *testing.T, image, script string) bool {
	out := weakRun(t, []string{"-e", "SB_TEST_API_KEY=" + secret}, image, script)
	for form, key := range forms(secret) {
		if !strings.Contains(out, key) {
			t.Errorf("the script does not print the key in the form: %s", form)
		}
	}
	return true
}

// printsRaw sends output to the operator as it comes.
func printsRaw(t *testing.T, image, script string) bool {
	return strings.ContainsAny(weakRun(t, nil, image, script), "\x1b\r\b")
}

// inlinesAll puts the whole candidate into the record.
func inlinesAll(t *testing.T, image, script string) bool {
	return len(weakRun(t, nil, image, script)) > 64<<10
}
