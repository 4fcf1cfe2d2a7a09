package agent

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"securebench/internal/agent/answers"
	"securebench/internal/candidate"
	"securebench/internal/digest"
	"securebench/internal/piped"
	"securebench/internal/source"
	"securebench/internal/task"
	"securebench/internal/verdict"
	"securebench/internal/workspace"
)

// Replay submits candidates from a file: one JSON object per line with
// task_id, optionally attempt and stop_reason, and one of text, texts, patch and tree. Texts
// are those of a task's presentations, in their order, null for one that was not made. A
// tree is the path of a tar file, relative to the replay file. The file can hold SWE-bench's
// predictions instead: objects with instance_id and model_patch; or answers in a form
// of package answers.
type Replay struct {
	// Users resolves whose the files of trees are.
	Users Users

	bounds Bounds
	form   string // of the file: the key that names tasks
	sum    string
	dir    string
	lines  map[replayKey]replayLine
	trees  map[string]string // digests of the tar files by path
	tasks  map[string]bool   // for which the file has lines
	seen   map[string]bool   // those of them that are in the pack
	pack   string            // the first task of the pack
	others answers.Reader    // of answers in the forms of other programs
}

type replayKey struct {
	task    string
	attempt int // 0 serves every attempt
}

type replayLine struct {
	kind task.CandidateKind
	data []byte
	list []*string // texts of presentations, in the place of data
	tree string    // path of a tar file
	none string    // why there is no candidate, or ""
	stop string    // why the model stopped; "" is not known
}

// maxReplayLine is the longest line of a replay file, in bytes.
const maxReplayLine = 64 << 20

// OpenReplay reads a replay file, whose columns a map can name. Errors name file, line
// and column.
func OpenReplay(path string, columns answers.Map, bounds Bounds) (*Replay, error) {
	if filepath.Ext(path) == ".eval" {
		return nil, fmt.Errorf("opening the replay file: %s is a log of Inspect in its binary format (write it as JSON: inspect log convert --to json --output-dir DIR)", path)
	}
	f, err := source.Open(path)
	if err != nil {
		return nil, fmt.Errorf("opening the replay file: %w", err)
	}
	defer f.Close()
	r := &Replay{bounds: bounds, dir: filepath.Dir(path), lines: map[replayKey]replayLine{}, trees: map[string]string{},
		tasks: map[string]bool{}, seen: map[string]bool{}, others: answers.Reader{Map: columns}}
	sum := sha256.New()
	if err := r.read(path, io.TeeReader(f, sum)); err != nil {
		return nil, err
	}
	r.sum = digest.Format(sum.Sum(nil))
	return r, nil
}

// read reads the file's lines. A first line that is no line of its own begins a
// document.
func (r *Replay) read(path string, f io.Reader) error {
	sc := bufio.NewScanner(f)
	sc.Buffer(nil, maxReplayLine)
	line, first, tabbed := 1, true, false
	for ; sc.Scan(); line++ {
		if len(bytes.TrimSpace(sc.Bytes())) == 0 {
			continue
		}
		if first && isDocument(path, line, sc.Bytes()) {
			return r.document(path, line, sc)
		}
		tabbed = tabbed || first && !r.others.Map.Given() && answers.Tabbed(sc.Bytes())
		first = false
		var err error
		if tabbed {
			err = r.tabbed(source.Pos{File: path, Line: line, Col: 1}, sc.Bytes())
		} else {
			err = r.line(path, line, sc.Bytes())
		}
		if err != nil {
			return err
		}
	}
	return scanned(sc, path, line)
}

// line reads a line that is a JSON value.
func (r *Replay) line(path string, line int, data []byte) error {
	n, err := source.ParseJSON(path, line, answers.Finite(data))
	if err != nil {
		return err
	}
	return r.add(n)
}

// tabbed reads a line that is an id, a tab and a text.
func (r *Replay) tabbed(at source.Pos, line []byte) error {
	a, err := answers.Line(at, line)
	if err != nil {
		return err
	}
	return r.answer(a)
}

