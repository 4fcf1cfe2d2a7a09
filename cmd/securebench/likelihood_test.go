package main

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/go-json-experiment/json"

	"securebench/internal/pipeline/record"
	"securebench/internal/trajectory"
)

// baseModel is a base model on a server in the form of one that people have. Its tokens are
// words with the space before them, of which those that it likes are likely.
type baseModel struct {
	form  string
	likes map[string]float64 // log-probabilities of tokens; -3 of others

	mu      sync.Mutex
	prompts []string
}

// serve serves the model, and returns its address.
func (m *baseModel) serve(t *testing.T) string {
	t.Helper()
	server := httptest.NewServer(m)
	t.Cleanup(server.Close)
	return server.URL
}

func (m *baseModel) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	if r.Method != http.MethodPost {
		fmt.Fprint(w, `{"object":"list","data":[{"id":"base-1","object":"model"}]}`)
		return
	}
	var asked struct {
		Prompt   string `json:"prompt"`
		Echo     bool   `json:"echo"`
		Logprobs int    `json:"logprobs"`
		Most     int    `json:"max_tokens"`
	}
	if err := json.UnmarshalRead(r.Body, &asked); err != nil || r.URL.Path != "/v1/completions" || !asked.Echo || asked.Logprobs != 1 || asked.Most != 1 {
		http.Error(w, `{"error":{"message":"bad request"}}`, http.StatusBadRequest)
		return
	}
	m.mu.Lock()
	m.prompts = append(m.prompts, asked.Prompt)
	m.mu.Unlock()
	m.answer(w, asked.Prompt)
}

// tokens are words with the spaces before them.
func tokens(text string) (out []string) {
	at := 0
	for i := 1; i < len(text); i++ {
		if text[i] == ' ' && text[i-1] != ' ' {
			out, at = append(out, text[at:i]), i
		}
	}
	return append(out, text[at:])
}

// answer answers in the server's form.
func (m *baseModel) answer(w http.ResponseWriter, prompt string) {
	type logprobs struct {
		Offsets []int                `json:"text_offset"`
		Probs   []*float64           `json:"token_logprobs"`
		Tokens  []string             `json:"tokens"`
		Top     []map[string]float64 `json:"top_logprobs"`
	}
	list := tokens(prompt)
	usage := len(list) + 1 // with the token that begins every text
	var l logprobs
	add := func(token string, p *float64) {
		l.Offsets = append(l.Offsets, len(strings.Join(l.Tokens, "")))
		l.Tokens, l.Probs = append(l.Tokens, token), append(l.Probs, p)
		l.Top = append(l.Top, map[string]float64{token: -0.5})
	}
	if m.form == "vLLM" {
		add("<s>", nil)
	}
	for i, token := range list {
		p := new(-3.0)
		if likes, ok := m.likes[strings.TrimSpace(token)]; ok {
			p = new(likes)
		}
		switch {
		case m.form == "zeros":
			p = new(0.0)
		case i == 0 && m.form != "vLLM":
			p = nil
		}
		add(token, p)
	}
	const head = `{"id":"cmpl-7","object":"text_completion","created":1764280000,"model":"base-1","choices":[{"index":0,`
	switch m.form {
	case "llama.cpp": // as it refuses echo
		w.WriteHeader(http.StatusInternalServerError)
		fmt.Fprint(w, `{"error":{"code":500,"message":"Only no echo is supported","type":"server_error"}}`)
		return
	case "llama.cpp that does not refuse": // only of what it generates
		fmt.Fprintf(w, head+`"text":" the","logprobs":{"content":[{"id":262,"token":" the","bytes":[32,116,104,101],"logprob":-1.5,"top_logprobs":[]}]},"finish_reason":"length"}],`+
			`"usage":{"completion_tokens":1,"prompt_tokens":%d,"total_tokens":%d},"timings":{"prompt_n":1}}`, usage, usage+1)
		return
	case "of the generated token": // in OpenAI's form
		fmt.Fprintf(w, head+`"text":%q,"logprobs":{"text_offset":[0],"token_logprobs":[0.0],"tokens":[" the"],"top_logprobs":[{" the":0.0}]},"finish_reason":"length"}],`+
			`"usage":{"completion_tokens":1,"prompt_tokens":%d,"total_tokens":%d}}`, " the", usage, usage+1)
		return
	case "Ollama":
		fmt.Fprintf(w, head+`"text":" the","finish_reason":"length"}],"usage":{"prompt_tokens":%d,"completion_tokens":1,"total_tokens":%d}}`, usage, usage+1)
		return
	}
	add(" the", new(-1.5))
	said, _ := json.Marshal(l)
	text, _ := json.Marshal(prompt + " the")
	rest := `"finish_reason":"length"}],`
	if m.form == "vLLM" {
		rest = `"finish_reason":"length","stop_reason":null,"token_ids":null,"prompt_logprobs":[null],"prompt_token_ids":null}],"service_tier":null,"system_fingerprint":null,"kv_transfer_params":null,`
	}
	fmt.Fprintf(w, head+`"text":%s,"logprobs":%s,%s"usage":{"prompt_tokens":%d,"total_tokens":%d,"completion_tokens":1}}`, text, said, rest, usage, usage+1)
}

