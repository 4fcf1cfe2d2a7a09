package evidence

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"securebench/internal/config"
	"securebench/internal/family"
	"securebench/internal/pipeline/record"
	"securebench/internal/redact"
)

// Remarks are what a reader of a verified run should know besides.
func (r *Result) Remarks(reg family.Registry) (out []string) {
	out = append(out, r.Notes...)
	if r.Published {
		out = append(out, "published copy: the operator's restricted and history folders are not here and were not checked")
	}
	m := r.Manifest
	for _, f := range About(m) {
		out = append(out, f.Name+": "+f.Value)
	}
	if n := m.Planned.LeftOut; n > 0 {
		out = append(out, fmt.Sprintf("part of the pack: %d of its %d rows were left out by a flag", n, n+m.Planned.Tasks))
	}
	if n := m.Planned.Judged; n > 0 {
		out = append(out, fmt.Sprintf("judged: %d of %d tasks, which are counted apart from what was computed", n, m.Planned.Tasks))
	}
	if s := m.Selection; s != nil {
		out = append(out, "rows chosen by: "+redact.EscapeShort(s.String(), maxSelection))
	}
	out = append(out, LimitRemarks(m.Limits, reg)...)
	if n := m.FormerRuns; n > 0 {
		out = append(out, fmt.Sprintf("former runs in the same directory: %d", n))
	}
	out = append(out, steerRemarks(m.Steered)...)
	out = append(out, shardRemarks(m.Shards)...)
	for _, r := range m.ResumedFrom {
		line := fmt.Sprintf("resumed at %s; records kept: %d", redact.Escape(r.At), r.Kept)
		for _, reason := range slices.Sorted(maps.Keys(r.Rerun)) {
			line += fmt.Sprintf(", %s %d", redact.Escape(reason), r.Rerun[reason])
		}
		out = append(out, line)
	}
	return out
}

// steerRemarks says how a run was changed while it went on.
func steerRemarks(all []record.Steered) (out []string) {
	const most = 20
	for _, s := range all[:min(len(all), most)] {
		line := "changed at " + redact.Escape(s.At) + " while it went on: " + redact.Escape(s.Act)
		if s.Workers > 0 {
			line += fmt.Sprintf(", %d", s.Workers)
		}
		out = append(out, line)
	}
	if more := len(all) - most; more > 0 {
		out = append(out, fmt.Sprintf("changed %d more times while it went on", more))
	}
	return out
}

// shardRemarks says what came of the shards of a run.
func shardRemarks(s *record.Shards) []string {
	if s == nil || len(s.Parts) == 0 {
		return nil
	}
	superseded, dropped := 0, map[string]int{}
	for _, p := range s.Parts {
		superseded += p.Superseded
		for reason, n := range p.Dropped {
			dropped[reason] += n
		}
	}
	line := fmt.Sprintf("merged parts: %d, of a division into %d; records superseded: %d", len(s.Parts), s.Count, superseded)
	for _, reason := range slices.Sorted(maps.Keys(dropped)) {
		line += fmt.Sprintf(", %s %d", redact.Escape(reason), dropped[reason])
	}
	return []string{line}
}

// Engine names the engine of a run and says why it was taken, or is "" if the run
// needed none. The text is as the manifest has it.
func Engine(m record.Manifest) string {
	name, choice := m.EngineName()
	if name != "" && choice != "" {
		name += " (" + choice + ")"
	}
	return name
}

// maxSelection bounds the words about a selection in a line, in characters.
const maxSelection = 1000

// LimitRemarks names the limits of a run that are not this build's defaults:
// more time or memory can mean a better score.
func LimitRemarks(l record.RunLimits, reg family.Registry) []string {
	out := limitRemarks(l, config.Default().Limits)
	for _, name := range slices.Sorted(maps.Keys(l.VerifySeconds)) {
		if fam, ok := reg[name]; ok && l.VerifySeconds[name] != float64(fam.VerifySeconds) {
			out = append(out, fmt.Sprintf("limit verify_seconds of %s: %v, by default %d", name, l.VerifySeconds[name], fam.VerifySeconds))
		}
	}
	return out
}

// limitRemarks names those that are not about verifications.
func limitRemarks(l record.RunLimits, def config.Limits) (out []string) {
	for _, c := range []struct {
		name     string
		was, def any
	}{
		{"memory", l.Memory, def.Memory}, {"cpus", l.CPUs, def.CPUs}, {"pids", l.Pids, def.Pids},
		{"disk", l.Disk, def.Disk}, {"files", cmp.Or(l.Files, def.Files), def.Files}, {"output", l.Output, def.Output},
		{"candidate", l.Candidate, def.Candidate}, {"produce_seconds", l.ProduceSeconds, def.Produce.Seconds()},
	} {
		if c.was != c.def {
			out = append(out, fmt.Sprintf("limit %s: %v, by default %v", c.name, c.was, c.def))
		}
	}
	return out
}
