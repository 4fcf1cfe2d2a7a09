package importer

import (
	"context"
	"io"

	"securebench/internal/importer/packdir"
	"securebench/internal/source"
)

// models lists the models whose solutions GSM8K publishes.
func models() []string {
	return []string{"6b_finetuning", "6b_verification", "175b_finetuning", "175b_verification"}
}

// replayLine is one line of a file for the replay agent.
type replayLine struct {
	TaskID string `json:"task_id"`
	Text   string `json:"text"`
}

// importAnswers writes one replay file per model: <model>.jsonl.
func importAnswers(ctx context.Context, in io.Reader, outDir string, o Options) (Result, error) {
	var names []string
	for _, m := range models() {
		names = append(names, m+".jsonl")
	}
	out, err := packdir.New(outDir, o.Force, names...)
	if err != nil {
		return Result{}, err
	}
	defer out.Discard()
	sum := Result{Format: GSM8KAnswers, Dir: outDir, Files: names}
	seen := make(map[string]int)
	sum.Source, err = eachRow(ctx, in, o, func(obj *object) error {
		obj.only(append(models(), "question", "ground_truth", "row")...)
		id := "GSM8K/" + itoa(obj.numberOr("row", sum.Rows))
		texts := solutions(obj)
		if err := obj.err(seen, id); err != nil {
			return err
		}
		sum.Rows++
		for i, name := range names {
			if err := out.Line(name, replayLine{id, texts[i]}); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return Result{}, err
	}
	return sum, out.Commit()
}

// solutions reads each model's text, in the order of models.
func solutions(o *object) []string {
	var out []string
	for _, m := range models() {
		n := o.get(m)
		if n == nil {
			continue
		}
		if n.Kind != source.Map {
			o.fail(n, "%s must be an object, not %s", m, n.Kind)
			continue
		}
		inner := &object{node: n}
		inner.only("solution", "is_correct")
		out = append(out, inner.anyText("solution"))
		o.problems = append(o.problems, inner.problems...)
	}
	return out
}
