package agent_test

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"securebench/internal/agent"
	"securebench/internal/agent/answers"
	"securebench/internal/candidate"
	"securebench/internal/task"
)

// mapped opens a replay file with a map of its columns.
func mapped(t *testing.T, content, columns string) (*agent.Replay, error) {
	t.Helper()
	m, err := answers.ParseMap(columns)
	if err != nil {
		return nil, err
	}
	file := filepath.Join(t.TempDir(), "answers")
	if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	r, err := agent.OpenReplay(file, m, agent.Bounds{})
	if err != nil {
		err = errorText(strings.ReplaceAll(err.Error(), file, "F"))
	}
	return r, err
}

// submitted returns what a replay submits for the first attempt at a task.
func submitted(t *testing.T, r *agent.Replay, id string) (text string, ok bool) {
	t.Helper()
	tk, err := task.New(task.Config{ID: id, Family: "f", Pack: task.Pack{ID: "p"}, Extraction: task.Extraction{Mode: task.FromStdout, Kind: task.Text}})
	if err != nil {
		t.Fatal(err)
	}
	store, err := candidate.OpenStore(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	p, err := r.Prepare(t.Context(), agent.Request{View: tk.Agent(), Attempt: 1}, agent.Output{Sink: store})
	if err != nil {
		t.Fatal(err)
	}
	ran, err := p.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	res, err := p.Capture(t.Context(), ran)
	if err != nil {
		t.Fatal(err)
	}
	if res.Candidate == nil {
		return "", false
	}
	data, err := res.Candidate.Bytes()
	if err != nil {
		t.Fatal(err)
	}
	return string(data), true
}

const (
	lmEval = `{"doc_id": 0, "doc": {"question": "1+1?", "answer": "#### 2", "name": "sum"}, "target": "#### 2", "arguments": [["Q", {}]], "resps": [["It is 2."]], "filtered_resps": ["2"], "filter": "strict-match", "exact_match": 1.0}
{"doc_id": 1, "doc": {"question": "1+2?", "answer": "#### 3", "name": "more"}, "target": "#### 3", "arguments": [["Q", {}]], "resps": [["It is 3."]], "filtered_resps": ["[invalid]"], "filter": "strict-match", "exact_match": NaN}
{"doc_id": 0, "doc": {"question": "1+1?", "answer": "#### 2", "name": "sum"}, "target": "#### 2", "arguments": [["Q", {}]], "resps": [["It is 2."]], "filtered_resps": ["2"], "filter": "flexible-extract", "exact_match": 1.0}
`
	inspect = `{
  "version": 2,
  "status": "success",
  "eval": {"task": "sums", "model": "m"},
  "samples": [
    {"id": "a", "epoch": 1, "input": "1+1?", "target": "2", "messages": [], "output": {"model": "m", "choices": [{"message": {"content": "Two: 2", "role": "assistant"}, "stop_reason": "stop"}], "completion": "Two: 2"}, "scores": {"match": {"value": NaN}}},
    {"id": 7, "epoch": 1, "input": "1+2?", "target": "3", "output": {"choices": [{"message": {"content": [{"type": "reasoning", "reasoning": "hm"}, {"type": "text", "text": "It is 3"}], "role": "assistant"}, "stop_reason": "max_tokens"}]}},
    {"id": "long", "epoch": 1, "input": "?", "target": "", "output": {"choices": [], "completion": "attachment://5d41"}, "attachments": {"5d41": "the whole text"}},
    {"id": "broken", "epoch": 1, "input": "?", "target": "", "output": {"choices": []}, "error": {"message": "timeout"}}
  ]
}
`
	simpleEvals = `{"score": 0.5, "metrics": {"chars": 4}, "htmls": [], "convos": [
  [{"role": "user", "content": "1+1?"}, {"role": "assistant", "content": "2"}],
  [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "1+2?"}, {"role": "assistant", "content": "3"}]],
 "metadata": {"example_level_metadata": [{"name": "sum"}, {"name": "more"}]}}`
	rows    = `{"question_id": 12, "question": "1+1?", "answer": "2", "response": "It is 2."}` + "\n" + `{"question_id": 13, "question": "?", "answer": "3", "response": null}` + "\n"
	served  = `{"features": [{"name": "output"}], "rows": [{"row_idx": 4, "row": {"id": "a", "output": "2"}, "truncated_cells": []}, {"row_idx": 5, "row": {"id": "b", "output": "3"}, "truncated_cells": []}]}`
	samples = `{"id": "a", "generations": ["1", "2"]}` + "\n"
	chat    = `{"id": "a", "messages": [{"role": "user", "content": "?"}, {"role": "assistant", "content": "2"}]}` + "\n"
	tabbed  = "a\tIt is $\\nabla$ 2.\r\n\nb\ttwo\ttabs\nc\t\n"
)

// TestForms: answers in the files of other programs are those that the model wrote.
func TestForms(t *testing.T) {
	for name, tt := range map[string]struct {
		content, columns string
		want             map[string]string
	}{
		"lm-evaluation-harness":            {lmEval, "", map[string]string{"0": "It is 2.", "1": "It is 3."}},
		"lm-evaluation-harness, mapped":    {lmEval, "id=sums/{doc.name}", map[string]string{"sums/sum": "It is 2.", "sums/more": "It is 3."}},
		"lm-evaluation-harness, filtered":  {strings.SplitAfter(lmEval, "\n")[0], "text=filtered_resps", map[string]string{"0": "2"}},
		"Inspect":                          {inspect, "", map[string]string{"a": "Two: 2", "7": "It is 3", "long": "the whole text"}},
		"Inspect, in one line":             {strings.ReplaceAll(inspect, "\n", " "), "", map[string]string{"a": "Two: 2", "7": "It is 3"}},
		"simple-evals":                     {simpleEvals, "", map[string]string{"0": "2", "1": "3"}},
		"simple-evals, mapped":             {simpleEvals, "id={name}", map[string]string{"sum": "2", "more": "3"}},
		"rows":                             {rows, "", map[string]string{"12": "It is 2.", "13": ""}},
		"rows, mapped":                     {rows, "id=question,text=answer", map[string]string{"1+1?": "2", "?": "3"}},
		"rows by position":                 {rows, "id=row-{index}", map[string]string{"row-0": "It is 2.", "row-1": ""}},
		"rows of a server":                 {served, "", map[string]string{"a": "2", "b": "3"}},
		"rows of a server, by position":    {served, "id=index", map[string]string{"4": "2", "5": "3"}},
		"rows in a list":                   {"[" + strings.ReplaceAll(strings.TrimSpace(rows), "\n", ",\n") + "]", "", map[string]string{"12": "It is 2."}},
		"replay lines in a list":           {`[{"task_id": "a", "text": "2"}]`, "", map[string]string{"a": "2"}},
		"code in the form of HumanEval":    {`{"task_id": "HumanEval/0", "completion": "    return 1\n"}`, "", map[string]string{"HumanEval/0": "    return 1\n"}},
		"several samples are attempts":     {samples, "text=generations", map[string]string{"a": "1"}},
		"the last message of an assistant": {chat, "text=messages", map[string]string{"a": "2"}},
		"a text made of columns":           {rows, "id=question_id,text=Answer: {answer}", map[string]string{"12": "Answer: 2"}},
		"tabs":                             {tabbed, "", map[string]string{"a": "It is $\\nabla$ 2.", "b": "two\ttabs", "c": ""}},
		"replay lines, mapped":             {`{"task_id": "a", "text": "gold", "said": "2"}`, "text=said", map[string]string{"a": "2"}},
	} {
		t.Run(name, func(t *testing.T) {
			r, err := mapped(t, tt.content, tt.columns)
			if err != nil {
				t.Fatal(err)
			}
			for _, id := range slices.Sorted(maps.Keys(tt.want)) {
				if got, ok := submitted(t, r, id); !ok || got != tt.want[id] {
					t.Errorf("%s: %q, %v; want %q", id, got, ok, tt.want[id])
				}
			}
		})
	}
}

// TestFormProblems: what is missing is named in one line, with its place.
func TestFormProblems(t *testing.T) {
	for name, tt := range map[string]struct{ content, columns, want string }{
		"no text":               {`{"id": "a", "question": "?"}`, "", "F:1:1: a row has no text, response, completion, output, prediction, generation for the text; it has id, question (name the column with --replay-map text=COLUMN)"},
		"no id":                 {rows, "id=key", "F:1:1: a row has no key for the id; it has answer, question, question_id, response (name the column with --replay-map id=COLUMN)"},
		"no id in braces":       {rows, "id=x/{key}", "F:1:1: a row has no key for the id"},
		"several texts":         {`{"id": "a", "text": "Q", "response": "A"}`, "", "F:1:1: each of the columns text, response could be the text (choose one with --replay-map text=COLUMN)"},
		"likelihoods":           {`{"doc_id": 0, "resps": [[["-1.5", "False"]], [["-2.5", "True"]]]}`, "", `F:1:24: "resps" holds a list, and no text of a model`},
		"two forms":             {lmEval + `{"id": 1, "response": "x"}`, "", "F:4:1: the file has both a sample of lm-evaluation-harness and a row: use two files"},
		"another answer":        {lmEval + `{"doc_id": 0, "resps": [["It is 5."]], "filter": "x"}`, "", `F:4:1: task "0" has this attempt twice`},
		"the same row twice":    {rows + rows, "", `F:3:1: task "12" has this attempt twice`},
		"an id that is a list":  {`{"id": ["a"], "response": "x"}`, "", `F:1:8: "id" must be a string or a number, not a list`},
		"an empty id":           {`{"id": "", "response": "x"}`, "", "F:1:1: the id is empty"},
		"a cell that is cut":    {strings.Replace(served, `"truncated_cells": []`, `"truncated_cells": ["output"]`, 1), "", `F:1:89: the cell "output" is cut off`},
		"no tab":                {"a\t1\nb 2\n", "", "F:2:1: the line has no tab between an id and a text"},
		"a tab and no id":       {"\t1\n", "", "F:1:1: the id in front of the tab is empty"},
		"a log without a list":  {`{"eval": {}, "samples": {}}`, "", "F:1:25: the log's samples must be a list, not an object"},
		"an archive":            {"PK\x03\x04", "", "F:1:1: the file is a zip archive (unpack it with unzip)"},
		"no map":                {rows, "id", `"id" names no column: write it as id=COLUMN,text=COLUMN`},
		"an unknown field":      {rows, "name=x", `"name" is no field of an answer: want id, text, attempt or stop_reason`},
		"two columns":           {rows, "id=a,id=b", "id has two columns: give it one"},
		"an open brace":         {rows, "id={a", "a column's name stands in braces, such as id=gsm8k/{doc_id}"},
		"braces for an attempt": {rows, "attempt={a}", "attempt must be the name of a column, without braces"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := mapped(t, tt.content, tt.columns); err == nil || !strings.HasPrefix(err.Error(), tt.want) {
				t.Errorf("got %v\nwant %s", err, tt.want)
			}
		})
	}
}

