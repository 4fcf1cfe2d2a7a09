package main

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"securebench/internal/awaittest"
	"securebench/internal/gateway/scripted"
	"securebench/internal/sampletest"
	"securebench/internal/sandbox/owner"
)

// hiddenArgument writes a value so that neither it nor an encoding of it is there.
func hiddenArgument(value string) string {
	b := []byte(value)
	for i := range b {
		b[i] ^= 0x5a
	}
	return hex.EncodeToString(b)
}

// searchCommand begins to search a sandbox for the key, and for a control.
func searchCommand(t *testing.T, key, control string) string {
	t.Helper()
	program, err := os.ReadFile(filepath.Join("testdata", "search.py"))
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("cat > /tmp/search <<'END'\n%s\nEND\nsetsid sh -c 'python3 /tmp/search %s %s > /tmp/part 2>&1; mv /tmp/part /tmp/searched' > /dev/null 2>&1 < /dev/null &",
		program, hiddenArgument(key), hiddenArgument(control))
}

// searched is what the search in a sandbox reports: forms by place.
type searched struct {
	Found struct{ Key, Control map[string][]string }
	Seen  map[string]int
}

// reports reads what searches reported, from what agents sent.
func reports(t *testing.T, requests []scripted.Request) (out []searched) {
	t.Helper()
	seen := map[string]bool{}
	for _, r := range requests {
		for _, m := range regexp.MustCompile(`SEARCHED=([0-9A-F]+)=`).FindAllSubmatch(r.Body, -1) {
			if seen[string(m[1])] {
				continue
			}
			seen[string(m[1])] = true
			text, err := hex.DecodeString(string(m[1]))
			var s searched
			if err == nil {
				err = json.Unmarshal(text, &s)
			}
			if err != nil {
				t.Fatalf("%v in %s", err, m[1])
			}
			out = append(out, s)
		}
	}
	return out
}

// host is what can be seen outside sandboxes while a run is under way.
type host map[string][]byte

// add adds a command's output.
func (h host) add(what string, args ...string) string {
	out, err := exec.Command("docker", args...).CombinedOutput()
	if err != nil && args[0] != "logs" { // which sandboxes have none of
		h["error of "+what] = fmt.Appendf(nil, "%v: %s", err, out)
	}
	h[what] = append(h[what], out...)
	return string(out)
}

// lookAtHost looks at a run's containers and volumes, the images of these, and
// all processes.
func lookAtHost(runID string) host {
	h := host{}
	label := "label=securebench.run=" + runID
	containers := strings.Fields(h.add("the list of containers", "ps", "-aq", "--no-trunc", "--filter", label))
	if len(containers) > 0 {
		h.add("descriptions of containers", append([]string{"inspect"}, containers...)...)
		for _, image := range strings.Fields(h.add("the list of images", append([]string{"inspect", "-f", "{{.Image}}"}, containers...)...)) {
			h.add("descriptions of images", "image", "inspect", image)
			h.add("descriptions of images", "history", "--no-trunc", image)
		}
		for _, id := range containers {
			h.add("logs of containers", "logs", id)
			h.add("changes of containers", "diff", id)
		}
	}
	for _, volume := range strings.Fields(h.add("the list of volumes", "volume", "ls", "-q", "--filter", label)) {
		h.add("descriptions of volumes", "volume", "inspect", volume)
		h.add("contents of volumes", "run", "--rm", "--network=none", "-v", volume+":/v:ro", testImage(), "tar", "-C", "/v", "-cf", "-", ".")
	}
	for _, name := range []string{"cmdline", "environ"} {
		files, _ := filepath.Glob("/proc/[0-9]*/" + name)
		for _, file := range files {
			data, _ := os.ReadFile(file) // the process may have ended
			h["processes: "+name] = append(append(h["processes: "+name], data...), '\n')
		}
	}
	return h
}