// scanned returns why the lines of the file ended, or nil at its end.
func scanned(sc *bufio.Scanner, path string, line int) error {
	if errors.Is(sc.Err(), bufio.ErrTooLong) {
		return source.Problemf(source.Pos{File: path, Line: line}, "the line is longer than %d bytes", maxReplayLine)
	}
	if err := sc.Err(); err != nil {
		return fmt.Errorf("reading the replay file: %w", err)
	}
	return nil
}

// Digest returns the digest of the file and of the trees that it names, which
// are inputs of the run.
func (r *Replay) Digest() string {
	if len(r.trees) == 0 {
		return r.sum
	}
	h := sha256.New()
	fmt.Fprintln(h, r.sum)
	for _, name := range slices.Sorted(maps.Keys(r.trees)) {
		fmt.Fprintf(h, "%s\x00%s\n", name, r.trees[name])
	}
	return digest.Format(h.Sum(nil))
}

// add adds one object: a replay line, a prediction, or what another program writes.
func (r *Replay) add(n *source.Node) error {
	if n.Kind != source.Map {
		return source.Problemf(n.Pos, "a replay line must be an object")
	}
	if r.form == otherForm || r.form == "" && r.isOther(n) {
		return r.other(n)
	}
	if id := n.Get(predictionKey); id != nil {
		return r.prediction(n, id)
	}
	if err := r.oneForm(n, lineKey); err != nil {
		return err
	}
	errs, _ := n.Check("the replay line", false, lineKeys()...)
	if err := errs.Err(); err != nil {
		return err
	}
	key, val, err := replayEntry(n)
	if err != nil {
		return err
	}
	if val.tree != "" {
		if err := r.digestTree(n.Get("tree").Pos, val.tree); err != nil {
			return err
		}
	}
	return r.keep(n.Pos, key, val)
}

// otherForm is the form of a file that another program wrote.
const otherForm = "answers"

// isOther reports whether an object is neither a replay line nor a prediction: it has
// keys that neither has, and not what makes a replay line.
func (r *Replay) isOther(n *source.Node) bool {
	if r.others.Map.Given() || answers.Knows(n) {
		return true
	}
	own := func(f source.Field) bool { return slices.Contains(lineKeys(), f.Name) }
	holds := func(f source.Field) bool { return slices.Contains([]string{"text", "texts", "patch", "tree"}, f.Name) }
	if n.Get(predictionKey) != nil || n.Get(lineKey) != nil && slices.ContainsFunc(n.Fields, holds) {
		return false
	}
	return slices.ContainsFunc(n.Fields, func(f source.Field) bool { return !own(f) })
}

// lineKeys are the keys of a replay line.
func lineKeys() []string {
	return []string{lineKey, "attempt", "text", "texts", "patch", "tree", verdict.StopKey}
}

// other adds the answers in what another program wrote.
func (r *Replay) other(n *source.Node) error {
	r.form = otherForm
	found, err := r.others.Read(n)
	if err != nil {
		return err
	}
	for _, a := range found {
		if err := r.answer(a); err != nil {
			return err
		}
	}
	return nil
}

// answer keeps an answer.
func (r *Replay) answer(a answers.Answer) error {
	return r.keep(a.Pos, replayKey{a.Task, a.Attempt}, replayLine{kind: task.Text, data: []byte(a.Text), none: a.None, stop: a.Stop})
}

// keep adds an entry, unless there is one for the same attempt.
func (r *Replay) keep(at source.Pos, key replayKey, val replayLine) error {
	if _, dup := r.lines[key]; dup {
		return source.Problemf(at, "task %q has this attempt twice", key.task)
	}
	r.tasks[key.task] = true
	r.lines[key] = val
	return nil
}

// digestTree reads a tar file for its digest.
func (r *Replay) digestTree(at source.Pos, name string) error {
	if r.trees[name] != "" {
		return nil
	}
	if !filepath.IsLocal(name) {
		return source.Problemf(at, "tree must be a path below the replay file's folder")
	}
	f, err := r.openTree(name)
	if err != nil {
		return source.Problemf(at, "tree cannot be read: %v", err)
	}
	defer f.Close()
	if r.trees[name], _, err = digest.Reader(f); err != nil {
		return source.Problemf(at, "tree cannot be read: %v", err)
	}
	return nil
}