// TestStopReasons: why the model stopped is known of a replayed answer.
func TestStopReasons(t *testing.T) {
	r, err := mapped(t, inspect, "")
	if err != nil {
		t.Fatal(err)
	}
	native, err := mapped(t, `{"task_id": "long", "text": "It is", "stop_reason": "length"}`+"\n"+`{"task_id": "no", "text": "", "stop_reason": "refusal"}`+"\n"+`{"task_id": "blank", "text": " ", "stop_reason": "stop"}`, "")
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		r        *agent.Replay
		id, stop string
		count    string
	}{{r, "a", "stop", ""}, {r, "7", "max_tokens", "answers_truncated"}, {native, "long", "length", "answers_truncated"},
		{native, "no", "refusal", "answers_refused"}, {native, "blank", "stop", "answers_empty"}} {
		tk, err := task.New(task.Config{ID: tt.id, Family: "f", Pack: task.Pack{ID: "p"}, Extraction: task.Extraction{Mode: task.FromStdout, Kind: task.Text}})
		if err != nil {
			t.Fatal(err)
		}
		p, err := tt.r.Prepare(t.Context(), agent.Request{View: tk.Agent(), Attempt: 1}, agent.Output{})
		if err != nil {
			t.Fatal(err)
		}
		ran, err := p.Run(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		delete(ran.Usage, "answers")
		if got := ran.Metadata.Text("stop_reason"); got != tt.stop || tt.count == "" != (len(ran.Usage) == 0) || tt.count != "" && ran.Usage[tt.count] != 1 {
			t.Errorf("%s: stop_reason %q, %v", tt.id, got, ran.Usage)
		}
	}
}

