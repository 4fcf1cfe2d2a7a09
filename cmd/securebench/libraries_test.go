package main

import (
	"fmt"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"securebench/internal/agent/agenttest"
	"securebench/internal/gateway/scripted"
	"securebench/internal/sampletest"
)

// imagePython is the Python of the test image, for which the libraries are fetched.
const imagePython = "3.11"

// libraries returns a folder with the vendors' own libraries in it, as pip takes them from
// the registry that this machine uses. Nothing of them is built, or run here.
func libraries(t *testing.T) string {
	t.Helper()
	mode := agenttest.Current()
	if mode == agenttest.Never {
		t.Skip("SKIPPED: SECUREBENCH_TEST_AGENTS=never: no library is fetched")
	}
	dir := filepath.Join(t.TempDir(), "agent")
	cmd := exec.CommandContext(t.Context(), "python3", "-m", "pip", "install", "--quiet", "--no-input", "--disable-pip-version-check", "--no-compile",
		"--only-binary=:all:", "--implementation=cp", "--python-version="+imagePython, "--platform=manylinux_2_17_x86_64", "--platform=manylinux2014_x86_64",
		"--target", dir, "--requirement", "testdata/libraries/requirements.txt")
	if out, err := cmd.CombinedOutput(); err != nil {
		if mode == agenttest.Require {
			t.Fatalf("fetching the libraries: %v\n%s", err, out)
		}
		t.Skipf("SKIPPED: the vendors' libraries cannot be fetched: %v\n%s", err, out)
	}
	return dir
}

// TestVendorLibraries: the vendors' own Python libraries work in a sandbox, through the
// relay: texts whole and as streams, pictures, tools, lists of models, and a refusal that
// they do not repeat.
func TestVendorLibraries(t *testing.T) {
	t.Parallel()
	sampletest.Nightly(t, "what the libraries send is tested at the relay, and agents that use them run")
	image := needEngine(t)
	agent := libraries(t)
	program, err := os.ReadFile("testdata/libraries/agent.py")
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(agent, "agent.py"), string(program))
	for api, requests := range map[string]int{"openai_chat": 6, "gemini": 6} {
		t.Run(api, func(t *testing.T) {
			t.Parallel()
			script, err := scripted.Load("testdata/libraries/script.yaml")
			if err != nil {
				t.Fatal(err)
			}
			script.Key = secret
			provider := scripted.New(script, nil)
			server := httptest.NewServer(provider)
			t.Cleanup(server.Close)
			dir := t.TempDir()
			if err := os.CopyFS(filepath.Join(dir, "agent"), os.DirFS(agent)); err != nil {
				t.Fatal(err)
			}
			writePack(t, dir, "libraries", image, fmt.Sprintf(`["python3", "/opt/securebench/agent/agent.py", %q]`, api), []hiddenRow{{
				id: "q", family: "short_answer", input: map[string]any{"question": "Does it work?"}, eval: map[string]any{"accepted_answers": []string{"everything works"}}}})
			tester := filepath.Join(dir, "tester.yaml")
			text, err := os.ReadFile(tester)
			if err != nil {
				t.Fatal(err)
			}
			write(t, tester, string(text)+fmt.Sprintf("    files: agent\n    model: m-1\n    api: %s\n    base_url: %q\n", api, server.URL))
			res := securebench(t, []string{"OPENAI_API_KEY=" + secret, "GEMINI_API_KEY=" + secret}, "run", tester)
			records := readRecords(t, filepath.Join(dir, "out", "candidates.jsonl"))
			if r := records["q"]; res.code != exitDone || len(r) != 1 || !r[0].Passed {
				t.Errorf("exit %d, %+v\n%s", res.code, r, res.stderr)
			}
			if got := provider.Requests(); len(got) < requests {
				t.Errorf("the provider was asked %d times", len(got))
			}
		})
	}
}
