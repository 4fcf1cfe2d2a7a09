package terminaltask

import (
	"cmp"
	"fmt"
	"path"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"

	"securebench/internal/family"
	"securebench/internal/pathname"
	"securebench/internal/workspace"
)

// rules collects what is wrong with a row.
type rules struct {
	row      row // as far as the rules need it
	problems []family.Problem
}

func (r *rules) problem(message, fix string, at ...string) {
	r.problems = append(r.problems, family.Problem{Path: append([]string{"eval"}, at...), Message: message, Fix: fix})
}

// check applies the rules that the schema cannot express.
func check(in family.Row) []family.Problem {
	var spec checkerSpec
	if err := json.Unmarshal(in.Eval["checker"], &spec); err != nil {
		return []family.Problem{{Path: []string{"eval", "checker"}, Message: "cannot be read"}}
	}
	var workdir string
	_ = json.Unmarshal(in.Environment["workdir"], &workdir) // its own rules report what cannot be read
	r := &rules{row: row{workdir: cmp.Or(clean(workdir), workspace.DefaultTarget), captured: capturedOf(in), image: spec.Image}}
	r.capture(in)
	if spec.Workdir != "" {
		r.checkerDir(spec.Workdir)
	}
	if spec.Image != "" {
		r.ownImage()
	}
	if spec.Reward != "" {
		r.rewardFile(spec.Reward)
	}
	switch s, ok := serviceOf(in.Eval["start"]); {
	case in.Eval["start"] == nil:
	case !ok || s == nil:
		r.problem("cannot be read", "write a command, and what says that it is ready", "start")
	case s.shared && strings.Contains(string(spec.Command), workspace.EvaluationRoot):
		r.problem("cannot go with a checker that names "+workspace.EvaluationRoot+": a service that shares the workspace can put other files there",
			"name the evaluation files by $SECUREBENCH_EVALUATOR", "start", "shared_workspace")
	}
	return r.problems
}

// capture checks what the candidate is made of.
func (r *rules) capture(in family.Row) {
	var spec captureSpec
	if in.Eval["capture"] == nil || json.Unmarshal(in.Eval["capture"], &spec) != nil {
		return // the schema reports what cannot be read
	}
	for i, root := range spec.Roots {
		r.root(root, "capture", "roots", strconv.Itoa(i))
	}
	for i, p := range spec.Exclude {
		if fault := plainPath(p); fault != "" {
			r.problem(fault, "write an absolute path in the image", "capture", "exclude", strconv.Itoa(i))
		}
	}
}

// root checks one captured file or folder.
func (r *rules) root(p string, at ...string) {
	fault := plainPath(p)
	if fault != "" {
		fix := "write an absolute path in the image"
		if strings.HasPrefix(p, "/") && path.Clean(p) == "/" {
			fix = `write {"filesystem": true} to capture all that a task may change`
		}
		r.problem(fault, fix, at...)
		return
	}
	p = path.Clean(p)
	switch {
	case pathname.Within(p, workspace.Reserved()...):
		r.problem("is a folder that no candidate contains", "name another folder", at...)
	case workspace.SystemPath(p) && r.row.image == "":
		r.problem("is where the system keeps programs and what loads them, and the checker would run what is there",
			"set eval.checker.image to an image only for the checker, or capture other folders", at...)
	}
}

// checkerDir checks where the checker runs.
func (r *rules) checkerDir(dir string) {
	if !path.IsAbs(dir) {
		dir = r.row.workdir + "/" + dir
	}
	fault := plainPath(dir)
	if fault == "" && pathname.Within(dir, "/proc", "/sys", "/dev") {
		fault = "is a folder of the kernel's"
	}
	if fault != "" {
		r.problem(fault, "write an absolute path, or one relative to the workspace", "checker", "workdir")
	}
}

// ownImage checks whether the captured files can be mounted in the checker's
// own image.
func (r *rules) ownImage() {
	if r.row.captured.Filesystem {
		r.problem("cannot go with eval.capture.filesystem", "name the captured folders in eval.capture.roots", "checker", "image")
		return
	}
	for i, root := range r.row.captured.Roots {
		if root != r.row.workdir && (pathname.Within(r.row.workdir, root) || pathname.Within(ownDir, root)) {
			r.problem(fmt.Sprintf("cannot go with eval.capture.roots[%d], which contains the workspace or %s", i, ownDir),
				"capture the workspace and the folders beside it", "checker", "image")
		}
	}
}

// rewardFile checks where a reward is read from: a folder that is made for it.
func (r *rules) rewardFile(file string) {
	const fix = "write an absolute path such as /logs/verifier/reward.txt"
	dir := path.Dir(path.Clean(file))
	fault := plainPath(file)
	if fault == "" {
		if fault = workspace.TargetFault(dir); fault != "" {
			fault = "is in a folder that " + fault
		}
	}
	for _, other := range append(r.row.roots(), r.row.workdir) {
		if fault == "" && pathname.Overlap(dir, other) {
			fault = "is in a folder that is captured, or above one"
		}
	}
	if fault != "" {
		r.problem(fault, fix, "checker", "reward_file")
	}
}