// TestMatches: unknown tasks are named, and a file of only such tasks is refused.
func TestMatches(t *testing.T) {
	r, err := mapped(t, lmEval, "")
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{"sums/0", "sums/1"} {
		r.Seen(id)
	}
	if err := r.Matches(); err == nil || !strings.HasPrefix(err.Error(), `the replay file matches no row of the pack: its tasks are "0", "1", and the pack's begin with "sums/0"`) {
		t.Errorf("got %v", err)
	}
	r.Seen("1")
	if err := r.Matches(); err != nil {
		t.Error(err)
	}
	if n, tasks := r.Unmatched(1); n != 1 || tasks != `"0"` {
		t.Errorf("unmatched: %d, %s", n, tasks)
	}
}

// FuzzAnswers: no file in the form of another program makes the reader fail without
// naming it, and what it accepts is the same on a second reading.
func FuzzAnswers(f *testing.F) {
	for _, seed := range []string{lmEval, inspect, simpleEvals, rows, served, samples, chat, tabbed} {
		f.Add(seed, "")
		f.Add(seed, "id={index}")
		f.Add(seed, "id=id,text=text,attempt=epoch")
	}
	f.Fuzz(func(t *testing.T, content, columns string) {
		if _, err := answers.ParseMap(columns); err != nil {
			return
		}
		one, err := mapped(t, content, columns)
		if err != nil {
			if !strings.HasPrefix(err.Error(), "F:") {
				t.Errorf("the error names no place: %v", err)
			}
			return
		}
		if two, err := mapped(t, content, columns); err != nil || two.Digest() != one.Digest() {
			t.Errorf("read again: %v", err)
		}
	})
}
