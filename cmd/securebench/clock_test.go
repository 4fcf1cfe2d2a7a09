package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// wallClock names the places that use the time of day. In all others, times come from
// time.Now and keep the reading of the monotonic clock, so that a clock that is set
// while they run changes no duration. Each says what it does with the time.
func wallClock() map[string]string {
	const shown, tar, past = "shown or written down, never compared", "the time in an archive's header", "a deadline in the past"
	return map[string]string{
		"cmd/securebench/machine/images.go":          shown,
		"cmd/dist/main.go":                           "the date of a revision",
		"cmd/dist/packages.go":                       "the date of a revision",
		"internal/dist/wheel.go":                     "the date of a revision",
		"cmd/securebench/complete/manual.go":         "the date of a revision",
		"internal/bench/bench.go":                    shown,
		"internal/agent/model/account.go":            shown,
		"internal/merge/write.go":                    shown,
		"internal/export/atif.go":                    shown,
		"internal/viewer/library.go":                 "not a time: whether a file is another one",
		"internal/importer/table/parquet.go":         "dates of a table's own cells",
		"internal/artifact/reader/workbook.go":       "dates of a workbook's own cells",
		"internal/remote/hub/hub.go":                 shown,
		"internal/remote/keys.go":                    shown,
		"internal/remote/worker/folder.go":           "how old results are of runs that did not come back; a clock that jumps costs work",
		"internal/remote/worker/trees.go":            "which archives were not needed for the longest time; a clock that jumps costs work",
		"internal/evidence/seal.go":                  shown,
		"internal/gateway/ledger/ledger.go":          shown,
		"internal/gateway/relay/trace.go":            shown,
		"internal/gateway/scripted/command.go":       shown,
		"internal/trajectory/recorder.go":            shown,
		"internal/agent/model/model.go":              shown,
		"internal/pipeline/record/dir.go":            shown,
		"internal/progress/json.go":                  shown,
		"internal/report/usage.go":                   shown,
		"internal/run/bind.go":                       shown,
		"internal/sandbox/imagestore/add.go":         shown,
		"internal/agent/programs/tree.go":            tar,
		"internal/wheels/wheels.go":                  tar,
		"internal/wheels/install.go":                 tar,
		"internal/candidate/tree.go":                 tar,
		"internal/sandbox/imagestore/layer/layer.go": tar,
		"internal/sandbox/upper/archive.go":          tar,
		"internal/unpack/tree.go":                    tar,
		"internal/workspace/tar.go":                  tar,
		"internal/gateway/relay/serve.go":            past,
		"internal/sandbox/initproc/command.go":       past,
		"internal/gateway/egress/via.go":             past,
		"internal/sandbox/initproc/loopback.go":      past,
		"internal/gateway/upstream/upstream.go":      "a provider names the time at which it wants to be asked again; the wait is bounded",
		"internal/sandbox/docker/cause.go":           "the bounds of the engine's own events, by the engine's own clock",
		"internal/agent/model/journal.go":            "not a time",
		"cmd/securebench/fleet/status.go":            "not a time",
	}
}

// wallCalls are methods and functions that give a time without the monotonic clock.
var wallCalls = []string{"UTC", "Local", "In", "Round", "Truncate", "AddDate", "Unix", "UnixNano", "UnixMilli", "UnixMicro", "ModTime"}

// TestClockJumps: nothing but what is listed looks at the time of day.
func TestClockJumps(t *testing.T) {
	root, found := filepath.Join("..", ".."), map[string]bool{}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (d.Name() == "testdata" || path != root && strings.HasPrefix(d.Name(), ".")) {
			return fs.SkipDir
		}
		if filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") {
			return nil
		}
		name, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		lines, err := wallClockIn(path)
		if len(lines) > 0 {
			found[filepath.ToSlash(name)] = true
			if wallClock()[filepath.ToSlash(name)] == "" {
				t.Errorf("%s uses the time of day at %v: use only time.Now and time.Since, or say here what for", name, lines)
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for name := range wallClock() {
		if !found[name] {
			t.Errorf("%s does not use the time of day", name)
		}
	}
}

// wallClockIn returns where a file uses the time of day.
func wallClockIn(path string) (lines []string, err error) {
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, path, nil, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	imported := slices.ContainsFunc(file.Imports, func(i *ast.ImportSpec) bool { return i.Path.Value == `"time"` })
	if !imported {
		return nil, nil
	}
	ast.Inspect(file, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return true
		}
		sel, ok := call.Fun.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		name := sel.Sel.Name
		if slices.Contains(wallCalls, name) && !named(sel, "math", "Round") || strings.HasPrefix(name, "ParseTime") || named(sel, "time", "Parse") || named(sel, "time", "ParseInLocation") {
			lines = append(lines, files.Position(call.Pos()).String())
		}
		return true
	})
	return lines, nil
}

// named reports whether an expression is a name of a package.
func named(sel *ast.SelectorExpr, pkg, name string) bool {
	of, ok := sel.X.(*ast.Ident)
	return ok && of.Name == pkg && sel.Sel.Name == name
}
