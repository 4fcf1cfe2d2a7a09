package importer

import "securebench/internal/importer/humanevalx"

func humanEvalX() dataset {
	return dataset{
		format:  HumanEvalX,
		family:  "code_completion",
		convert: convertHumanEvalX,
		recipe:  [2]string{humanevalx.Image, humanevalx.Recipe},
		licence: apacheLicence,
		about:   humanevalx.About,
		changes: humanevalx.Changes,
	}
}

func convertHumanEvalX(o *object, c converter) row {
	o.only("task_id", "prompt", "declaration", "canonical_solution", "test", "example_test", "text", "import", "docstring", "test_setup")
	s := humanevalx.Source{ID: o.text("task_id"), Prompt: o.text("prompt"), Declaration: o.text("declaration"), Solution: o.text("canonical_solution"), Test: o.text("test")}
	if o.node.Get("import") != nil {
		s.Import = o.anyText("import")
	}
	r, err := humanevalx.Convert(s)
	if err != nil && len(o.problems) == 0 {
		o.fail(o.node, "%v", err)
	}
	c.leave(humanevalx.Left(s.ID))
	return row{ID: "HumanEval-X/" + s.ID, Input: codeInput{r.Prompt, r.Language}, Eval: r.Eval, Metadata: map[string]any{"dataset": "HumanEval-X", "language": r.Language}}
}