// mirror is a provider that sends its answers in very small chunks, keeps what it
// sent, and looks at the host once a search has been reported.
type mirror struct {
	http.Handler
	runID string
	mu    sync.Mutex
	sent  []byte
	hosts []host
}

func (m *mirror) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := readAll(r)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	if bytes.Contains(body, []byte("SEARCHED=")) {
		h := lookAtHost(m.runID)
		m.mu.Lock()
		m.hosts = append(m.hosts, h)
		m.mu.Unlock()
	}
	m.Handler.ServeHTTP(&smallChunks{w, m}, r)
}

// smallChunks flushes every few bytes, so that chunks split whatever is written.
type smallChunks struct {
	http.ResponseWriter
	m *mirror
}

func (s *smallChunks) Unwrap() http.ResponseWriter { return s.ResponseWriter }

func (s *smallChunks) Write(p []byte) (n int, err error) {
	s.m.mu.Lock()
	s.m.sent = append(s.m.sent, p...)
	for _, values := range s.Header() {
		s.m.sent = append(s.m.sent, strings.Join(values, "\n")...)
	}
	s.m.mu.Unlock()
	for piece := range slices.Chunk(p, 7) {
		written, err := s.ResponseWriter.Write(piece)
		n += written
		if err != nil {
			return n, err
		}
		if err := http.NewResponseController(s.ResponseWriter).Flush(); err != nil {
			return n, err
		}
	}
	return n, nil
}

// mirrorScript has a task that searches its sandbox after the provider has given
// the key back, one whose answer has the key, and one that the provider rejects
// with the key in its words.
func mirrorScript(search string) *scripted.Script {
	task := func(name string, turns ...scripted.Turn) scripted.Conversation {
		return scripted.Conversation{Seen: "task named " + name, Turns: append([]scripted.Turn{readTask()}, turns...)}
	}
	// A search may take longer than a shell tool waits, 10 s in the shortest case.
	waits := slices.Repeat([]scripted.Turn{{Run: "for i in $(seq 80); do test -e /tmp/searched && break; sleep 0.1; done; cat /tmp/searched"}}, 40)
	return &scripted.Script{Turns: []scripted.Turn{readTask()}, Conversations: []scripted.Conversation{
		task("search", append([]scripted.Turn{{Say: "You said:", Run: "true", Reflect: true}, {Run: search}},
			append(waits, scripted.Turn{Say: "It is done."})...)...),
		task("answer", scripted.Turn{Say: "Your key is", Reflect: true}),
		task("reject", scripted.Turn{Say: "No.", Before: []scripted.Fault{{Status: http.StatusUnauthorized, Reflect: true, Times: -1}}}),
	}}
}

func mirrorRow(name, image string) map[string]any {
	return map[string]any{"id": name, "family": "short_answer", "input": map[string]any{"question": "This is the task named " + name + "."},
		"eval": map[string]any{"accepted_answers": []any{"It is done."}}, "environment": map[string]any{"image": image}}
}

