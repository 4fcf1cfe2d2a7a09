package compile_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"

	"securebench/internal/pipeline/compile"
	"securebench/internal/pipeline/pack"
	"securebench/internal/task"
)

// L04: only the public lane reaches the agent. Unknown eval keys, metadata and
// values of an unknown family carry a canary here, and none of them shows in
// the agent's view, nor in what may be published.
func TestOnlyThePublicLaneIsVisible(t *testing.T) {
	const canary = "CANARY-7f3a"
	rows := []string{
		`{"id":"a","family":"browser_task","input":{"prompt":"p"},"eval":{"success_check":["` + canary + `"],"new_key":{"x":"` + canary + `"}},"metadata":{"answer":"` + canary + `"}}`,
		`{"id":"b","family":"unheard_of","input":{"x":1},"eval":{"y":"` + canary + `","tests":"` + canary + `"}}`,
		`{"id":"c","family":"code_completion","input":{"prompt":"p"},"eval":{"tests":{"source":"inline","code":"` + canary + `"},"reference_solution":"` + canary + `"}}`,
	}
	p, errs, _ := load(t, write(t, manifest, rows))
	if errs != "" {
		t.Fatal(errs)
	}
	for _, c := range tasks(t, p) {
		if s := fmt.Sprintf("%s %+v", c.Agent().Payload(), c.Agent()); strings.Contains(s, canary) {
			t.Errorf("%s: the agent sees %s", c.ID(), s)
		}
		if s := fmt.Sprintf("%s", c.Result().Payload()); strings.Contains(s, canary) {
			t.Errorf("%s: the result shows %s", c.ID(), s)
		}
		if s := fmt.Sprintf("%+v %#v %v", c, c, c.LogValue()); strings.Contains(s, canary) {
			t.Errorf("%s: printing the task shows %s", c.ID(), s)
		}
	}
}

// The public digest may be published, so it must depend on every public byte
// and on no other.
func TestPublicDigest(t *testing.T) {
	digest := func(row string, files ...string) string {
		t.Helper()
		p, errs, _ := load(t, write(t, manifest, []string{row}, append(files, "assets/a.txt", "hidden/h.txt")...))
		if errs != "" {
			t.Fatal(errs)
		}
		return p.Public
	}
	const base = `{"id":"a","family":"t","input":{"x":1,"y":"é"},"eval":{"z":1},"assets":[{"path":"a.txt"}],"metadata":{"m":1}}`
	want := digest(base)
	same := map[string]string{
		"again":    base,
		"eval":     strings.Replace(base, `"z":1`, `"z":2,"w":3`, 1),
		"metadata": strings.Replace(base, `"m":1`, `"m":2`, 1),
		"spaces":   strings.Replace(base, `"x":1,`, `"x" : 1 , `, 1),
		"escapes":  strings.Replace(base, `é`, `\u00e9`, 1),
	}
	for name, row := range same {
		if got := digest(row); got != want {
			t.Errorf("%s changed the digest", name)
		}
	}
	if digest(base, "hidden/more.txt") != want {
		t.Error("a hidden file changed the digest")
	}
	differ := map[string]string{
		"id":                strings.Replace(base, `"a"`, `"b"`, 1),
		"family":            strings.Replace(base, `"t"`, `"u"`, 1),
		"value":             strings.Replace(base, `"x":1`, `"x":2`, 1),
		"number's spelling": strings.Replace(base, `"x":1`, `"x":1.0`, 1),
		"beyond a float":    strings.Replace(base, `"x":1`, `"x":9007199254740993`, 1),
		"name":              strings.Replace(base, `"x":1`, `"v":1`, 1),
		"moved over":        strings.Replace(base, `"x":1,"y":"é"`, `"x":1,"y":"é","z":1`, 1),
		"asset's mount":     strings.Replace(base, `{"path":"a.txt"}`, `{"path":"a.txt","mount":"b.txt"}`, 1),
	}
	differ["moved over"] = strings.Replace(differ["moved over"], `"eval":{"z":1}`, `"eval":{}`, 1)
	seen := map[string]string{want: "base"}
	for name, row := range differ {
		got := digest(row)
		if other := seen[got]; other != "" {
			t.Errorf("%s has the digest of %s", name, other)
		}
		seen[got] = name
	}
	if digest(base, "assets/more.txt") == want {
		t.Error("a public file did not change the digest")
	}
}

