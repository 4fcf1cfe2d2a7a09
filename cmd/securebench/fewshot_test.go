package main

import (
	"bytes"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	"securebench/internal/family/shortanswer"
	"securebench/internal/gateway/scripted"
	"securebench/internal/pipeline/record"
)

// shotPack writes a pack of questions, each with an answer that no other row has, and
// returns its folder.
func shotPack(t *testing.T, rows int) string {
	t.Helper()
	dir := t.TempDir()
	var b strings.Builder
	for i := range rows {
		fmt.Fprintf(&b, `{"id": "q-%d", "family": "short_answer", "input": {"question": "What is the code of door %d?"}, "eval": {"accepted_answers": ["gold-%d-canary", "besides-%d-canary"]}}`+"\n", i, i, i, i)
	}
	write(t, filepath.Join(dir, "manifest.yaml"), "id: doors\nversion: 1\n")
	write(t, filepath.Join(dir, "tasks.jsonl"), b.String())
	return dir
}

// shownIn are the rows whose answers a run showed, by run.json.
func shownIn(t *testing.T, out string) (ids []string) {
	t.Helper()
	m, _, err := record.ReadManifest(os.DirFS(out))
	if err != nil {
		t.Fatal(err)
	}
	if m.Selection == nil || m.Selection.FewShot == nil {
		return nil
	}
	return m.Selection.FewShot.Tasks
}

// TestFewShot: over each API, questions come after solved examples, whose rows are left
// out and named. Of the rows that are scored, nothing hidden is sent.
func TestFewShot(t *testing.T) {
	t.Parallel()
	const rows = 8
	dir := shotPack(t, rows)
	forms := map[string]string{ // of an example, with its question and answer
		"chat":      `{"content":%s,"role":"user"},{"content":%s,"role":"assistant"}`,
		"responses": `{"content":%s,"role":"user","type":"message"},{"content":%s,"role":"assistant","type":"message"}`,
		"messages":  `{"content":[{"text":%s,"type":"text"}],"role":"user"},{"content":[{"text":%s,"type":"text"}],"role":"assistant"}`,
		"gemini":    `{"parts":[{"text":%s}],"role":"user"},{"parts":[{"text":%s}],"role":"model"}`,
	}
	var before []string
	for api, form := range forms {
		b := newModelBench(t, &scripted.Script{Turns: []scripted.Turn{{Say: "Answer: none"}}})
		write(t, b.envFile, "OPENAI_API_KEY="+modelKey+"\nANTHROPIC_API_KEY="+modelKey+"\nGEMINI_API_KEY="+modelKey+"\n")
		code, stdout, stderr := b.run(dir, "--model", "m-1", "--base-url", b.url, "--api", api, "--few-shot", "2", "-q")
		if code != exitDone || !strings.Contains(stdout, fmt.Sprintf(" verified=%d passed=0 ", rows-2)) {
			t.Fatalf("%s: exit %d\n%s%s", api, code, stdout, stderr)
		}
		shown := shownIn(t, b.out)
		if before != nil && !slices.Equal(shown, before) || len(shown) != 2 {
			t.Errorf("%s shows %q, another API %q", api, shown, before)
		}
		before = shown
		for _, r := range b.provider.Requests() {
			if r.Method == http.MethodPost {
				checkShots(t, api, form, string(r.Body), shown, rows)
			}
		}
		for id := range modelLines(t, b.out) {
			if slices.Contains(shown, id) {
				t.Errorf("%s: %s is shown, and scored", api, id)
			}
		}
		var out, errs bytes.Buffer
		if code := execute([]string{"verify", b.out}, &out, &errs); code != exitDone || !strings.Contains(out.String()+errs.String(), `--few-shot 2 (left out, as solved examples: `+strings.Join(shown, ", ")+")") {
			t.Errorf("%s: verify ends with %d: %s%s", api, code, out.String(), errs.String())
		}
	}
}