// TestCanaryKey: the provider's key is in no sandbox, description, volume, image,
// process list, log, trace or record, plain or encoded, even if the provider gives
// it back in bodies, headers and errors, split by events and chunks.
func TestCanaryKey(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		realHarness
		user string
	}{
		"codex":  {oldCodex(codeModel), "tester"},
		"claude": {claude(claudeModel), "root"},
	} {
		t.Run(name, func(t *testing.T) {
			if name == "claude" {
				sampletest.Nightly(t, "the same is searched for with the other agent")
			}
			m := &mirror{runID: ownRun("canary-" + name)}
			script := mirrorScript("")
			b := newAgentBench(t, script, func(h http.Handler) http.Handler { m.Handler = h; return m })
			control := canaries{}.text("control")
			*script = *mirrorScript(searchCommand(t, b.key, control))
			script.Key = b.key
			var rows []map[string]any
			for _, row := range []string{"search", "answer", "reject"} {
				rows = append(rows, mirrorRow(row, b.images[tt.user]))
			}
			tester := b.config("canary-"+name, tt.realHarness, rows)
			env := filepath.Join(t.TempDir(), "key.env")
			write(t, env, "OPENAI_API_KEY="+b.key+"\nANTHROPIC_API_KEY="+b.key+"\n")
			temp := t.TempDir()
			log := filepath.Join(b.dir, "engine.log")
			res := securebench(t, []string{"TMPDIR=" + temp}, "run", tester, "--env-file", env, "--log", log, "--retries", "0",
				"--progress", "json", "--show-agent-output", "--show-command-output")
			if res.code != exitDone || !strings.Contains(res.stdout, " total=3 verification=complete verified=3 passed=1 ") {
				t.Errorf("exit %d\n%s%s", res.code, res.stdout, res.stderr)
			}
			key := newNeedles()
			key.addWindows("the key", b.key, leakSize)
			if len(key.in(m.sent)) < len(forms(b.key)) {
				t.Errorf("the provider gave the key back in only %d forms", len(key.in(m.sent)))
			}
			checkSearched(t, reports(t, b.provider.Requests()))
			key.check(t, map[string][]byte{"standard output": []byte(res.stdout), "standard error": []byte(res.stderr)})
			for _, dir := range []string{b.dir, temp} {
				key.check(t, allFiles(t, dir))
			}
			if len(m.hosts) == 0 {
				t.Error("nothing looked at the host")
			}
			for _, h := range m.hosts {
				for what, text := range h {
					if strings.HasPrefix(what, "error ") || len(text) == 0 && what == "descriptions of containers" {
						t.Errorf("%s: %q", what, text)
					}
				}
				key.check(t, h)
			}
		})
	}
}

// checkSearched checks what the search in a sandbox says.
func checkSearched(t *testing.T, all []searched) {
	t.Helper()
	if len(all) != 1 {
		t.Fatalf("%d searches were reported, want one", len(all))
	}
	s := all[0]
	t.Logf("the search read %v", s.Seen)
	for place, forms := range s.Found.Key {
		t.Errorf("the key is in the sandbox: %s, %q", place, forms)
	}
	for place, want := range map[string]int{"environment": 1, "environ": 1, "cmdline": 1, "files": 10} {
		if got := len(s.Found.Control[place]); got < want {
			t.Errorf("the search found the control in %s in %d forms, want %d", place, got, want)
		}
	}
}

// allFiles reads every file below a folder.
func allFiles(t *testing.T, dir string) map[string][]byte {
	t.Helper()
	seen := map[string][]byte{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			seen[path], err = os.ReadFile(path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return seen
}

// TestCanaryKeyIsFound: what looks at the host finds a key that is there.
func TestCanaryKeyIsFound(t *testing.T) {
	t.Parallel()
	image := needDocker(t)
	value := canaries{}.text("key")
	runID := ownRun("planted-key")
	label := "--label=securebench.run=" + runID
	t.Cleanup(func() {
		_ = exec.Command("docker", "rm", "-fv", runID).Run()
		_ = exec.Command("docker", "volume", "rm", runID).Run()
	})
	living := "--label=securebench.owner=" + owner.Current().String() // other runs do not touch it
	dockerOutput(t, "volume", "create", label, living, "--label=planted="+value, runID)
	dockerOutput(t, "run", "-d", "--name", runID, label, living, "--network=none", "-e", "PLANTED="+value, "-v", runID+":/data", image,
		"sh", "-c", `echo "$PLANTED" > /data/file; echo "$PLANTED"; sleep 1000; exit`, value)
	key := newNeedles()
	key.addWindows("the key", value, leakSize)
	for _, what := range []string{"descriptions of containers", "descriptions of volumes", "contents of volumes", "logs of containers", "processes: cmdline", "processes: environ"} {
		awaittest.Until(t, "the key to be found in "+what, func() bool { return len(key.in(lookAtHost(runID)[what])) > 0 })
	}
}