// asked counts the texts that the model was given, without those before the run.
func (m *baseModel) asked() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(m.prompts), func(p string) bool { return strings.HasPrefix(p, "Question: which word follows?") })
}

// choicePack writes a pack of questions with choices. Of the first, the short choice is the
// likelier whole, and the long one for each of its characters; of the others, that which
// the model likes.
func choicePack(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "manifest.yaml"), "id: choices\nversion: 1\ndefaults: {family: multiple_choice}\n")
	write(t, filepath.Join(dir, "tasks.jsonl"), `{"id": "lengths", "input": {"question": "Is it so?", "choices": ["no", "certainly everybody everywhere agrees"]}, "eval": {"answer": "A"}}
{"id": "capital", "input": {"question": "What is the capital of France?", "choices": ["Rome", "Madrid", "Paris", "Oslo"]}, "eval": {"answer": "C"}}
{"id": "wrong", "input": {"question": "What is the capital of Norway?", "choices": ["Paris", "Oslo"]}, "eval": {"answer": "B"}}
{"id": "shown", "input": {"question": "What is the capital of Spain?", "choices": ["Madrid", "Rome"]}, "eval": {"answer": "A"}}
`)
	return dir
}

// likes are the tokens that the model of the tests likes.
func likes() map[string]float64 {
	return map[string]float64{"no": -1, "certainly": -0.5, "everybody": -0.5, "everywhere": -0.5, "agrees": -0.5, "Paris": -0.25, "Madrid": -2}
}

// TestLoglikelihood: by the forms of servers that say how likely a text is, the likeliest
// choice is the answer, as a whole or for each character, and records say so.
func TestLoglikelihood(t *testing.T) {
	t.Parallel()
	ownKeys(t)
	dir := choicePack(t)
	for _, form := range []string{"vLLM", "llama-cpp-python"} {
		for by, want := range map[string]string{
			"loglikelihood":      "lengths=passed capital=passed wrong=failed shown=passed",
			"loglikelihood_norm": "lengths=failed capital=passed wrong=failed shown=passed",
		} {
			m := &baseModel{form: form, likes: likes()}
			out := filepath.Join(t.TempDir(), "out")
			code, stderr := likely(dir, out, m.serve(t), "--answer-by", by)
			if code != exitDone {
				t.Fatalf("%s, %s: exit %d: %s", form, by, code, stderr)
			}
			lines := modelLines(t, out)
			var got []string
			for _, id := range []string{"lengths", "capital", "wrong", "shown"} {
				l := lines[id]
				got = append(got, id+"="+string(l.Outcome))
				if !slices.Contains(l.Labels, by) || string(l.ProducerMetadata["answer_by"]) != fmt.Sprintf("%q", by) {
					t.Errorf("%s, %s: %s has the labels %q and %s", form, by, id, l.Labels, l.ProducerMetadata["answer_by"])
				}
			}
			if strings.Join(got, " ") != want {
				t.Errorf("%s, %s: %s, want %s", form, by, strings.Join(got, " "), want)
			}
			l := lines["capital"]
			if sums := string(l.ProducerMetadata["choice_loglikelihoods"]); sums != "[-3, -2, -0.25, -3]" || l.Usage["requests"] != 5 || l.Usage["answers_truncated"] != 0 {
				t.Errorf("%s, %s: the choices have %s, used %v", form, by, sums, l.Usage)
			}
			_, _, steps := stepsOf(t, out, "capital")
			if n := len(steps); n != 3 || steps[0].Text != "Question: What is the capital of France?\nAnswer:" || steps[1].Text != "C" || steps[2].Kind != trajectory.Answer {
				t.Errorf("%s, %s: the steps are %+v", form, by, steps)
			}
			checkLikely(t, dir, out, by)
		}
	}
}