// openTree opens a regular file below the replay file's folder.
func (r *Replay) openTree(name string) (*os.File, error) {
	root, err := os.OpenRoot(r.dir)
	if err != nil {
		return nil, err
	}
	f, err := source.OpenIn(root, name, os.O_RDONLY, 0)
	return f, errors.Join(err, root.Close())
}

func replayEntry(n *source.Node) (key replayKey, val replayLine, err error) {
	id := n.Get(lineKey)
	if id == nil || id.Kind != source.String || id.Text == "" {
		return key, val, source.Problemf(n.Pos, "task_id must be a non-empty string")
	}
	key.task = id.Text
	if a := n.Get("attempt"); a != nil {
		i, p := a.Int("attempt", 1, 1<<20)
		if p != nil {
			return key, val, p
		}
		key.attempt = int(i)
	}
	if stop := n.Get(verdict.StopKey); stop != nil && stop.Kind != source.Null {
		if stop.Kind != source.String {
			return key, val, source.Problemf(stop.Pos, "stop_reason must be a string")
		}
		val.stop = stop.Text
	}
	return key, val, val.hold(n)
}

// forms are the keys of what a replay line holds.
const forms = "text, texts, patch and tree"

// hold reads what a replay line holds.
func (val *replayLine) hold(n *source.Node) error {
	var given *source.Node
	for _, form := range []struct {
		name string
		kind task.CandidateKind
		is   source.Kind
	}{{"text", task.Text, source.String}, {"texts", task.Text, source.List}, {"patch", task.Patch, source.String}, {"tree", task.Workspace, source.String}} {
		v := n.Get(form.name)
		switch {
		case v == nil:
			continue
		case given != nil:
			return source.Problemf(v.Pos, "give only one of %s", forms)
		case v.Kind != form.is:
			return source.Problemf(n.Pos, "%s must be %s", form.name, form.is)
		}
		given, val.kind = v, form.kind
	}
	switch {
	case given == nil:
		return source.Problemf(n.Pos, "give one of %s", forms)
	case given.Kind == source.List:
		return val.presented(given)
	case val.kind == task.Workspace:
		val.tree = given.Text
		if val.tree == "" {
			return source.Problemf(given.Pos, "tree must be the path of a tar file")
		}
	default:
		val.data = []byte(given.Text)
	}
	return nil
}

// presented reads the texts of presentations.
func (val *replayLine) presented(list *source.Node) error {
	val.list = []*string{}
	for _, item := range list.Items {
		switch item.Kind {
		case source.String:
			val.list = append(val.list, &item.Text)
		case source.Null:
			val.list = append(val.list, nil)
		default:
			return source.Problemf(item.Pos, "texts must be a list of strings and null")
		}
	}
	return nil
}

// Seen records a task of the pack; it is called for each task before the run.
func (r *Replay) Seen(taskID string) {
	r.pack = cmp.Or(r.pack, taskID)
	if r.tasks[taskID] {
		r.seen[taskID] = true
	}
}

// maxNamed is how many tasks a message names.
const maxNamed = 10

// Matches refuses a file none of whose tasks is in the pack.
func (r *Replay) Matches() error {
	if len(r.seen) > 0 || r.pack == "" {
		return nil
	}
	if len(r.tasks) == 0 {
		return errors.New("the replay file has no answers")
	}
	return fmt.Errorf("the replay file matches no row of the pack: its tasks are %s, and the pack's begin with %.200q (name the column of the ids with --replay-map id=COLUMN, or write id=PREFIX{COLUMN})",
		named(slices.Sorted(maps.Keys(r.tasks))), r.pack)
}

// Unmatched counts the lines that no attempt at a known task will use, and
// names their tasks.
func (r *Replay) Unmatched(attempts int) (n int, tasks string) {
	of := map[string]bool{}
	for key := range r.lines {
		if !r.seen[key.task] || key.attempt > attempts {
			of[key.task] = true
			n++
		}
	}
	return n, named(slices.Sorted(maps.Keys(of)))
}

