package complete

import (
	"bufio"
	"bytes"
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"securebench/cmd/securebench/subcommand"
	"securebench/internal/pipeline/pack"
	"securebench/internal/pipeline/record"
)

// Bounds on what a completion reads and offers: it must answer at once.
const (
	maxNames = 500
	maxLine  = 1 << 20
	maxBytes = 64 << 20
)

// packs are the folders with a manifest whose name begins with word, or that lie one
// or two folders below.
func packs(word string) []string {
	return folders(word, "manifest.yaml", nil)
}

// runs are the folders with the manifest of a run, and bundles.
func runs(word string) []string {
	bundles, _ := filepath.Glob(escape(word) + "*.zip") // its pattern is well-formed
	return folders(word, record.ManifestName, bundles)
}

// folders returns the folders that hold a file, and more.
func folders(word, file string, more []string) []string {
	all := more
	for _, below := range []string{"*", "*/*"} {
		names, _ := filepath.Glob(filepath.Join(escape(word)+below, file)) // as above
		for _, name := range names {
			all = append(all, filepath.Dir(name))
		}
	}
	slices.Sort(all)
	all = slices.Compact(all)
	return all[:min(len(all), maxNames)]
}

// escape takes the meaning from the signs of a pattern.
func escape(word string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(word)
}

// tasks are the ids of the tasks of the pack or run that is given first.
func tasks(given []string) []string {
	if len(given) == 0 {
		return nil
	}
	if ids := ids(filepath.Join(given[0], record.LinesName), "task_id"); ids != nil {
		return ids
	}
	loc, _, err := subcommand.Locate(given[0])
	if err != nil {
		return nil // a completion says nothing
	}
	if info, err := os.Stat(loc.Tasks); err == nil && info.IsDir() {
		return idsOfTasks(loc)
	}
	return ids(loc.Tasks, "id")
}

// ids reads a member of each line of a file, as far as it can.
func ids(file, member string) []string {
	f, err := os.Open(file)
	if err != nil {
		return nil
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() || info.Size() > maxBytes {
		return nil
	}
	var out []string
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, maxLine)
	for lines.Scan() && len(out) < maxNames {
		var row map[string]jsontext.Value
		var id string
		if json.Unmarshal(bytes.TrimSpace(lines.Bytes()), &row) == nil && json.Unmarshal(row[member], &id) == nil && printable(id) {
			out = append(out, id)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// idsOfTasks reads the ids of a folder of tasks, as far as it can.
func idsOfTasks(loc pack.Location) (out []string) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	_, _ = pack.Survey(ctx, loc, nil, func(row pack.Row) { // a completion says nothing
		if out = append(out, row.ID); len(out) == maxNames {
			cancel()
		}
	})
	out = slices.DeleteFunc(out, func(id string) bool { return !printable(id) })
	slices.Sort(out)
	return out
}

// printable reports whether a shell shows a completion as it is.
func printable(id string) bool {
	return id != "" && !strings.ContainsFunc(id, func(r rune) bool { return r <= ' ' || r > '~' })
}