// likely runs a model that is asked how likely choices are.
func likely(pack, out, url string, args ...string) (int, string) {
	var stdout, errs bytes.Buffer
	code := execute(append([]string{"run", pack, "--model", "base-1", "--base-url", url, "-o", out, "-q"}, args...), &stdout, &errs)
	return code, errs.String()
}

// checkLikely checks that a run verifies, that its verdicts are derived again, and that its
// report names the way.
func checkLikely(t *testing.T, pack, out, by string) {
	t.Helper()
	if m, _, err := record.ReadManifest(os.DirFS(out)); err != nil || !slices.Contains(m.Labels, by) {
		t.Errorf("run.json has the labels %q: %v", m.Labels, err)
	}
	for _, args := range [][]string{{"verify", out}, {"reverify", out, "--pack", pack}, {"report", out}} {
		var stdout, stderr bytes.Buffer
		if code := execute(args, &stdout, &stderr); code != exitDone || args[0] == "report" && !strings.Contains(stdout.String(), by) {
			t.Errorf("%s: exit %d: %s%s", args[0], code, stdout.String(), stderr.String())
		}
	}
}

// TestLoglikelihoodText: a choice follows the question and the solved examples, whose
// answers are texts of choices.
func TestLoglikelihoodText(t *testing.T) {
	t.Parallel()
	ownKeys(t)
	m := &baseModel{form: "vLLM", likes: likes()}
	out := filepath.Join(t.TempDir(), "out")
	url := m.serve(t)
	flags := []string{"--answer-by", "loglikelihood", "--few-shot", "1", "--task", "[cw]*"}
	if code, stderr := likely(choicePack(t), out, url, flags...); code != exitDone {
		t.Fatalf("exit %d: %s", code, stderr)
	}
	texts := map[string][2]string{"lengths": {"Is it so?", "no"}, "capital": {"What is the capital of France?", "Paris"},
		"wrong": {"What is the capital of Norway?", "Oslo"}, "shown": {"What is the capital of Spain?", "Madrid"}}
	shown := shownIn(t, out)
	if len(shown) != 1 {
		t.Fatalf("shown are %q", shown)
	}
	begin := "Question: " + texts[shown[0]][0] + "\nAnswer: " + texts[shown[0]][1] + "\n\nQuestion: "
	asked := m.asked()
	for _, p := range asked {
		if !strings.HasPrefix(p, begin) {
			t.Errorf("asked %q", p)
		}
	}
	if shown[0] != "capital" && !slices.Contains(asked, begin+texts["capital"][0]+"\nAnswer: Oslo") {
		t.Errorf("asked %q", asked)
	}
}

// TestLoglikelihoodBudget: each text is a request of the attempt's budget.
func TestLoglikelihoodBudget(t *testing.T) {
	t.Parallel()
	ownKeys(t)
	m := &baseModel{form: "vLLM", likes: likes()}
	dir := t.TempDir()
	tester := filepath.Join(dir, "tester.yaml")
	write(t, tester, fmt.Sprintf(`schema_version: "0.2"
run: {id: likely, output_dir: out}
benchmark: {manifest: %q, tasks: %q}
harness: {type: model, config: {model: base-1, base_url: %q, answer_by: loglikelihood, budget: {requests: 3}}}
`, filepath.Join(choicePack(t), "manifest.yaml"), filepath.Join(choicePack(t), "tasks.jsonl"), m.serve(t)))
	var stdout, stderr bytes.Buffer
	if code := execute([]string{"run", "--config", tester, "-q"}, &stdout, &stderr); code != exitDone {
		t.Fatalf("exit %d: %s%s", code, stdout.String(), stderr.String())
	}
	for id, l := range modelLines(t, filepath.Join(dir, "out")) {
		if l.Usage["requests"] != 3 || (l.Outcome == "limit") != (id == "capital") {
			t.Errorf("%s: %s %s, %v", id, l.Outcome, l.FailureReason, l.Usage)
		}
	}
	if n := len(m.asked()); n != 12 {
		t.Errorf("%d texts were asked about, want 12", n)
	}
}