// Task refuses what Check refuses, also for a row that never was checked.
func TestTaskChecks(t *testing.T) {
	loc := write(t, manifest, []string{`{"id":"a","family":"multiple_choice"}`})
	m, _, _, err := pack.ReadManifest(loc)
	if err != nil {
		t.Fatal(err)
	}
	p, err := pack.Load(context.Background(), loc, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	c := compile.New(m, registry())
	row, err := p.Find(context.Background(), "a")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Task(row); err == nil || !strings.Contains(err.Error(), "input.question is required") {
		t.Errorf("got %v", err)
	}
}

func TestLoadCallsEachGoodRow(t *testing.T) {
	var got []string
	loc := write(t, manifest, []string{`{"id":"a","family":"t"}`, `{"id":"b","family":"t"}`})
	if _, err := compile.Load(context.Background(), loc, registry(), func(r pack.Row, build func() (task.Task, error)) {
		tk, err := build()
		if err != nil || tk.ID() != r.ID {
			t.Errorf("built %q of %q: %v", tk.ID(), r.ID, err)
		}
		got = append(got, r.ID)
	}); err != nil {
		t.Fatal(err)
	}
	if s := strings.Join(got, " "); s != "a b" {
		t.Errorf("got %q", s)
	}
}

// A row that changes between loading and running is noticed.
func TestChangedRow(t *testing.T) {
	loc := write(t, manifest, []string{`{"id":"a","family":"t","eval":{"answer":1}}`})
	p, errs, _ := load(t, loc)
	if errs != "" {
		t.Fatal(errs)
	}
	if err := os.WriteFile(loc.Tasks, []byte(`{"id":"a","family":"t","eval":{"answer":2}}`), 0o644); err != nil {
		t.Fatal(err)
	}
	var changed *pack.ChangedError
	if _, err := p.Find(context.Background(), "a"); !errors.As(err, &changed) {
		t.Errorf("got %v", err)
	}
}

func TestEnvironmentOfATask(t *testing.T) {
	m := manifest + "defaults: {family: terminal_task, environment: {image: ' a:1 ', timeout_seconds: 1.5, workdir: /app}}\n"
	rows := []string{
		`{"id":"a","input":{"instructions":"i"},"eval":{"checker":{"command":"c"}},"environment":{"user":7,"materialize_workdir_from_image":true,"workdir":"/app/x/","capabilities":["SETUID","CHOWN","SETUID"]}}`,
	}
	p, errs, _ := load(t, write(t, m, rows))
	if errs != "" {
		t.Fatal(errs)
	}
	c := tasks(t, p)[0]
	want := task.Environment{Image: "a:1", Workdir: "/app/x", User: "7", Timeout: 1_500_000_000, MaterializeWorkdir: true,
		Capabilities: []string{"CHOWN", "SETUID"}}
	if got := c.Environment(); !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if c.Pack() != (task.Pack{ID: "p", Version: 1}) || c.Extraction().Mode != task.FromWorkspace || c.Agent().Instruction() == "" {
		t.Errorf("%v %v %q", c.Pack(), c.Extraction(), c.Agent().Instruction())
	}
}

// FuzzRow feeds whole lines to the loader and the compiler. Whatever compiles
// has each name once, unclassified values hidden, and its line in the task.
func FuzzRow(f *testing.F) {
	for _, s := range []string{
		`{"id":"a","family":"multiple_choice","input":{"question":"q","choices":["x","y"]},"eval":{"answer":1}}`,
		`{"id":"a","family":"short_answer","input":{"question":"q"},"eval":{"accepted_answers":[1e2],"tolerance":0}}`,
		`{"id":"a","family":"free_response","input":{"prompt":"q"},"eval":{"rubric":{"accepted_answers":["a"]}}}`,
		`{"id":"a","family":"code_completion","input":{"prompt":"q"},"eval":{"tests":{"source":"cases","command":["c"],"compare":"exact","cases":[{"expect":{"stdout":""}}]}}}`,
		`{"id":"a","family":"terminal_task","input":{"instructions":"q"},"eval":{"checker":{"source":"script","path":"x"}},"environment":{"workdir":"/app"}}`,
		`{"id":"a","family":"x","input":{"a":1},"eval":{"a":2},"assets":[{"path":"x"}]}`,
	} {
		f.Add([]byte(s))
	}
	c := compile.New(pack.Manifest{ID: "p"}, registry()) // once: schemas take long to compile
	f.Fuzz(func(t *testing.T, line []byte) {
		p, err := pack.Load(context.Background(), write(t, manifest, []string{string(line)}), nil, c.Check)
		if err != nil {
			return
		}
		for row, err := range p.Rows(context.Background()) {
			if err != nil {
				t.Fatal(err)
			}
			compiled, err := c.Task(row)
			if err != nil {
				t.Fatal(err)
			}
			checkTask(t, row, compiled, c)
		}
	})
}

func checkTask(t *testing.T, row pack.Row, compiled task.Task, c *compile.Compiler) {
	t.Helper()
	seen := map[string]bool{}
	f, _ := c.Family(row.Family)
	for _, r := range compiled.Result().Payload() {
		if seen[r.Name] {
			t.Fatalf("%q twice", r.Name)
		}
		seen[r.Name] = true
		if row.Eval.Get(r.Name) != nil && r.Lane != f.Lanes[r.Name] {
			t.Fatalf("%q is %s", r.Name, r.Lane)
		}
		if r.Value.Kind() == 0 || !r.Value.IsValid() {
			t.Fatalf("%q is not JSON: %s", r.Name, r.Value)
		}
	}
	if string(compiled.Row()) != string(row.Raw) {
		t.Fatal("the line was lost")
	}
}
