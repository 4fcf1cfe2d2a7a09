package main

import (
	"cmp"
	"encoding/xml"
	"fmt"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"go.yaml.in/yaml/v4"

	"securebench/internal/gateway/scripted"
)

// ciStep is a command of a recipe.
type ciStep struct {
	name, script string
	env          map[string]string
	always       bool
}

// recipes reads docs/ci.md: the steps of GitHub's workflow, and of GitLab's job, whose
// commands share one shell. The installation is left out.
func recipes(t *testing.T) map[string][]ciStep {
	t.Helper()
	var github struct {
		Env  map[string]string
		Jobs map[string]struct {
			Steps []struct {
				Name, If, Run string
				Env           map[string]string
			}
		}
	}
	var gitlab map[string]struct {
		Variables map[string]string
		Script    []string
	}
	for _, s := range steps(t, filepath.Join("..", "..", "docs", "ci.md")) {
		if s.language != "yaml" {
			continue
		}
		into := any(&gitlab)
		if strings.HasSuffix(s.file, ".github/workflows/benchmark.yml") {
			into = &github
		}
		if err := yaml.Unmarshal([]byte(s.text), into); err != nil {
			t.Fatalf("docs/ci.md:%d: %v", s.line, err)
		}
	}
	out := map[string][]ciStep{}
	for _, s := range github.Jobs["benchmark"].Steps {
		if s.Run == "" || s.Name == "Install" {
			continue
		}
		step := ciStep{s.Name, s.Run, map[string]string{}, s.If == "always()"}
		for _, env := range []map[string]string{github.Env, s.Env} {
			for name, value := range env {
				if secret, ok := strings.CutPrefix(value, "${{ secrets."); ok {
					value = "$" + strings.TrimSuffix(secret, " }}") // a secret of the test
				}
				step.env[name] = value
			}
		}
		out["github"] = append(out["github"], step)
	}
	job := gitlab["benchmark"]
	out["gitlab"] = []ciStep{{"script", strings.Join(job.Script, "\n"), job.Variables, false}}
	return out
}

// ciRun is what became of a recipe.
type ciRun struct {
	dir    string
	code   int    // of the first step that failed
	failed string // its name
	log    string
}

// play runs the steps of a recipe as CI does, each in a shell of its own that ends with the
// first command that fails.
func play(t *testing.T, dir string, steps []ciStep, secrets map[string]string) (got ciRun) {
	t.Helper()
	got.dir = dir
	program, err := binary()
	if err != nil {
		t.Fatal(err)
	}
	file := func(name string) string { return filepath.Join(dir, name) }
	for _, s := range steps {
		if got.failed != "" && !s.always {
			continue
		}
		cmd := exec.Command("bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", s.script)
		cmd.Dir = dir
		cmd.Env = []string{"HOME=" + file("home"), "PATH=" + filepath.Dir(program) + ":" + os.Getenv("PATH"), "RUNNER_TEMP=" + file("temp"),
			"GITHUB_ENV=" + file("env"), "GITHUB_STEP_SUMMARY=" + file("summary.md"), "DOCKER_HOST=unix:///nowhere.sock"}
		for name, value := range s.env {
			if secret, ok := strings.CutPrefix(value, "$"); ok {
				value = secrets[secret]
			}
			if name == "SECUREBENCH_KEYS" {
				value = file("keys")
			}
			cmd.Env = append(cmd.Env, name+"="+value)
		}
		if key := secrets["SECUREBENCH_SIGNING_KEY"]; key != "" && len(steps) == 1 { // a variable of the type file
			write(t, file("key.pem"), key)
			cmd.Env = append(cmd.Env, "SECUREBENCH_SIGNING_KEY="+file("key.pem"))
		}
		if set, err := os.ReadFile(file("env")); err == nil {
			cmd.Env = append(cmd.Env, strings.Fields(string(set))...)
		}
		text, err := cmd.CombinedOutput()
		got.log += fmt.Sprintf("%s:\n%s", s.name, text)
		if err != nil && got.failed == "" {
			got.failed, got.code = s.name, cmd.ProcessState.ExitCode()
		}
	}
	return got
}