// named lists tasks, the first of them by name.
func named(tasks []string) string {
	var out []string
	for _, t := range tasks[:min(len(tasks), maxNamed)] {
		out = append(out, fmt.Sprintf("%.200q", t))
	}
	if more := len(tasks) - len(out); more > 0 {
		out = append(out, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(out, ", ")
}

// Name returns "replay".
func (*Replay) Name() string { return ReplayName }

// Sandboxed is false.
func (*Replay) Sandboxed() bool { return false }

// Prepare finds the attempt's line, or the task's line for every attempt.
func (r *Replay) Prepare(_ context.Context, req Request, out Output) (Production, error) {
	val, ok := r.lines[replayKey{req.View.ID(), req.Attempt}]
	if !ok {
		val, ok = r.lines[replayKey{req.View.ID(), 0}]
	}
	if !ok {
		return nothing(ReplayName, "the replay file has no line for this attempt"), nil
	}
	if val.none != "" {
		return nothing(ReplayName, val.none), nil
	}
	kind := req.View.Extraction().Kind
	if val.kind == task.Text && val.list == nil && inlines(req.View) {
		return inline(&given{agent: ReplayName, origin: candidate.Replay, sink: out.Sink, stop: val.stop}, req.View, r.Users.Owner(req.View, req.Image), val.data), nil
	}
	if form(kind) != form(val.kind) {
		return nothing(ReplayName, fmt.Sprintf("the replay file holds a %s, the family takes a %s", val.kind, kind)), nil
	}
	g := &given{agent: ReplayName, kind: kind, origin: candidate.Replay, data: val.data, limit: r.bounds.Bytes, sink: out.Sink, stop: val.stop}
	if why := val.present(g, req.Shown); why != "" {
		return nothing(ReplayName, why), nil
	}
	if val.tree != "" {
		g.tree = func(context.Context) (candidate.Candidate, error) {
			return r.importTree(out.Sink, val.tree, candidate.Place{Dir: workspace.TargetOf(req.View.Environment()), Owner: r.Users.Owner(req.View, req.Image)})
		}
	}
	return g, nil
}

// present makes the candidate of a task with several presentations, or says why there is
// none. One text is the whole candidate, or what was said to the task as it is.
func (val replayLine) present(g *given, shown []*task.AgentView) (why string) {
	n := len(shown)
	switch {
	case n == 0 && val.list == nil, n > 0 && val.list == nil && isTexts(val.data, n):
		return ""
	case n == 0:
		return "the replay file holds texts of several presentations, and the task is presented once"
	case val.list == nil && slices.Contains(shown, nil):
		text := string(val.data)
		val.list = make([]*string, n)
		val.list[0] = &text
	case val.list == nil:
		return fmt.Sprintf("the replay file holds one text, and the task is presented %d times (write texts, a list)", n)
	case len(val.list) != n:
		return fmt.Sprintf("the replay file holds %d texts, and the task is presented %d times", len(val.list), n)
	}
	list, err := candidate.JoinTexts(val.list...)
	if err != nil {
		return err.Error()
	}
	g.data = list
	if each := cmp.Or(g.limit, candidate.DefaultLimit); !slices.ContainsFunc(val.list, func(s *string) bool { return s != nil && int64(len(*s)) > each }) {
		g.limit = candidate.MaxBytes
	}
	return ""
}

func isTexts(data []byte, n int) bool {
	_, err := candidate.SplitTexts(data, n)
	return err == nil
}

// form is the representation of a kind of candidate in a replay line.
func form(k task.CandidateKind) task.CandidateKind {
	if k == task.Code {
		return task.Text
	}
	return k
}

// importTree streams a tar file into the sink.
func (r *Replay) importTree(sink candidate.Sink, name string, at candidate.Place) (candidate.Candidate, error) {
	f, err := r.openTree(name)
	if err != nil {
		return candidate.Candidate{}, fmt.Errorf("opening the replayed tree: %w", err)
	}
	defer f.Close()
	return stream(sink, candidate.Replay, func(w io.Writer) error {
		_, err := candidate.Import(f, r.trees[name], at, r.bounds.tree(), w)
		return err
	})
}

// stream stores what write writes.
func stream(sink candidate.Sink, origin candidate.Origin, write func(io.Writer) error) (c candidate.Candidate, err error) {
	err = piped.Run(write, func(r io.Reader) (err error) {
		c, err = sink.Put(task.Workspace, origin, r)
		return err
	})
	return c, err
}
