// Package rubric decides whether a delivered file meets the rubric of its row. It sees
// models of files alone, which readers made elsewhere: nothing here opens, parses or
// calculates a file of a candidate.
package rubric

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"securebench/internal/artifact"
	"securebench/internal/source"
	"securebench/internal/verdict"
)

// maxParts is how many rubrics one may combine.
const maxParts = 32

// Rubric says what a file must be like.
type Rubric struct{ parts []part }

// part is one rule, and its place in the rubric for messages.
type part struct {
	rule  rule
	where string
}

// rule is a rubric of one type.
type rule interface {
	// compare compares two files. Its errors are faults of the reference.
	compare(got, want *artifact.File) (Result, error)
	// check says what the reference lacks of what the rubric names.
	check(want *artifact.File) []string
	// official names the rule of a benchmark's own scorer that this is, "" if it is none.
	official() string
}

// suiting is a rule that cannot compare all that it asks for in files of some types.
type suiting interface {
	suits(t artifact.Type, converted bool) error
}

// Result is what came of a comparison.
type Result struct {
	Pass   bool
	Reason verdict.Reason // why it is no pass
	// Differences are some of those that were found. They tell hidden values: they are
	// for the operator alone.
	Differences []string
	Measure     *verdict.Measure // of a metric, or of a likeness
}

// builders read the rubrics of each type.
func builders() map[string]func(n *source.Node) (rule, source.Problems) {
	return map[string]func(n *source.Node) (rule, source.Problems){
		"archive": readArchive, "array": readArrayRule, "cells": readCells, "document": readDocument,
		"image": readImage, "json": readJSON, "metric": readMetric, "table": readTable,
		"text": readText, "workbook": readWorkbook,
	}
}

// Types are the types of rubrics, in alphabetical order.
func Types() []string { return slices.Sorted(maps.Keys(builders())) }

// Parse reads a rubric object. Its errors are one line in the words of a pack's author.
func Parse(raw []byte) (*Rubric, error) {
	n, err := source.ParseJSON("", 1, raw)
	if err != nil {
		if p, ok := errors.AsType[*source.Problem](err); ok {
			return nil, errors.New(p.Message)
		}
		return nil, err
	}
	if n.Kind != source.Map {
		return nil, fmt.Errorf("a rubric must be an object, not %s", n.Kind)
	}
	all := n.Get("all")
	if all == nil {
		p, err := readPart(n, "")
		return &Rubric{parts: []part{p}}, err
	}
	var ps source.Problems
	ps.Closed(n, "a rubric with all", "all")
	if len(ps) > 0 {
		return nil, joined(ps)
	}
	if all.Kind != source.List || len(all.Items) == 0 || len(all.Items) > maxParts {
		return nil, fmt.Errorf("all must be a list of 1 to %d rubrics", maxParts)
	}
	r := &Rubric{}
	for i, item := range all.Items {
		p, err := readPart(item, fmt.Sprintf("all[%d]: ", i))
		if err != nil {
			return nil, err
		}
		r.parts = append(r.parts, p)
	}
	return r, nil
}

// readPart reads a rubric of one type.
func readPart(n *source.Node, where string) (part, error) {
	if n.Kind != source.Map {
		return part{}, fmt.Errorf("%sa rubric must be an object, not %s", where, n.Kind)
	}
	t := n.Get("type")
	if t == nil {
		return part{}, fmt.Errorf("%sa rubric needs a type: %s", where, strings.Join(Types(), ", "))
	}
	read, ok := builders()[t.Text]
	if t.Kind != source.String || !ok {
		return part{}, fmt.Errorf("%sthere is no rubric of type %s: use one of %s", where, t.JSON(), strings.Join(Types(), ", "))
	}
	r, ps := read(n)
	if len(ps) > 0 {
		return part{}, fmt.Errorf("%s%w", where, joined(ps))
	}
	return part{r, where}, nil
}

// joined is all problems in one line, without positions: rubrics are part of a row, whose
// place the caller names.
func joined(ps source.Problems) error {
	lines := make([]string, len(ps))
	for i, p := range ps {
		lines[i] = p.Message
		if p.Fix != "" {
			lines[i] += " (" + p.Fix + ")"
		}
	}
	return errors.New(strings.Join(lines, "; "))
}

// Suits says what the rubric asks for that is not known of files of a type, which may have
// been converted.
func (r *Rubric) Suits(t artifact.Type, converted bool) error {
	for _, p := range r.parts {
		if s, ok := p.rule.(suiting); ok {
			if err := s.suits(t, converted); err != nil {
				return fmt.Errorf("%s%w", p.where, err)
			}
		}
	}
	return nil
}

// Compare compares a candidate's file with the reference. An error is a fault of the
// reference or of the rubric, never of the candidate.
func (r *Rubric) Compare(got, want *artifact.File) (Result, error) {
	out := Result{Pass: true}
	for _, p := range r.parts {
		one, err := p.rule.compare(got, want)
		if err != nil {
			return Result{}, fmt.Errorf("%s%w", p.where, err)
		}
		if out.Measure == nil {
			out.Measure = one.Measure
		}
		if one.Pass {
			continue
		}
		if out.Pass {
			out.Pass, out.Reason = false, one.Reason
		}
		for _, line := range one.Differences {
			if len(out.Differences) <= maxDifferences {
				out.Differences = append(out.Differences, p.where+line)
			}
		}
	}
	return out, nil
}

// Check says in one line each what the rubric names and the reference lacks: sheets,
// columns, ranges, paths.
func (r *Rubric) Check(want *artifact.File) (faults []string) {
	for _, p := range r.parts {
		lines := p.rule.check(want)
		if len(lines) == 0 {
			lines = selfCheck(p.rule, want)
		}
		for _, line := range lines {
			faults = append(faults, p.where+line)
		}
	}
	return faults
}

// selfCheck says why the reference does not pass itself.
func selfCheck(r rule, want *artifact.File) []string {
	switch res, err := r.compare(want, want); {
	case err != nil:
		return []string{err.Error()}
	case !res.Pass:
		return []string{"the reference does not pass itself: " + strings.Join(res.Differences, "; ")}
	}
	return nil
}

// Official names the rules of benchmarks' own scorers that the rubric has, in order.
// Records carry them: such a rule may pass what a rule of one's own refuses.
func (r *Rubric) Official() (names []string) {
	for _, p := range r.parts {
		if name := p.rule.official(); name != "" && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}
