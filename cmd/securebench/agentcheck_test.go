package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/rand"
	"crypto/sha512"
	"encoding/base64"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"securebench/internal/agent/agenttest"
	"securebench/internal/agentcheck"
)

// smallAgent describes the agent of testdata/agents/small.py.
const smallAgent = `name: NAME
about: a small agent
program: {npm: NAME, files: [{from: ./}], start: small.py}
providers: [{api: openai_chat, base_url: "https://api.example", keys: [SMALL_KEY]}]
command: ["{program}", MODE, "{model}", "{relay}", "{prompt}"]
version: ["{program}", version]
output: {events: [{where: {type: says}, message: text}]}
`

// ownAgent is an agent of the operator's, whose program a registry of npm serves.
type ownAgent struct {
	name string   // of this test alone
	file string   // of its description
	env  []string // in which it is found
}

// newAgent makes an agent of a description and the files of its package, which can all be
// executed. In the description, NAME is its name.
func newAgent(t *testing.T, description string, files map[string]string) ownAgent {
	t.Helper()
	a := ownAgent{name: "own-" + strings.ToLower(rand.Text())}
	dir := t.TempDir()
	a.file = filepath.Join(dir, a.name+".yaml")
	a.env = append(npmRegistry(t, a.name, files), "SECUREBENCH_AGENTS="+dir, "SECUREBENCH_AGENT_CACHE="+filepath.Join(t.TempDir(), "cache"))
	a.describe(t, description)
	t.Cleanup(func() { // of the engine, too
		path, err := binary()
		if err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command(path, "agent", "remove", a.name+"@1.0.0")
		cmd.Env = append(os.Environ(), a.env...)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("removing %s: %v: %s", a.name, err, out)
		}
	})
	return a
}

// describe writes another description of the agent.
func (a ownAgent) describe(t *testing.T, description string) {
	t.Helper()
	write(t, a.file, strings.ReplaceAll(description, "NAME", a.name))
}

// npmRegistry serves a package of one release, and returns the environment in which npm's
// clients find it.
func npmRegistry(t *testing.T, name string, files map[string]string) (env []string) {
	t.Helper()
	var packed bytes.Buffer
	zipped := gzip.NewWriter(&packed)
	w := tar.NewWriter(zipped)
	for _, file := range slices.Sorted(maps.Keys(files)) {
		if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: "package/" + file, Mode: 0o755, Size: int64(len(files[file]))}); err != nil {
			t.Fatal(err)
		}
		_, _ = io.WriteString(w, files[file])
	}
	if w.Close() != nil || zipped.Close() != nil {
		t.Fatal("packing failed")
	}
	sum := sha512.Sum512(packed.Bytes())
	var s *httptest.Server
	s = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/package":
			_, _ = w.Write(packed.Bytes())
		case "/" + name:
			_ = json.NewEncoder(w).Encode(map[string]any{"name": name, "dist-tags": map[string]any{"latest": "1.0.0"}, "versions": map[string]any{
				"1.0.0": map[string]any{"dist": map[string]any{"tarball": s.URL + "/package", "integrity": "sha512-" + base64.StdEncoding.EncodeToString(sum[:])}}}})
		default:
			http.NotFound(w, r)
		}
	}))
	t.Cleanup(s.Close)
	return []string{"npm_config_registry=" + s.URL, "npm_config_userconfig=/dev/null", "npm_config_globalconfig=/dev/null"}
}

// agentFile reads a program of testdata/agents.
func agentFile(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", "agents", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestAgentCheck: an agent of the operator's that works passes every step, and one that
// does not is told where it fails. The check needs no key, and uses none that is there.
func TestAgentCheck(t *testing.T) {
	t.Parallel()
	image, dir := needEngine(t), t.TempDir()
	small := newAgent(t, smallAgent, map[string]string{"small.py": agentFile(t, "small.py")})
	env := append(small.env, "SMALL_KEY="+secret)
	for _, tt := range []struct {
		mode  string
		fails []string // steps
		found string   // of the first of them
	}{
		{"works", nil, ""},
		{"silent", []string{"relay", "tools", "output", "candidate", "score"}, "no request of the agent came to the relay"},
		{"hosted", []string{"relay", "tools", "output", "ends", "candidate", "score"}, "the relay refused what it asked: "},
		{"idle", []string{"score"}, "the candidate cannot be imported"},
		{"mute", []string{"output"}, "0 steps in what it prints"},
		{"crash", []string{"output", "ends", "candidate", "score"}, "0 steps in what it prints"},
		{"wrong", []string{"score"}, "the tests failed"},
	} {
		t.Run(tt.mode, func(t *testing.T) {
			small.describe(t, strings.Replace(smallAgent, "MODE", tt.mode, 1))
			out := filepath.Join(dir, tt.mode)
			res := securebench(t, env, "agent", "check", small.file, "--image", image, "--json", "-o", out)
			var report agentcheck.Report
			if err := json.Unmarshal([]byte(res.stdout), &report); err != nil {
				t.Fatalf("%v\n%s%s", err, res.stdout, res.stderr)
			}
			var fails []string
			found := ""
			for _, f := range report.Findings {
				if !f.Works {
					fails = append(fails, f.Step)
					if found == "" {
						found = f.Found
					}
				}
			}
			if !slices.Equal(fails, tt.fails) || !strings.Contains(found, tt.found) {
				t.Errorf("%q fail, the first with %q, want %q and %q\n%s", fails, found, tt.fails, tt.found, res.stdout)
			}
			if want := map[bool]int{true: exitDone, false: exitProblems}[tt.fails == nil]; res.code != want {
				t.Errorf("exit %d, want %d: %s", res.code, want, res.stderr)
			}
			key := newNeedles()
			key.addWindows("the key", secret, leakSize)
			key.check(t, allFiles(t, out))
		})
	}
}

// TestAgentCheckOfReal: the real Codex passes every step, and says so in a table.
func TestAgentCheckOfReal(t *testing.T) {
	t.Parallel()
	image := needEngine(t)
	needAgents(t)
	res := securebench(t, nil, "agent", "check", "codex@"+agenttest.Pinned("codex"), "--image", image)
	if res.code != exitDone || strings.Count(res.stdout, " yes ") != 8 || strings.Contains(res.stdout, " NO ") {
		t.Errorf("exit %d\n%s%s", res.code, res.stdout, res.stderr)
	}
}
