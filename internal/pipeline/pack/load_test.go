package pack_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"securebench/internal/memtest"
	"securebench/internal/pipeline/pack"
	"securebench/internal/source"
	"securebench/internal/task"
)

func TestLocate(t *testing.T) {
	loc := write(t, manifest, "")
	dir := filepath.Dir(loc.Manifest)
	for _, arg := range []string{dir, dir + "/", loc.Manifest} {
		if got, err := pack.Locate(arg); err != nil || got != loc {
			t.Errorf("%s: %v, %v", arg, got, err)
		}
	}
	empty := t.TempDir()
	put(t, empty, "other.yaml", manifest)
	for arg, want := range map[string]string{
		filepath.Join(empty, "none"):       "looking for pack " + empty + "/none: no such file or directory",
		empty:                              "pack " + empty + " needs " + empty + "/manifest.yaml: no such file or directory",
		filepath.Join(empty, "other.yaml"): "pack " + empty + "/other.yaml needs " + empty + "/tasks.jsonl: no such file or directory",
	} {
		if _, err := pack.Locate(arg); err == nil || err.Error() != want {
			t.Errorf("%s: got %v, want %s", arg, err, want)
		}
	}
}

func TestManifest(t *testing.T) {
	tests := []struct{ name, in, errs, warnings string }{
		{"least", "id: p\nversion: 1\n", "", "tasks.jsonl:1: the pack has no rows (write one task a line; securebench pack add appends one)"},
		{"nulls", "id: p\nversion: -3\ndefaults: ~\nasset_roots: ~\nasset_defaults: ~\n", "", "tasks.jsonl:1: the pack has no rows (write one task a line; securebench pack add appends one)"},
		{"unknown keys", "id: p\nversion: 1\nauthor: x\ndefaults: {familie: x}\n", "",
			"manifest.yaml:3:1: the manifest has unknown field \"author\", which is ignored (known: id, version, defaults, asset_roots, asset_defaults)\n" +
				"manifest.yaml:4:12: manifest.defaults has unknown field \"familie\", which is ignored (did you mean \"family\"?)\n" +
				"tasks.jsonl:1: the pack has no rows (write one task a line; securebench pack add appends one)"},
		{"wrong case", "id: p\nversion: 1\nDefaults: {}\n",
			"manifest.yaml:3:1: the manifest has field \"Defaults\" in the wrong case (write defaults)", ""},
		{"duplicate", "id: p\nversion: 1\nid: q\n", `manifest.yaml:3:1: duplicate key "id"`, ""},
		{"nothing", "{}\n", "manifest.yaml:1:1: manifest.id is required\nmanifest.yaml:1:1: manifest.version is required", ""},
		{"a list", "[]\n", "manifest.yaml:1:1: the manifest must be an object, not a list", ""},
		{"empty", "", "manifest.yaml: the file is empty", ""},
		{"types", "id: 1\nversion: true\ndefaults: {family: '', environment: []}\nasset_roots: x\nasset_defaults: {read_only: 1}\n",
			"manifest.yaml:1:5: manifest.id must be a non-empty string, not a number (quote it: \"1\")\n" +
				"manifest.yaml:2:10: manifest.version must be an integer, not a boolean\n" +
				"manifest.yaml:3:20: manifest.defaults.family must be a non-empty string\n" +
				"manifest.yaml:3:37: manifest.defaults.environment must be an object, not a list\n" +
				"manifest.yaml:5:29: manifest.asset_defaults.read_only must be true or false, not a number\n" +
				"manifest.yaml:4:14: manifest.asset_roots must be an object, not a string", ""},
		{"float version", "id: p\nversion: 1.0\n", "manifest.yaml:2:10: manifest.version must be an integer, not 1.0", ""},
		{"text version", "id: p\nversion: '1'\n", "manifest.yaml:2:10: manifest.version must be an integer, not a string", ""},
		{"roots", "id: p\nversion: 1\nasset_roots: {public: ../x, eval: /y}\n",
			"manifest.yaml:3:23: manifest.asset_roots.public \"../x\" contains \"..\" (write a relative path with forward slashes)\n" +
				"manifest.yaml:3:35: manifest.asset_roots.eval \"/y\" is absolute (write a relative path with forward slashes)", ""},
		{"root is the pack", "id: p\nversion: 1\nasset_roots: {public: ./, eval: 'a\\b'}\n",
			"manifest.yaml:3:23: manifest.asset_roots.public \"./\" names the folder itself (write a relative path with forward slashes)\n" +
				"manifest.yaml:3:33: manifest.asset_roots.eval \"a\\\\b\" contains a backslash (write a relative path with forward slashes)", ""},
		{"id with a line break", "id: \"a\\nb\"\nversion: 1\n",
			"manifest.yaml:1:5: manifest.id contains a line break (U+000A) " +
				"(remove it: ids are shown in records, logs and terminals, where it could forge or hide text)", ""},
		{"too large", "id: p\nversion: 1\n#" + strings.Repeat("x", 1<<20), "manifest.yaml: the file is larger than 1048576 bytes", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, errs, warnings := load(t, write(t, tt.in, ""))
			if diff := cmp.Diff(tt.errs, errs); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff(tt.warnings, warnings); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestManifestValues(t *testing.T) {
	m := "id: p\nversion: 4\ndefaults: {family: f, environment: {image: i}}\nasset_roots: {public: a/b/, eval: c}\nasset_defaults: {read_only: false}\n"
	p, errs, _ := load(t, write(t, m, ""))
	if errs != "" {
		t.Fatal(errs)
	}
	got := p.Manifest
	if got.ID != "p" || got.Version != 4 || got.Family != "f" || got.Environment.Get("image").Text != "i" ||
		got.PublicRoot != "a/b" || got.EvalRoot != "c" || got.ReadOnly {
		t.Errorf("got %+v", got)
	}
	dir := filepath.Dir(p.Location.Manifest)
	if p.PublicRoot() != filepath.Join(dir, "a/b") || p.EvalRoot() != filepath.Join(dir, "c") {
		t.Errorf("roots %s and %s", p.PublicRoot(), p.EvalRoot())
	}
}

func TestRows(t *testing.T) {
	tests := []struct{ name, in, errs, warnings string }{
		{"least", `{"id":"a"}`, "", ""},
		{"nulls", `{"id":"a","family":null,"input":null,"eval":null,"assets":null,"environment":null,"metadata":null}`, "", ""},
		{"blank lines count", "\n \t\r\n\n{\"id\":1}\n", "tasks.jsonl:4:7: id must be a non-empty string, not a number (quote it: \"1\")", ""},
		{"CRLF", "{\"id\":\"a\"}\r\n{\"id\":\"b\"}\r\n", "", ""},
		{"no newline at the end", "{\"id\":\"a\"}\n{\"id\":\"b\"}", "", ""},
		{"space around", "  {\"id\":\"a\"}  \n", "", ""},
		{"a list", `[]`, "tasks.jsonl:1:1: a row must be an object, not a list (write one task a line, as a JSON object)", ""},
		{"no JSON", `{"id":`, "tasks.jsonl:1:7: invalid JSON: the value is cut off (close its quotes, brackets and braces; in a file of lines, a value is on one line)", ""},
		{"two values", `{"id":"a"} {"id":"b"}`, "tasks.jsonl:1:12: data follows the JSON value", ""},
		{"duplicate key", `{"id":"a","id":"b"}`, `tasks.jsonl:1:11: invalid JSON: duplicate key "id" (remove one of the two)`, ""},
		{"invalid UTF-8", "{\"id\":\"\xff\"}", "tasks.jsonl:1:8: the file has a byte that is not UTF-8 (save the file as UTF-8)", ""},
		{"no id", `{}`, "tasks.jsonl:1:1: the row has no id (give every task a unique id)", ""},
		{"unknown key", `{"id":"a","x":1}`, "", `tasks.jsonl:1:11: the row has unknown field "x", which is ignored (known: id, family, input, eval, assets, environment, metadata)`},
		{"unknown key often", "{\"id\":\"a\",\"x\":1}\n{\"id\":\"b\",\"x\":1}", "", `tasks.jsonl:1:11: the row has unknown field "x", which is ignored (known: id, family, input, eval, assets, environment, metadata)`},
		{"wrong case", `{"id":"a","Eval":{}}`, `tasks.jsonl:1:11: the row has field "Eval" in the wrong case (write eval)`, ""},
		{"types", `{"id":"a","family":1,"input":[],"eval":1,"assets":{},"environment":"x","metadata":true}`,
			"tasks.jsonl:1:20: family must be a non-empty string, not a number (quote it: \"1\")\n" +
				"tasks.jsonl:1:30: input must be an object, not a list\n" +
				"tasks.jsonl:1:40: eval must be an object, not a number\n" +
				"tasks.jsonl:1:83: metadata must be an object, not a boolean\n" +
				"tasks.jsonl:1:68: environment must be an object, not a string\n" +
				"tasks.jsonl:1:51: assets must be a list, not an object", ""},
		{"asset types", `{"id":"a","assets":[1,{},{"path":1},{"path":"x","read_only":"y","Mount":"z"}]}`,
			"tasks.jsonl:1:21: assets[0] must be an object, not a number\n" +
				"tasks.jsonl:1:23: assets[1].path is required\n" +
				"tasks.jsonl:1:34: assets[2].path must be a non-empty string, not a number (quote it: \"1\")\n" +
				"tasks.jsonl:1:65: assets[3] has field \"Mount\" in the wrong case (write mount)\n" +
				"tasks.jsonl:1:61: assets[3].read_only must be true or false, not a string", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, errs, warnings := load(t, write(t, manifest, tt.in))
			if diff := cmp.Diff(tt.errs, errs); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff(tt.warnings, warnings); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestFamilyIsRequired(t *testing.T) {
	_, errs, _ := load(t, write(t, "id: p\nversion: 1\n", "{\"id\":\"a\"}\n{\"id\":\"b\",\"family\":\"g\"}"))
	want := "tasks.jsonl:1:1: family is required (or set defaults.family in the manifest)"
	if diff := cmp.Diff(want, errs); diff != "" {
		t.Error(diff)
	}
}

func TestRowValues(t *testing.T) {
	m := "id: p\nversion: 1\ndefaults:\n  family: f\n  environment: {image: i, env: {a: 1, b: 2}}\n"
	row := `{"id":"é","family":"g","input":{"x":1},"eval":{"y":2},"environment":{"env":{"c":3}},"metadata":{"m":[]},` +
		`"assets":[{"path":"d/./a"},{"path":"b","mount":"c","read_only":false,"type":"image","mode":"0644"}]}`
	p, errs, _ := load(t, write(t, m, "\n"+row+"\r\n", "assets/d/a", "assets/b"))
	if errs != "" {
		t.Fatal(errs)
	}
	rows, err := collect(p)
	if err != nil || len(rows) != 1 || p.Count != 1 {
		t.Fatalf("%d rows, %v", len(rows), err)
	}
	r := rows[0]
	got := []any{r.Index, r.Line, r.ID, r.Family, string(r.Input.JSON()), string(r.Eval.JSON()), string(r.Environment.JSON()),
		string(r.Metadata.JSON()), r.Assets, string(r.Raw), filepath.Base(r.Pos.String())}
	want := []any{0, 2, "é", "g", `{"x":1}`, `{"y":2}`, `{"image":"i","env":{"c":3}}`, `{"m":[]}`,
		[]task.Asset{{Path: "d/a", Mount: "d/a", ReadOnly: true}, {Path: "b", Mount: "c"}}, row, "tasks.jsonl:2:1"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// D05 and K03: ids that occur twice.
func TestDuplicateIDs(t *testing.T) {
	rows := "{\"id\":\"a\"}\n{\"id\":\"b\"}\n\n{\"id\":\"a\",\"family\":\"g\"}\n{\"id\":\"\\u0061\"}\n{\"id\":\"A\"}\n"
	_, errs, _ := load(t, write(t, manifest, rows))
	want := "tasks.jsonl:4:7: duplicate task id \"a\", first on line 1 (give every task a unique id)\n" +
		"tasks.jsonl:5:7: duplicate task id \"a\", first on line 1 (give every task a unique id)"
	if diff := cmp.Diff(want, errs); diff != "" {
		t.Error(diff)
	}
}

// Duplicates among very many rows are found, and only so many are listed.
func TestManyDuplicates(t *testing.T) {
	var b strings.Builder
	for i := range 3000 {
		fmt.Fprintf(&b, "{\"id\":\"%d\"}\n", i%2000)
	}
	_, errs, _ := load(t, write(t, manifest, b.String()))
	lines := strings.Split(errs, "\n")
	if len(lines) != 20 || !strings.Contains(lines[0], `duplicate task id`) {
		t.Errorf("%d problems: %.300s", len(lines), errs)
	}
}

// S10: ids that try to be a path, an argument or a line. Slashes, dots and
// dashes are honest, since ids are encoded before they become names.
func TestIDs(t *testing.T) {
	const fix = " (remove it: ids are shown in records, logs and terminals, where it could forge or hide text)"
	tests := []struct{ id, want string }{
		{"../../x", ""}, {"--privileged", ""}, {"a/b", ""}, {"a_b", ""}, {"HumanEval/0", ""}, {"日本 é", ""}, {"a\u200db", ""},
		{strings.Repeat("x", 512), ""},
		{strings.Repeat("x", 513), "id has 513 bytes (at most 512: it becomes part of file names and records)"},
		{strings.Repeat("é", 257), "id has 514 bytes (at most 512: it becomes part of file names and records)"},
		{"a\x00", "id contains a NUL character (U+0000)" + fix},
		{"a\nb", "id contains a line break (U+000A)" + fix},
		{"a\rb", "id contains a line break (U+000D)" + fix},
		{"a\u2028b", "id contains a line break (U+2028)" + fix},
		{"a\u0085b", "id contains a control character (U+0085)" + fix},
		{"a\x1b[2Jb", "id contains a control character (U+001B)" + fix},
		{"a\u202eb", "id contains a bidirectional control character (U+202E)" + fix},
		{"a\u2066b", "id contains a bidirectional control character (U+2066)" + fix},
		{"", "id must be a non-empty string"},
		{" ", "id must be a non-empty string"},
	}
	for _, tt := range tests {
		row := &source.Node{Kind: source.Map, Fields: []source.Field{{Name: "id", Value: &source.Node{Kind: source.String, Text: tt.id}}}}
		p, errs, _ := load(t, write(t, manifest, string(row.JSON())))
		want := tt.want
		if want != "" {
			want = "tasks.jsonl:1:7: " + want
		}
		if diff := cmp.Diff(want, errs); diff != "" {
			t.Errorf("%.20q: %s", tt.id, diff)
		}
		if tt.want == "" {
			if _, err := p.Find(context.Background(), tt.id); err != nil {
				t.Errorf("%.20q: %v", tt.id, err)
			}
		}
	}
}

func TestProblemsAreBounded(t *testing.T) {
	_, errs, _ := load(t, write(t, manifest, strings.Repeat("{}\n", 1000)))
	lines := strings.Split(errs, "\n")
	if len(lines) != 21 || lines[19] != "tasks.jsonl:20:1: the row has no id (give every task a unique id)" || lines[20] != "tasks.jsonl: reading stopped after 20 problems" {
		t.Errorf("%d lines: %s", len(lines), errs)
	}
}

func TestWarningsAreBounded(t *testing.T) {
	var b strings.Builder
	for i := range 150 {
		fmt.Fprintf(&b, "{\"id\":\"%d\",\"x%d\":1}\n", i, i)
	}
	p, errs, _ := load(t, write(t, manifest, b.String()))
	if errs != "" {
		t.Fatal(errs)
	}
	if n := len(p.Warnings); n != pack.MaxWarnings+1 || p.Warnings[n-1].Message != "50 more warnings are not shown" {
		t.Errorf("%d warnings, the last one %v", n, p.Warnings[n-1])
	}
}

// K03: a line that never ends costs no more memory than the cap.
func TestLongLine(t *testing.T) {
	const limit = 16 << 20
	row := func(n int) string { return `{"id":"a","input":{"x":"` + strings.Repeat("x", n-27) + `"}}` }
	if p, errs, _ := load(t, write(t, manifest, "{\"id\":\"b\"}\n"+row(limit)+"\n")); errs != "" || p.Count != 2 {
		t.Fatalf("a row of %d bytes: %s", len(row(limit)), errs)
	}
	loc := write(t, manifest, "{\"id\":\"b\"}\n{\"id\":\"")
	if err := os.Truncate(loc.Tasks, 1<<30); err != nil {
		t.Fatal(err)
	}
	var errs string
	spent := memtest.Allocated(func() { _, errs, _ = load(t, loc) })
	if want := "tasks.jsonl:2: the row is longer than 16777216 bytes"; errs != want {
		t.Errorf("got %s, want %s", errs, want)
	}
	if spent > 128<<20 {
		t.Errorf("%d MiB were allocated", spent>>20)
	}
}

// Both files must be regular ones, and a pipe must not block the loader.
func TestIrregularFiles(t *testing.T) {
	for _, name := range []string{"manifest.yaml", "tasks.jsonl"} {
		for kind, replace := range map[string]func(string) error{
			"a symbolic link": func(f string) error { return errors.Join(os.Rename(f, f+".real"), os.Symlink(f+".real", f)) },
			"a directory":     func(f string) error { return errors.Join(os.Remove(f), os.Mkdir(f, 0o755)) },
			"a special file":  func(f string) error { return errors.Join(os.Remove(f), syscall.Mkfifo(f, 0o644)) },
		} {
			loc := write(t, manifest, `{"id":"a"}`)
			if err := replace(filepath.Join(filepath.Dir(loc.Manifest), name)); err != nil {
				t.Fatal(err)
			}
			_, errs, _ := load(t, loc)
			if want := name + ": the file is " + kind + " (put a regular file there)"; errs != want {
				t.Errorf("got %s, want %s", errs, want)
			}
		}
		loc := write(t, manifest, `{"id":"a"}`)
		if err := os.Remove(filepath.Join(filepath.Dir(loc.Manifest), name)); err != nil {
			t.Fatal(err)
		}
		if _, errs, _ := load(t, loc); errs != name+": reading the file: no such file or directory" {
			t.Errorf("missing %s: %s", name, errs)
		}
	}
}

// The hook is called for valid rows in order, and its problems are reported.
func TestCheckHook(t *testing.T) {
	loc := write(t, manifest, "{\"id\":\"a\"}\n{}\n{\"id\":\"b\"}\n")
	var seen []string
	_, err := pack.Load(context.Background(), loc, nil, func(r pack.Row) (errs, warnings source.Problems) {
		seen = append(seen, r.ID)
		errs.Add(r.Pos, "", "bad %s", r.ID)
		return errs, nil
	})
	want := loc.Tasks + ":1:1: bad a\n" + loc.Tasks + ":2:1: the row has no id (give every task a unique id)\n" + loc.Tasks + ":3:1: bad b"
	if err == nil || err.Error() != want || strings.Join(seen, "") != "ab" {
		t.Errorf("seen %q, got %v", seen, err)
	}
	var p *source.Problem
	if !errors.As(err, &p) || p.Pos.Line != 1 {
		t.Error("the places cannot be taken out of the error")
	}
}

func TestCancel(t *testing.T) {
	ctx, cancel := context.WithCancelCause(context.Background())
	cause := errors.New("enough")
	loc := write(t, manifest, "{\"id\":\"a\"}\n{\"id\":\"b\"}\n")
	_, err := pack.Load(ctx, loc, nil, func(pack.Row) (errs, warnings source.Problems) {
		cancel(cause)
		return nil, nil
	})
	if !errors.Is(err, cause) {
		t.Errorf("got %v", err)
	}
	p, errs, _ := load(t, loc)
	if errs != "" {
		t.Fatal(errs)
	}
	for _, err := range p.Rows(ctx) {
		if !errors.Is(err, cause) {
			t.Errorf("Rows: got %v", err)
		}
	}
}
