package artifacttask

import (
	"cmp"
	"errors"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"securebench/internal/artifact"
	"securebench/internal/artifact/rubric"
	"securebench/internal/candidate"
	"securebench/internal/family"
	"securebench/internal/family/readbox"
	"securebench/internal/judge"
	"securebench/internal/task"
	"securebench/internal/verdict"
)

// The keys of rows that several functions read.
const (
	keyOutput    = "output_spec"
	keyReference = "reference_artifact"
	keyRubric    = "rubric"
	keyChecker   = "checker"
	keyConverter = "converter"
)

// output is a file that a row asks for.
type output struct {
	Type artifact.Type `json:"type"`
	Path string        `json:"path"`
	Max  int64         `json:"max_bytes"`
}

// row is what a verification needs of a task.
type row struct {
	outputs []output         // in the order of a tree
	rubrics []*rubric.Rubric // of each; nil if a judge decides, or only a checker
	judged  bool
	// references are what each may be like, one of which is enough.
	references [][]reference
}

// reference is a file of the row's own.
type reference struct {
	path    string // below the pack's evaluation root; "" is none
	content []byte // if it has no path
}

// known are the types of files that can be read, and texts those that a text can be.
func known() []artifact.Type {
	return append(texts(), artifact.XLSX, artifact.DOCX, artifact.PPTX, artifact.PDF, artifact.PNG, artifact.JPEG, artifact.NPY, artifact.ZIP, artifact.Any)
}

func texts() []artifact.Type { return []artifact.Type{artifact.CSV, artifact.JSON, artifact.Text} }

// readOutputs reads what a row asks for. The error says what of it cannot be scored.
func readOutputs(v jsontext.Value) ([]output, error) {
	var out []output
	var err error
	if v.Kind() == '[' {
		err = json.Unmarshal(v, &out)
	} else {
		out = make([]output, 1)
		err = json.Unmarshal(v, &out[0])
	}
	if err != nil {
		return nil, errors.New("it is not of a known form")
	}
	for i := range out {
		o := &out[i]
		if o.Path = path.Clean(o.Path); o.Max == 0 {
			o.Max = readbox.MaxBytes
		}
		switch {
		case !slices.Contains(known(), o.Type):
			return nil, fmt.Errorf("its type %q is none that can be read", o.Type)
		case !isFile(o.Path):
			return nil, errors.New("it has no path of a file in the workspace")
		}
	}
	slices.SortFunc(out, func(a, b output) int { return candidate.ComparePaths(a.Path, b.Path) })
	for i := range out[1:] {
		if out[i+1].Path == out[i].Path || strings.HasPrefix(out[i+1].Path, out[i].Path+"/") {
			return nil, fmt.Errorf("%s is the place of two files", out[i].Path)
		}
	}
	return out, nil
}

// isFile reports whether a clean path is that of a file below a folder.
func isFile(p string) bool {
	return p != "." && p != ".." && !path.IsAbs(p) && !strings.HasPrefix(p, "../") && !strings.ContainsAny(p, "\\\x00")
}

// lacks says why a row has no verdict, with what it lacks.
func lacks(key, format string, args ...any) *family.Failure {
	return family.Fail(verdict.NoVerifier, "%s: %s", key, fmt.Sprintf(format, args...))
}

// readRow reads a row. The failure says why it cannot be scored.
func readRow(v task.EvaluatorView) (r row, refused *family.Failure) {
	spec, _ := v.Get(keyOutput)
	var err error
	if r.outputs, err = readOutputs(spec.Value); err != nil {
		return r, lacks("input."+keyOutput, "%v", err)
	}
	ref, has := v.Get(keyReference)
	if has {
		if r.references, err = readReferences(ref.Value, r.outputs); err != nil {
			return r, lacks("eval."+keyReference, "%v", err)
		}
	}
	rule, ruled := v.Get(keyRubric)
	if !ruled {
		return r, nil // a checker decides, which this view does not have
	}
	if r.judged = judge.Needed(rule.Value); r.judged {
		if !slices.ContainsFunc(r.outputs, func(o output) bool { return !readable(o.Type) }) {
			return r, nil
		}
		return r, lacks("eval."+keyRubric, "a judge reads texts, tables and documents, and the row asks for another file")
	}
	if r.rubrics, err = readRubrics(rule.Value, r.outputs); err != nil {
		return r, lacks("eval."+keyRubric, "%v", err)
	}
	if !has {
		return r, lacks("eval."+keyReference, "the row has none to compare with")
	}
	return r, nil
}

