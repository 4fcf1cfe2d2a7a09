package importer

import (
	_ "embed" // licences
	"strings"

	"securebench/internal/source"
)

//go:embed licences/llmbar.txt
var llmBarLicence string

//go:embed licences/pandalm.txt
var pandaLMLicence string

const pairFamily = "preference_pair"

// pairInput is the input of a preference_pair row.
type pairInput struct {
	Prompt   string `json:"prompt"`
	A        string `json:"candidate_a"`
	B        string `json:"candidate_b"`
	Criteria string `json:"criteria"`
	AllowTie bool   `json:"allow_tie,omitzero"`
}

// pairEval is the eval of a preference_pair row.
type pairEval struct {
	Preference any    `json:"preference"`
	Decide     string `json:"decide,omitzero"`
}

func llmBar() dataset {
	return dataset{
		format:  LLMBar,
		family:  pairFamily,
		convert: convertLLMBar,
		array:   true,
		licence: llmBarLicence,
		about: `# LLMBar

Rows of LLMBar, from the repository princeton-nlp/LLMBar
(Dataset/LLMBar/**/dataset.json). Zhiyuan Zeng and others, "Evaluating Large
Language Models at Evaluating Instruction Following" (2023),
https://arxiv.org/abs/2310.07641

Licence: MIT (LICENSE).
`,
		changes: "- `output_1` and `output_2` are candidates A and B; `label` names the better one.\n" +
			"- Each row says in our words by what the candidates are judged.\n" +
			"- Both orders are asked and both verdicts must be right, in the place of one order or its `Swap` variant.\n" +
			"- A row without an `id` is numbered from 0 in its file.\n",
	}
}

func convertLLMBar(o *object, c converter) row {
	o.only("id", "subset", "input", "output_1", "output_2", "label")
	id := itoa(int64(c.index))
	if o.node.Get("id") != nil {
		id = o.text("id")
	}
	metadata := map[string]any{"dataset": "LLMBar"}
	if o.node.Get("subset") != nil {
		metadata["subset"] = o.text("subset")
	}
	return row{
		ID: "llmbar/" + id,
		Input: pairInput{Prompt: o.text("input"), A: o.anyText("output_1"), B: o.anyText("output_2"),
			Criteria: "The better candidate does what the prompt asks for, all of it and nothing else. Length, style and tone count for nothing beside that."},
		Eval:     pairEval{Preference: o.ordinal("label", "", "A", "B")},
		Metadata: metadata,
	}
}

// ordinal reads a number from 0 as the label at its place; "" is none.
func (o *object) ordinal(name string, labels ...string) string {
	n := o.get(name)
	if n == nil {
		return ""
	}
	i, p := n.Int(name, 0, int64(len(labels)-1))
	o.problems.Note(p)
	if p != nil {
		return ""
	}
	if labels[i] == "" {
		o.fail(n, "%s must not be %d", name, i)
	}
	return labels[i]
}

func pandaLM() dataset {
	return dataset{
		format:  PandaLM,
		family:  pairFamily,
		convert: convertPandaLM,
		array:   true,
		licence: pandaLMLicence,
		about: `# PandaLM's test set

Rows of PandaLM's test set, from the repository WeOpenML/PandaLM
(data/testset-v1.json). Yidong Wang and others, "PandaLM: An Automatic Evaluation
Benchmark for LLM Instruction Tuning Optimization" (2023),
https://arxiv.org/abs/2306.05087

Licence: Apache-2.0 (LICENSE).
`,
		changes: "- `instruction` and `input` are the prompt; `response1` and `response2` are candidates A and B.\n" +
			"- The three annotators are votes, 0 of them for a tie; the majority is right, as in the data set.\n" +
			"- Six responses are the JSON value `true` and not a text. They are read as that word.\n" +
			"- Each row says in our words by what the candidates are judged. Both orders are asked and both verdicts must be right.\n",
	}
}

func convertPandaLM(o *object, _ converter) row {
	o.only("idx", "motivation_app", "cmp_key", "instruction", "input", "response1", "response2", "annotator1", "annotator2", "annotator3")
	index := o.number("idx")
	votes := map[string]int{}
	for _, name := range []string{"annotator1", "annotator2", "annotator3"} {
		votes[o.ordinal(name, "tie", "A", "B")]++
	}
	prompt := strings.TrimSpace(o.anyText("instruction") + "\n\n" + o.anyText("input"))
	return row{
		ID: "pandalm/" + itoa(index),
		Input: pairInput{Prompt: prompt, A: o.response("response1"), B: o.response("response2"), AllowTie: true,
			Criteria: "The better candidate follows the instruction: it is correct, clear, complete and concise. It is a tie if neither is better."},
		Eval:     pairEval{Preference: map[string]any{"votes": votes}},
		Metadata: map[string]any{"dataset": "PandaLM", "idx": index, "compared": o.anyText("cmp_key")},
	}
}

// response reads what a model said: a text, or a truth value that the data set took for
// one.
func (o *object) response(name string) string {
	n := o.get(name)
	if n == nil || n.Kind == source.Bool {
		if n != nil {
			return n.Text
		}
		return ""
	}
	return o.anyText(name)
}

func judgeBench() dataset {
	return dataset{
		format:  JudgeBench,
		family:  pairFamily,
		convert: convertJudgeBench,
		licence: "The repository ScalerLab/JudgeBench has no file with a licence. Ask its authors before you pass its rows on.\n",
		about: `# JudgeBench

Rows of JudgeBench, from the repository ScalerLab/JudgeBench (data/*.jsonl, or
the pairs in outputs/*.jsonl). Sijun Tan and others, "JudgeBench: A Benchmark for
Evaluating LLM-Based Judges" (2024), https://arxiv.org/abs/2410.12784

Licence: the repository names none (LICENSE).
`,
		changes: "- `response_A` and `response_B` are candidates A and B; `label` names the better one.\n" +
			"- Both orders are asked, and their verdicts decide by their sum, as in the data set.\n" +
			"- Each row says in our words by what the candidates are judged.\n" +
			"- Recorded judgements are left out.\n",
	}
}

func convertJudgeBench(o *object, _ converter) row {
	o.only("pair_id", "original_id", "source", "question", "response_model", "response_A", "response_B", "label", "judge_name", "judgments")
	preference := ""
	if n := o.get("label"); n != nil {
		switch n.Text {
		case "A>B":
			preference = "A"
		case "B>A":
			preference = "B"
		default:
			o.fail(n, "label must be A>B or B>A")
		}
	}
	return row{
		ID: "judgebench/" + o.text("pair_id"),
		Input: pairInput{Prompt: o.text("question"), A: o.anyText("response_A"), B: o.anyText("response_B"),
			Criteria: "The better candidate is the one that is correct. Style and length count for nothing beside that."},
		Eval:     pairEval{Preference: preference, Decide: "sum"},
		Metadata: map[string]any{"dataset": "JudgeBench", "source": o.text("source"), "response_model": o.text("response_model")},
	}
}
