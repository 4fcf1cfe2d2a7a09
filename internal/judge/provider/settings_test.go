package provider_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"securebench/internal/config"
	"securebench/internal/judge/provider"
	"securebench/internal/source"
)

// parse reads a tester YAML with a judge's section, and returns what is wrong with it.
func parse(t *testing.T, section string) (*provider.Settings, string) {
	t.Helper()
	dir := t.TempDir()
	file := filepath.Join(dir, "tester.yaml")
	text := "schema_version: \"0.2\"\nrun: {id: r, output_dir: out}\nbenchmark: {manifest: m, tasks: t}\nharness: {type: command}\n" + section
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	var s *provider.Settings
	_, err := config.LoadTester(file, func(c *config.Tester) (ps source.Problems) {
		s, ps = provider.Parse(c.Judge)
		return ps
	})
	if err != nil {
		return nil, strings.ReplaceAll(err.Error(), dir+"/", "")
	}
	return s, ""
}

// TestSettings: what a section says is what the judge is asked with.
func TestSettings(t *testing.T) {
	if s, problem := parse(t, ""); s != nil || problem != "" {
		t.Errorf("without a section: %+v, %s", s, problem)
	}
	s, problem := parse(t, "judge: {model: gpt-5.5}\n")
	if problem != "" || s.Votes != 3 || s.Unanimous || s.Unchecked || s.Model.Model != "gpt-5.5" || s.Model.KeyEnv != "OPENAI_API_KEY" || len(s.Model.Prices) != 1 {
		t.Errorf("%+v, %s", s, problem)
	}
	s, problem = parse(t, "judge: {model: m, api: messages, api_key_env: K, max_tokens: 300, votes: 9, decide: unanimous, canaries: off, budget: {requests: 5, cost: 2}, prices: {m: {input: 1, output: 2}}}\n")
	if problem != "" || s.Votes != 9 || !s.Unanimous || !s.Unchecked || s.Model.Total.Requests != 5 || s.Model.Total.Cost != 2 || s.Model.Requests != 0 || s.Model.KeyEnv != "K" || s.Model.MaxTokens != 300 || s.Facts()["max_tokens"] != int64(300) {
		t.Errorf("%+v, %s", s, problem)
	}
	with := provider.WithModel(s.Section, "other")
	if s, ps := provider.Parse(with); len(ps) != 1 || !strings.Contains(ps[0].Error(), `judge.prices has no price of model "other"`) || s.Votes != 9 {
		t.Errorf("%+v, %v", s, ps)
	}
}

// TestMistakes: each is refused at its line, with what to do.
func TestMistakes(t *testing.T) {
	for section, want := range map[string]string{
		"judge: 3\n":                               "tester.yaml:5:8: root.judge must be an object, not a number",
		"judge: {votes: 3}\n":                      "tester.yaml:5:8: judge.model is required (name the model, such as model: gpt-5.5)",
		"judge:\n  model: m\n  votes: 4\n":         "tester.yaml:7:10: judge.votes is 4, with which there can be as many votes for as against (write 1, 3, 5, 7 or 9)",
		"judge:\n  model: m\n  votes: 11\n":        "tester.yaml:7:10: judge.votes must be from 1 to 9",
		"judge:\n  model: m\n  decide: best\n":     "tester.yaml:7:11: judge.decide must be one of: majority, unanimous",
		"judge:\n  model: m\n  canaries: some\n":   "tester.yaml:7:13: judge.canaries must be one of: required, off",
		"judge:\n  model: m\n  temperature: 0\n":   `tester.yaml:7:3: judge contains unsupported field "temperature"`,
		"judge:\n  model: m\n  trusted: yes\n":     "tester.yaml:7:12: judge.trusted must be sha256:",
		"judge:\n  model: m\n  budget: {}\n":       "tester.yaml:7:11: judge.budget sets no bound",
		"judge: {model: m, budget: {cost: 1}}\n":   `judge.budget.cost needs the price of model "m" (add judge.prices`,
		"judge:\n  model: m\n  max_tokens: 0\n":    "tester.yaml:7:15: judge.max_tokens must be from 1 to 2147483648",
		"judge: {model: m, api: soap}\n":           "judge.api must be one of: chat, gemini, messages, responses",
		"judge: {model: m, api_key_env: sk-123}\n": "judge.api_key_env is not the name of a variable",
	} {
		if _, problem := parse(t, section); !strings.Contains(problem, want) || strings.Contains(problem, "sk-123") {
			t.Errorf("%s: %q, want %q", section, problem, want)
		}
	}
}