// checkShots checks a question: what is shown before it, and that nothing else that is
// hidden is in it.
func checkShots(t *testing.T, api, form, body string, shown []string, rows int) {
	t.Helper()
	for i := range rows {
		example := slices.Contains(shown, fmt.Sprintf("q-%d", i))
		gold := fmt.Sprintf("gold-%d-canary", i)
		if strings.Contains(body, fmt.Sprintf("besides-%d-canary", i)) || strings.Contains(body, gold) != example {
			t.Errorf("%s: what row %d hides is sent, or what it shows is not: %s", api, i, body)
		}
		if !example {
			continue
		}
		question, _ := json.Marshal(fmt.Sprintf("%s\n\nWhat is the code of door %d?", shortanswer.Family().Instruction, i))
		answer, _ := json.Marshal(gold)
		if want := fmt.Sprintf(form, question, answer); !strings.Contains(body, want) {
			t.Errorf("%s: not asked with %s: %s", api, want, body)
		}
	}
}

// TestFewShotResume: what is shown is an input of the run. Other examples, and examples
// whose rows say something else, are refused, and have their questions asked again.
func TestFewShotResume(t *testing.T) {
	t.Parallel()
	dir := shotPack(t, 6)
	b := newModelBench(t, &scripted.Script{Turns: []scripted.Turn{{Say: "Answer: none"}}})
	flags := []string{dir, "--model", "m-1", "--base-url", b.url, "--few-shot", "2", "--limit", "3", "-q"}
	if code, stdout, stderr := b.run(flags...); code != exitDone || !strings.Contains(stdout, " verified=3 ") {
		t.Fatalf("exit %d: %s%s", code, stdout, stderr)
	}
	asked := b.asked("")
	if code, _, stderr := b.run(append(flags, "--resume")...); code != exitDone || b.asked("") != asked {
		t.Errorf("the same run: exit %d, %d questions more: %s", code, b.asked("")-asked, stderr)
	}
	if code, _, stderr := b.run(append(flags, "--few-shot", "1", "--resume")...); code != exitRefused || !strings.Contains(stderr, "setting harness.config.few_shot: was") {
		t.Errorf("another number: exit %d: %s", code, stderr)
	}
	shown := shownIn(t, b.out)
	rows, err := os.ReadFile(filepath.Join(dir, "tasks.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	gold := "gold-" + strings.TrimPrefix(shown[0], "q-") + "-canary"
	write(t, filepath.Join(dir, "tasks.jsonl"), strings.Replace(string(rows), gold, "gold-of-another", 1))
	if code, _, stderr := b.run(append(flags, "--resume")...); code != exitRefused || !strings.Contains(stderr, "setting examples: was") {
		t.Errorf("an example was changed: exit %d: %s", code, stderr)
	}
	if code, _, stderr := b.run(append(flags, "--resume=rerun-changed")...); code != exitDone || b.asked("gold-of-another") != 3 {
		t.Errorf("an example was changed: exit %d, %d questions with it: %s", code, b.asked("gold-of-another"), stderr)
	}
}

// TestFewShotRefused: examples that cannot be shown end the run before its first question.
func TestFewShotRefused(t *testing.T) {
	t.Parallel()
	b := newModelBench(t, &scripted.Script{Turns: []scripted.Turn{{Say: "Answer: none"}}})
	dir := shotPack(t, 4)
	for name, tt := range map[string]struct {
		args []string
		code int
		want string
	}{
		"all of them": {[]string{"--few-shot", "4"}, exitUsage, "all of these rows are shown as solved examples"},
		"none":        {[]string{"--few-shot", "0"}, exitConfig, "harness.config.few_shot must be from 1 to 64"},
		"an agent":    {[]string{"--few-shot", "1", "--harness", "opencode"}, exitConfig, "few_shot"},
	} {
		code, _, stderr := b.run(append([]string{dir, "--model", "m-1", "--base-url", b.url, "-q"}, tt.args...)...)
		if code != tt.code || !strings.Contains(stderr, tt.want) || strings.Count(stderr, "error:") != 1 {
			t.Errorf("%s: exit %d, want %d and %q: %s", name, code, tt.code, tt.want, stderr)
		}
	}
	if n := b.asked(""); n != 0 {
		t.Errorf("%d questions were asked", n)
	}
}
