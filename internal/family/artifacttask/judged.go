package artifacttask

import (
	"context"
	"encoding/csv"
	"slices"
	"strings"

	"securebench/internal/artifact"
	"securebench/internal/family/judged"
	"securebench/internal/judge"
	"securebench/internal/task"
)

// readable reports whether a judge can read files of a type.
func readable(t artifact.Type) bool {
	return slices.Contains(append(texts(), artifact.DOCX, artifact.PPTX, artifact.PDF), t)
}

// asksJudge reports whether a judge decides a row. One that cannot be scored asks nobody.
func asksJudge(v task.EvaluatorView) bool {
	_, refused := readRow(v)
	return refused == nil && judged.Asks(v)
}

// judge has a judge decide on the files, as a text.
func (s *scorer) judge(ctx context.Context) error {
	scorer, err := judged.New(s.verifier.resources.Judge, s.c, s.inWords(s.first()))
	if err != nil {
		return s.unfit(keyRubric, err)
	}
	v, err := scorer.Score(ctx, s.inWords(s.got), false)
	if err == nil {
		s.judged = &v
	}
	return err
}

// first returns the first reference of each file, nil without references.
func (s *scorer) first() (out []*artifact.File) {
	for _, refs := range s.wanted {
		if len(refs) > 0 {
			out = append(out, refs[0])
		}
	}
	return out
}

// inWords returns what files say, as a text.
func (s *scorer) inWords(files []*artifact.File) string {
	var b strings.Builder
	for i, f := range files {
		if len(files) > 1 {
			b.WriteString(s.row.outputs[i].Path + ":\n\n")
		}
		b.WriteString(said(f) + "\n")
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// said returns what a file says.
func said(f *artifact.File) string {
	var b strings.Builder
	switch {
	case f.Text != nil:
		return *f.Text
	case f.Table != nil:
		table(&b, f.Table.Rows)
	case f.Document != nil:
		for _, block := range f.Document.Blocks {
			if block.Table != nil {
				table(&b, block.Table)
			} else {
				b.WriteString(block.Text + "\n")
			}
		}
	}
	return b.String()
}

// table writes a table as text.
func table(b *strings.Builder, rows [][]string) {
	_ = csv.NewWriter(b).WriteAll(rows) // a builder takes all
}

// canaries returns what a judge is tried with: an inline reference is its own.
func canaries(v task.EvaluatorView) (judge.Specimen, bool) {
	var text string
	if sol, ok := solution(v); ok && sol.Command == nil && sol.Files == nil {
		if content, err := sol.Candidate.Bytes(); err == nil {
			text = string(content)
		}
	}
	return judged.Canaries(v, text)
}