// unknown says what of the files is not known, but asked for. Only a converter reads the
// text of a PDF.
func (r row) unknown(converted bool) *family.Failure {
	for i, o := range r.outputs {
		if r.judged && o.Type == artifact.PDF && !converted {
			return lacks("eval."+keyConverter, "a judge reads the text of %s only with a converter", o.Path)
		}
		if r.rubrics == nil {
			continue
		}
		if err := r.rubrics[i].Suits(o.Type, converted); err != nil {
			return lacks("eval."+keyRubric, "%s: %v", o.Path, err)
		}
	}
	return nil
}

// readRubrics reads the rubric of each file: one for all, or files with one for each path.
func readRubrics(v jsontext.Value, outputs []output) (out []*rubric.Rubric, err error) {
	var of struct {
		Files map[string]jsontext.Value `json:"files"`
	}
	if v.Kind() != '{' || json.Unmarshal(v, &of) != nil {
		return nil, errors.New("it is neither a text nor an object")
	}
	for name := range of.Files {
		if !slices.ContainsFunc(outputs, func(o output) bool { return o.Path == path.Clean(name) }) {
			return nil, fmt.Errorf("files names %s, for which output_spec does not ask", strconv.Quote(name))
		}
	}
	for _, o := range outputs {
		raw := v
		if of.Files != nil {
			if raw = of.Files[o.Path]; raw == nil {
				return nil, fmt.Errorf("files does not have %s", o.Path)
			}
		}
		r, err := rubric.Parse(raw)
		if err != nil {
			return nil, err
		}
		out = append(out, r)
	}
	return out, nil
}

// readReferences reads what each file may be like. Of several files, a path is a folder in
// which each has the path of the one it is for.
func readReferences(v jsontext.Value, outputs []output) ([][]reference, error) {
	several := []jsontext.Value{v}
	if v.Kind() == '[' && (json.Unmarshal(v, &several) != nil || len(several) == 0 || len(several) > maxReferences) {
		return nil, fmt.Errorf("a list must have 1 to %d references", maxReferences)
	}
	out := make([][]reference, len(outputs))
	for _, one := range several {
		var file struct {
			Path string `json:"path"`
		}
		named := one.Kind() == '{' && json.Unmarshal(one, &file, json.RejectUnknownMembers(true)) == nil && file.Path != ""
		for i, o := range outputs {
			ref := reference{path: file.Path}
			switch {
			case named && len(outputs) > 1:
				ref.path = path.Join(file.Path, o.Path)
			case !named && len(outputs) > 1:
				return nil, errors.New("of several files it must be the path of a folder that has them")
			case !named:
				var text string
				if ref.content = one; one.Kind() == '"' && json.Unmarshal(one, &text) == nil {
					ref.content = []byte(text)
				} else if o.Type != artifact.JSON {
					return nil, errors.New("it is neither a path nor the text of a file")
				}
				if !slices.Contains(texts(), o.Type) {
					return nil, fmt.Errorf("a file of type %s needs a path", o.Type)
				}
			}
			out[i] = append(out[i], ref)
		}
	}
	return out, nil
}

// maxReferences is how many references a row may have.
const maxReferences = 64