// TestCIRecipes runs what docs/ci.md says: with a good score, with one that is too low, with
// a task that got worse, without a secret, and with a pack that has a fault.
func TestCIRecipes(t *testing.T) {
	t.Parallel()
	model := textOf(t, "../../examples/gsm8k-model/model.yaml") // 16 of 20
	provider, worse := ciProvider(t, model), ciProvider(t, strings.Replace(model, "Answer: 540", "Answer: 541", 1))
	all := recipes(t)
	pem, public, baseline := ciKeys(t, provider)
	for name, tt := range map[string]struct {
		provider string    // "" knows 16 of 20 answers
		edit     [2]string // of the pack's rows: what, and by what it is replaced
		rate     string    // "" is that of the recipe
		noSecret bool
		code     int
		github   string // the step that fails
		both     bool   // it is tried with both recipes, which have the same commands
	}{
		"a good run":          {both: true},
		"without a secret":    {noSecret: true, both: true},
		"a low score":         {rate: "rate<0.9", code: exitFailOn, github: "Run", both: true},
		"a worse task":        {provider: worse, rate: "rate<0.5", code: exitFailOn, github: "Run"},
		"another pack":        {edit: [2]string{"James decides", "Jim decides"}, code: exitRefused, github: "Run"},
		"a pack with a fault": {edit: [2]string{`"accepted_answers"`, `"acepted_answers"`}, code: exitPack, github: "Check the pack"},
	} {
		for kind, steps := range all {
			if kind != "github" && !tt.both {
				continue
			}
			t.Run(kind+"/"+name, func(t *testing.T) {
				t.Parallel()
				dir := ciCheckout(t, cmp.Or(tt.provider, provider), public, baseline)
				if tasks := filepath.Join(dir, "packs", "mine", "tasks.jsonl"); tt.edit[0] != "" {
					write(t, tasks, strings.Replace(textOf(t, tasks), tt.edit[0], tt.edit[1], 1))
				}
				secrets := map[string]string{"OPENAI_API_KEY": "k", "SECUREBENCH_SIGNING_KEY": pem}
				if tt.noSecret {
					delete(secrets, "SECUREBENCH_SIGNING_KEY")
				}
				var edited []ciStep
				for _, s := range steps {
					if tt.rate != "" {
						s.script = strings.ReplaceAll(s.script, "rate<0.8", tt.rate)
					}
					edited = append(edited, s)
				}
				got := play(t, dir, edited, secrets)
				if got.code != tt.code || kind == "github" && got.failed != tt.github {
					t.Fatalf("it ended with %d in %q, want %d in %q\n%s", got.code, got.failed, tt.code, tt.github, got.log)
				}
				if strings.Contains(got.log, pem) {
					t.Error("the log has the key")
				}
				got.check(t, kind, tt.code == exitDone || tt.code == exitFailOn, !tt.noSecret)
			})
		}
	}
}

// check looks at what a recipe left.
func (r ciRun) check(t *testing.T, kind string, ran, signed bool) {
	t.Helper()
	if !ran {
		if _, err := os.Stat(filepath.Join(r.dir, "report.html")); err == nil {
			t.Error("there is a report of no run")
		}
		return
	}
	var suites struct {
		Tests    int `xml:"tests,attr"`
		Failures int `xml:"failures,attr"`
	}
	if err := xml.Unmarshal([]byte(textOf(t, filepath.Join(r.dir, "junit.xml"))), &suites); err != nil || suites.Tests != 21 || suites.Failures < 4 {
		t.Errorf("JUnit: %+v, %v", suites, err)
	}
	if page := textOf(t, filepath.Join(r.dir, "report.html")); !strings.Contains(page, "<title>securebench") {
		t.Error("there is no report")
	}
	if kind == "github" {
		summary := textOf(t, filepath.Join(r.dir, "summary.md"))
		if !strings.Contains(summary, "of 20") {
			t.Errorf("the summary says %q", summary)
		}
		for line := range strings.Lines(summary) {
			if !strings.HasPrefix(line, "    ") {
				t.Errorf("a line of the summary is markup: %q", line)
			}
		}
	}
	want := exitDone
	if !signed {
		want = exitIntegrity
	}
	if res := securebench(t, nil, "verify", filepath.Join(r.dir, "run.zip"), "--key", filepath.Join(r.dir, "ci.pem")); res.code != want {
		t.Errorf("the bundle: exit code %d, want %d: %s%s", res.code, want, res.stdout, res.stderr)
	}
}

// ciCheckout is a repository that CI has checked out.
func ciCheckout(t *testing.T, provider, public, baseline string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	if err := os.CopyFS(filepath.Join(dir, "packs", "mine"), os.DirFS("../../packs/gsm8k-sample")); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "ci.pem"), public)
	write(t, filepath.Join(dir, "baseline.zip"), baseline)
	write(t, filepath.Join(dir, "bench.yaml"), `schema_version: "0.2"
run: {id: bench, output_dir: run}
benchmark: {manifest: packs/mine/manifest.yaml, tasks: packs/mine/tasks.jsonl}
harness: {type: model, config: {model: scripted, api: responses, base_url: "`+provider+`"}}
`)
	return dir
}

// ciKeys makes the key of CI, and a baseline that it signed.
func ciKeys(t *testing.T, provider string) (private, public, baseline string) {
	t.Helper()
	dir := ciCheckout(t, provider, "", "")
	env := []string{"SECUREBENCH_KEYS=" + filepath.Join(dir, "keys"), "OPENAI_API_KEY=k"}
	for _, args := range [][]string{
		{"key", "new"}, {"key", "export", "-o", filepath.Join(dir, "public.pem")},
		{"run", "--config", filepath.Join(dir, "bench.yaml"), "--quiet"}, {"bundle", filepath.Join(dir, "run"), "-o", filepath.Join(dir, "run.zip")},
	} {
		if res := securebench(t, env, args...); res.code != exitDone {
			t.Fatalf("%v: %s%s", args, res.stdout, res.stderr)
		}
	}
	return textOf(t, filepath.Join(dir, "keys", "signing.pem")), textOf(t, filepath.Join(dir, "public.pem")), textOf(t, filepath.Join(dir, "run.zip"))
}

// ciProvider is a provider that plays a script.
func ciProvider(t *testing.T, text string) (url string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "model.yaml")
	write(t, file, text)
	script, err := scripted.Load(file)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(scripted.New(script, nil))
	t.Cleanup(server.Close)
	return server.URL
}

func textOf(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
