package importer

import (
	"context"
	_ "embed"
	"fmt"
	"path"

	"securebench/internal/importer/terminal"
	"securebench/internal/lazyregexp"
)

//go:embed licences/apache-2.0.txt
var apacheLicence string

// terminalFamily is the family of tasks that change files.
const terminalFamily = "terminal_task"

// aboutTasks says where the tasks of a folder are from, Markdown.
func aboutTasks(format string) (about, licence string) {
	if format == TerminalBench {
		return terminal.AboutTerminalBench, apacheLicence
	}
	return "# Harbor\n\nTasks in the format of Harbor, from the repository laude-institute/harbor.\nTheir licence is that of the folder that they were imported from.\n",
		"The folder that these tasks were imported from says what their licence is.\n"
}

// importTasks imports a folder of tasks.
func importTasks(ctx context.Context, format, outDir string, o Options) (Result, error) {
	about, licence := aboutTasks(format)
	got, err := terminal.Import(ctx, format, o.Name, outDir, terminal.Options{ID: o.ID, Limit: o.Limit, Force: o.Force, Start: o.Start,
		Manifest: manifest(dataset{format: format, family: terminalFamily}, o), About: about, Licence: licence})
	return Result{Format: format, Dir: outDir, Files: got.Files, Images: got.Images, Rows: got.Rows, LeftOut: got.LeftOut}, err
}

// evoEvalImage has pytest, which the tests are run with.
const evoEvalImage = "securebench-pytest:1"

func evoEval() dataset {
	return dataset{
		format:  EvoEval,
		family:  terminalFamily,
		convert: convertEvoEval,
		image:   evoEvalImage,
		licence: apacheLicence,
		about:   terminal.AboutEvoEval,
		changes: "- The tests are the checker, and the published solution is the row's own.\n",
	}
}

var evoEvalID = lazyregexp.New(`^evoeval/[0-9]+$`)

func convertEvoEval(o *object, c converter) row {
	o.only("id", "instruction", "source", "workdir", "apt_packages", "max_agent_timeout_sec", "max_test_timeout_sec", "tests", "oracle_solution_sh")
	id, workdir, tests := o.text("id"), o.text("workdir"), o.fileTexts("tests")
	if len(o.problems) == 0 && (!evoEvalID.MatchString(id) || tests["test_outputs.py"] == "") {
		o.fail(o.node, "id must be evoeval/NUMBER, and there must be the tests test_outputs.py")
	}
	if n := o.get("apt_packages"); n != nil && len(n.Items) > 0 {
		o.fail(n, "apt_packages must be empty")
	}
	times := map[string]float64{}
	for _, name := range []string{"max_agent_timeout_sec", "max_test_timeout_sec"} {
		if n := o.get(name); n != nil {
			t, p := n.Positive(name)
			o.problems.Note(p)
			times[name] = t
		}
	}
	for name, text := range tests {
		c.file(path.Join(id, name), text)
	}
	return row{
		ID:    id,
		Input: map[string]any{"instructions": o.text("instruction")},
		Eval: map[string]any{
			"checker":  map[string]any{"source": "pytest", "path": id + "/test_outputs.py", "timeout_seconds": times["max_test_timeout_sec"]},
			"solution": map[string]any{"command": []string{"bash", "-c", o.text("oracle_solution_sh")}},
		},
		Environment: map[string]any{"workdir": workdir, "timeout_seconds": times["max_agent_timeout_sec"]},
		Metadata:    map[string]any{"dataset": "EvoEval", "source": o.get("source").Any()},
	}
}

// evalFolder is the pack's folder of evaluation files.
const evalFolder = "eval"

func evalFile(name string) string { return fmt.Sprintf("%s/%s", evalFolder, name) }
