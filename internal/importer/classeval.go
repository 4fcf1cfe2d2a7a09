package importer

import "securebench/internal/importer/classeval"

func classEval() dataset {
	return dataset{
		format:  ClassEval,
		family:  "code_completion",
		convert: convertClassEval,
		image:   classeval.Image,
		array:   true,
		licence: classeval.Licence,
		about:   classeval.About,
		changes: classeval.Changes,
	}
}

func convertClassEval(o *object, c converter) row {
	o.only("task_id", "skeleton", "test", "solution_code", "import_statement", "class_description", "class_name", "test_classes", "class_constructor", "fields", "methods_info")
	s := classeval.Source{ID: o.text("task_id"), Skeleton: o.text("skeleton"), Solution: o.text("solution_code"), Test: o.text("test")}
	if n := o.get("import_statement"); n != nil {
		list, p := n.Strings("import_statement")
		o.add(p)
		s.Imports = list
	}
	e, left := classeval.Convert(s)
	c.leave(left)
	return row{ID: s.ID, Input: codeInput{s.Skeleton, "python"}, Eval: e, Metadata: map[string]any{"dataset": "ClassEval"}}
}
