package provider

import (
	"maps"
	"strings"

	"securebench/internal/agent/model"
	"securebench/internal/judge"
)

// accounts note what the judge uses beside what the agent does, in one account of an
// attempt.
type accounts struct{ all model.Accounts }

// Begin begins an account of the judge's.
func (a accounts) Begin(task string, attempt int) (former map[string]int64, note func(map[string]int64) error) {
	all, noteAll := a.all.Begin(task, attempt)
	others := maps.Clone(all)
	maps.DeleteFunc(others, func(name string, _ int64) bool { return strings.HasPrefix(name, judge.UsagePrefix) })
	return stripped(all), func(used map[string]int64) error {
		sum := judge.Prefixed(used)
		maps.Copy(sum, others)
		return noteAll(sum)
	}
}

// stripped returns the judge's part of a usage, by the names of its client.
func stripped(all map[string]int64) map[string]int64 {
	out := map[string]int64{}
	for name, n := range all {
		if own, ok := strings.CutPrefix(name, judge.UsagePrefix); ok {
			out[own] = n
		}
	}
	return out
}
