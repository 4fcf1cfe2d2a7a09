package run

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"

	"securebench/internal/digest"
	"securebench/internal/pipeline/record"
)

// ChangedError reports that a run cannot be resumed because its inputs
// changed.
type ChangedError struct{ Changes []string }

// Error lists the changes, one per line.
func (e *ChangedError) Error() string {
	return "these inputs changed: " + strings.Join(e.Changes, "; ")
}

// OtherRunError reports that the directory contains a run of another pack or
// agent.
type OtherRunError struct{ Was, Is record.Manifest }

// Error names both runs.
func (e *OtherRunError) Error() string {
	return fmt.Sprintf("the output directory holds run %q of pack %q with agent %q, this is %q of %q with %q",
		e.Was.RunID, e.Was.Pack.ID, e.Was.Agent, e.Is.RunID, e.Is.Pack.ID, e.Is.Agent)
}

// differences names each input that has changed.
func (r *Run) differences(was record.Manifest) (out []string) {
	is := r.manifest
	add := func(changed bool, format string, args ...any) {
		if changed {
			out = append(out, fmt.Sprintf(format, args...))
		}
	}
	add(was.Planned.Tasks != is.Planned.Tasks, "tasks planned: was %d, is %d", was.Planned.Tasks, is.Planned.Tasks)
	add(was.Planned.Tasks == is.Planned.Tasks && !slices.Equal(was.Rows(), is.Rows()), "tasks planned: other rows of the pack")
	add(was.Planned.Attempts != is.Planned.Attempts, "attempts per task: was %d, is %d", was.Planned.Attempts, is.Planned.Attempts)
	if was.Digests.Pack != is.Digests.Pack {
		out = append(out, r.packDifferences(was.Digests)...)
	}
	if was.Digests.Config != is.Digests.Config {
		out = append(out, r.configDifferences()...)
	}
	add(was.Digests.Verifier != is.Digests.Verifier, "the build of securebench changed: was %s, is %s", was.Version, is.Version)
	names := r.imageNames()
	for _, ref := range slices.Sorted(maps.Keys(r.scorer.Images)) {
		name := names[ref]
		if id, ok := was.Images[name]; ok {
			add(id != is.Images[name], "image %s: was %s, is %s", ref, id, is.Images[name])
		}
	}
	return out
}

// packDifferences names the parts of the pack that changed.
func (r *Run) packDifferences(was record.RunDigests) (out []string) {
	then, err := record.ReadPack(r.dir.FS())
	if err != nil || r.dir.Salt().Keyed("pack", "", []byte(then.Pack)) != was.Pack {
		return []string{"the pack changed"}
	}
	is := r.packDigests()
	for _, part := range []struct{ name, was, is string }{
		{"manifest", was.Manifest, r.manifest.Digests.Manifest},
		{"rows", then.Tasks, is.Tasks},
		{"public files", then.PublicAssets, is.PublicAssets},
		{"evaluation files", then.EvalAssets, is.EvalAssets},
	} {
		if part.was != part.is {
			out = append(out, "the pack's "+part.name+" changed")
		}
	}
	return out
}

// configDifferences names the settings that changed.
func (r *Run) configDifferences() []string {
	raw, err := record.ReadFile(r.dir.FS(), record.ConfigName, record.MaxConfig)
	var then, is map[string]any
	if err != nil || json.Unmarshal(raw, &then) != nil || json.Unmarshal(r.config, &is) != nil {
		return []string{"the configuration changed"}
	}
	var out []string
	compare("", then, is, func(path string, was, is any) {
		out = append(out, fmt.Sprintf("setting %s: was %s, is %s", path, setting(was), setting(is)))
	})
	slices.Sort(out)
	return out
}

// compare calls f for every value that differs between two JSON trees.
func compare(path string, a, b any, f func(path string, a, b any)) {
	ma, okA := a.(map[string]any)
	mb, okB := b.(map[string]any)
	if !okA || !okB {
		if !reflect.DeepEqual(a, b) {
			f(path, a, b)
		}
		return
	}
	keys := maps.Clone(ma)
	maps.Copy(keys, mb)
	for k := range keys {
		compare(strings.TrimPrefix(path+"."+k, "."), ma[k], mb[k], f)
	}
}

// setting formats a setting's value on one line.
func setting(v any) string {
	if v == nil {
		return "not set"
	}
	b, err := digest.Canonical(v)
	if err != nil {
		return "?"
	}
	return string(b)
}