// TestNoLoglikelihood: a server that does not say how likely a text is ends the run before
// its first task, in one line. A reader that takes what is there scores every choice of some
// of them alike, and so takes the first.
func TestNoLoglikelihood(t *testing.T) {
	t.Parallel()
	ownKeys(t)
	dir := choicePack(t)
	for form, want := range map[string]string{
		"llama.cpp":                      "Only no echo is supported",
		"llama.cpp that does not refuse": "it has no logprobs.token_logprobs",
		"of the generated token":         "it has the log-probabilities of 1 tokens, for a text of",
		"Ollama":                         "it has no logprobs.token_logprobs",
		"zeros":                          "all of them are 0",
	} {
		m := &baseModel{form: form, likes: likes()}
		code, stderr := likely(dir, filepath.Join(t.TempDir(), "out"), m.serve(t), "--answer-by", "loglikelihood")
		if code != exitConfig || strings.Count(stderr, "error:") != 1 || !strings.Contains(stderr, want) ||
			!strings.Contains(stderr, "--answer-by: the provider does not return the log-probabilities of a text") {
			t.Errorf("%s: exit %d: %s", form, code, stderr)
		}
		if n := len(m.asked()); n != 0 {
			t.Errorf("%s: %d questions were asked", form, n)
		}
		if form == "zeros" || form == "of the generated token" {
			if a, c := naive(t, m, "Question: q\nAnswer:", " Rome"), naive(t, m, "Question: q\nAnswer:", " Paris"); a != 0 || c != 0 {
				t.Errorf("%s: a naive reader takes the choices to have %v and %v: the test shows nothing", form, a, c)
			}
		}
	}
	if a, c := naive(t, &baseModel{form: "vLLM", likes: likes()}, "Question: q\nAnswer:", " Rome"), naive(t, &baseModel{form: "vLLM", likes: likes()}, "Question: q\nAnswer:", " Paris"); a >= c {
		t.Errorf("a naive reader takes the choices to have %v and %v", a, c)
	}
}

// naive adds up the log-probabilities after a context, but for the last, whatever there is.
func naive(t *testing.T, m *baseModel, context, choice string) (sum float64) {
	t.Helper()
	w := httptest.NewRecorder()
	m.answer(w, context+choice)
	var r struct {
		Choices []struct {
			Logprobs struct {
				Tokens []*float64 `json:"token_logprobs"`
			} `json:"logprobs"`
		} `json:"choices"`
	}
	if err := json.Unmarshal(w.Body.Bytes(), &r); err != nil {
		t.Fatal(err)
	}
	list := r.Choices[0].Logprobs.Tokens
	for i := len(tokens(context)) + 1; i < len(list)-1; i++ {
		sum += *list[i]
	}
	return sum
}

// TestLoglikelihoodRefused: settings of texts, other families and unknown ways are refused.
func TestLoglikelihoodRefused(t *testing.T) {
	t.Parallel()
	ownKeys(t)
	m := &baseModel{form: "vLLM", likes: likes()}
	url := m.serve(t)
	gsm, _ := sample(t)
	for name, tt := range map[string]struct {
		pack string
		args []string
		code int
		want string
	}{
		"a temperature":  {choicePack(t), []string{"--answer-by", "loglikelihood", "--temperature", "0"}, exitConfig, "no text is asked for with answer_by: loglikelihood"},
		"an API":         {choicePack(t), []string{"--answer-by", "loglikelihood", "--api", "chat"}, exitConfig, "harness.config.api: no text is asked for"},
		"another way":    {choicePack(t), []string{"--answer-by", "guess"}, exitConfig, "must be one of: loglikelihood, loglikelihood_norm"},
		"another family": {gsm, []string{"--answer-by", "loglikelihood"}, exitPack, "is only for a question with choices and nothing else"},
	} {
		code, stderr := likely(tt.pack, filepath.Join(t.TempDir(), "out"), url, tt.args...)
		if code != tt.code || !strings.Contains(stderr, tt.want) {
			t.Errorf("%s: exit %d, want %d and %q: %s", name, code, tt.code, tt.want, stderr)
		}
	}
	var stdout, stderr bytes.Buffer
	code := execute([]string{"run", choicePack(t), "--model", "base-1", "--answer-by", "loglikelihood", "-o", filepath.Join(t.TempDir(), "out")}, &stdout, &stderr)
	if code != exitConfig || !strings.Contains(stderr.String(), "set base_url to a server such as vLLM") {
		t.Errorf("without a base URL: exit %d: %s", code, stderr.String())
	}
}