// check refuses what nobody can mean.
func check(r family.Row) (ps []family.Problem) {
	outputs, err := readOutputs(r.Input[keyOutput])
	if err != nil {
		return nil // the row stays pending
	}
	raw := r.Eval[keyRubric]
	switch {
	case raw == nil, raw.Kind() == '"':
	case judge.Needed(raw):
		if _, err := judge.ParseRubric(raw); err != nil {
			ps = append(ps, family.Problem{Path: []string{"eval", keyRubric}, Message: err.Error()})
		}
	default:
		if _, err := readRubrics(raw, outputs); err != nil {
			ps = append(ps, family.Problem{Path: []string{"eval", keyRubric}, Message: err.Error()})
		}
	}
	if r.Eval[keyConverter] != nil && !slices.ContainsFunc(outputs, func(o output) bool { return converters()[o.Type] != "" }) {
		ps = append(ps, family.Problem{Path: []string{"eval", keyConverter}, Message: "is for files of type xlsx and pdf, and the row asks for none"})
	}
	if ref := r.Eval[keyReference]; ref != nil {
		if _, err := readReferences(ref, outputs); err != nil {
			ps = append(ps, family.Problem{Path: []string{"eval", keyReference}, Message: err.Error()})
		}
	}
	return ps
}

// pending leaves rows that lack something without a verdict.
func pending(inputs task.SandboxView, v task.EvaluatorView) (verdict.Reason, string) {
	r, refused := readRow(v)
	if refused == nil {
		refused = r.unknown(converterOf(inputs) != "")
	}
	if refused != nil {
		return refused.Reason, refused.Message
	}
	return "", ""
}

// submission says which files a row asks for. A text can be the only one.
func submission(r family.Row) (task.Extraction, string) {
	x := task.Extraction{Mode: task.FromWorkspace, Kind: task.Workspace}
	outputs, err := readOutputs(r.Input[keyOutput])
	if err != nil {
		return x, "Do what the brief asks for."
	}
	for _, o := range outputs {
		x.Files = append(x.Files, o.Path)
	}
	x.OrStdout = len(outputs) == 1 && slices.Contains(texts(), outputs[0].Type)
	return x, "Do what the brief asks for. It must be in the files that output_spec names: each at its path, relative to the workspace, and of its type."
}

// solution returns the row's own solution, or else its first reference.
func solution(v task.EvaluatorView) (family.Solution, bool) {
	spec, _ := v.Get(keyOutput)
	outputs, err := readOutputs(spec.Value)
	if err != nil {
		return family.Solution{}, false
	}
	if own, ok := v.Get("solution"); ok {
		var s struct {
			Path    string         `json:"path"`
			Command jsontext.Value `json:"command"`
		}
		if json.Unmarshal(own.Value, &s) != nil {
			return family.Solution{}, false
		}
		if argv, ok := family.Argv(s.Command); ok {
			return family.Solution{Command: argv}, true
		}
		return files(outputs, s.Path), s.Path != ""
	}
	ref, _ := v.Get(keyReference)
	all, err := readReferences(ref.Value, outputs)
	if err != nil || len(all) == 0 || ref.Value == nil {
		return family.Solution{}, false
	}
	if first := all[0][0]; first.path == "" {
		return family.Solve(task.Text, string(first.content)), true
	}
	out := family.Solution{Files: map[string]string{}}
	for i, o := range outputs {
		out.Files[o.Path] = all[i][0].path
	}
	return out, true
}

// files returns a solution of files: the one at a path, or those in the folder there.
func files(outputs []output, from string) family.Solution {
	if len(outputs) == 1 {
		return family.Solution{Files: map[string]string{outputs[0].Path: from}}
	}
	out := family.Solution{Files: map[string]string{}}
	for _, o := range outputs {
		out.Files[o.Path] = path.Join(from, o.Path)
	}
	return out
}

// typesOf names the types of files, each once.
func typesOf(outputs []output) []string {
	var out []string
	for _, o := range outputs {
		if name := string(o.Type); !slices.Contains(out, name) {
			out = append(out, cmp.Or(name, "unknown"))
		}
	}
	return out
}
