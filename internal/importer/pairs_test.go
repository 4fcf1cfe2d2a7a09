package importer_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"securebench/internal/importer"
)

// Rows in the form of each data set, written for these tests.
const (
	llmBarRow     = `{"id": "Natural/3", "subset": "Natural", "input": "Say hi.", "output_1": "Bye.", "output_2": "Hi.", "label": 2}`
	pandaLMRow    = `{"idx": 4, "motivation_app": "x", "cmp_key": "m_n", "instruction": "Add.", "input": "1 and 1", "response1": true, "response2": "2", "annotator1": 2, "annotator2": 2, "annotator3": 0}`
	judgeBenchRow = `{"pair_id": "e3", "original_id": 7, "source": "law", "question": "Who?", "response_model": "m", "response_A": "I.", "response_B": "", "label": "A>B"}`
)

func TestPairs(t *testing.T) {
	tests := map[string]struct{ format, in, want, problem string }{
		"llmbar": {importer.LLMBar, llmBarRow, `{"id":"llmbar/Natural/3","input":{"prompt":"Say hi.","candidate_a":"Bye.","candidate_b":"Hi.","criteria":"*"},"eval":{"preference":"B"},"metadata":{"dataset":"LLMBar","subset":"Natural"}}`, ""},
		"llmbar as its repository has it": {importer.LLMBar, `[{"input": "x", "output_1": "", "output_2": "y", "label": 1}]`,
			`{"id":"llmbar/0","input":{"prompt":"x","candidate_a":"","candidate_b":"y","criteria":"*"},"eval":{"preference":"A"},"metadata":{"dataset":"LLMBar"}}`, ""},
		"llmbar, another label": {importer.LLMBar, strings.Replace(llmBarRow, `"label": 2`, `"label": 0`, 1), "", "label must not be 0"},
		"llmbar, a number":      {importer.LLMBar, strings.Replace(llmBarRow, `"Bye."`, `3`, 1), "", "output_1 must be a string"},
		"pandalm": {importer.PandaLM, pandaLMRow, `{"id":"pandalm/4","input":{"prompt":"Add.\n\n1 and 1","candidate_a":"true","candidate_b":"2","criteria":"*","allow_tie":true},"eval":{"preference":{"votes":{"B":2,"tie":1}}},` +
			`"metadata":{"compared":"m_n","dataset":"PandaLM","idx":4}}`, ""},
		"pandalm, no instruction": {importer.PandaLM, strings.Replace(pandaLMRow, `"Add."`, `""`, 1), `{"id":"pandalm/4","input":{"prompt":"1 and 1","candidate_a":"true","candidate_b":"2","criteria":"*","allow_tie":true},"eval":{"preference":{"votes":{"B":2,"tie":1}}},` +
			`"metadata":{"compared":"m_n","dataset":"PandaLM","idx":4}}`, ""},
		"pandalm, a fourth verdict": {importer.PandaLM, strings.Replace(pandaLMRow, `"annotator3": 0`, `"annotator3": 3`, 1), "", "annotator3 must be"},
		"pandalm, a list":           {importer.PandaLM, strings.Replace(pandaLMRow, `true`, `[]`, 1), "", "response1 must be a string"},
		"judgebench": {importer.JudgeBench, judgeBenchRow, `{"id":"judgebench/e3","input":{"prompt":"Who?","candidate_a":"I.","candidate_b":"","criteria":"*"},"eval":{"preference":"A","decide":"sum"},` +
			`"metadata":{"dataset":"JudgeBench","response_model":"m","source":"law"}}`, ""},
		"judgebench, with judgements": {importer.JudgeBench, strings.Replace(judgeBenchRow, `"label": "A>B"`, `"label": "B>A", "judge_name": "j", "judgments": [null, {"decision": "A>B"}]`, 1),
			`{"id":"judgebench/e3","input":{"prompt":"Who?","candidate_a":"I.","candidate_b":"","criteria":"*"},"eval":{"preference":"B","decide":"sum"},` +
				`"metadata":{"dataset":"JudgeBench","response_model":"m","source":"law"}}`, ""},
		"judgebench, a tie": {importer.JudgeBench, strings.Replace(judgeBenchRow, `A>B`, `A=B`, 1), "", "label must be A>B or B>A"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			dir, _, err := run(t, tt.format, tt.in, importer.Options{})
			if tt.problem != "" {
				if err == nil || !strings.Contains(err.Error(), tt.problem) || !strings.Contains(err.Error(), "input:1:") {
					t.Errorf("it is imported, or the error is %v", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			got := strings.TrimSpace(read(t, dir, "tasks.jsonl"))
			head, rest, _ := strings.Cut(got, `"criteria":"`)
			_, rest, _ = strings.Cut(rest, `"`)
			if d := cmp.Diff(tt.want, head+`"criteria":"*"`+rest); d != "" {
				t.Errorf("-want +got\n%s", d)
			}
		})
	}
}
