package packs

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	"securebench/internal/agent/kinds"
	"securebench/internal/config"
	"securebench/internal/families"
	"securebench/internal/judge/provider"
	"securebench/internal/pipeline/compile"
	"securebench/internal/pipeline/pack"
	"securebench/internal/schemas"
	"securebench/internal/schemas/schematest"
	"securebench/internal/source"
)

// TestPublishedSchemas: what is below schema/ is what the program prints.
func TestPublishedSchemas(t *testing.T) {
	dir := filepath.Join("..", "..", "..", "schema")
	for _, name := range schemas.Names() {
		want, err := schemas.Text(name, families.All())
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(want), `\p{`) || strings.Contains(string(want), "(?") {
			t.Errorf("the schema %s has patterns that not every program reads", name)
		}
		got, err := os.ReadFile(filepath.Join(dir, schemaFile(name)))
		if err != nil || string(got) != string(want) {
			t.Errorf("schema/%s is not what \"securebench schema %s\" prints: run \"make schema\" (%v)", schemaFile(name), name, err)
		}
	}
	files, err := os.ReadDir(dir)
	if err != nil || len(files) != len(schemas.Names()) {
		t.Errorf("schema/ has %d files, want %d (%v)", len(files), len(schemas.Names()), err)
	}
}

// stranger is a key that nothing takes and that is near to none.
const stranger = "zzqqzzqqzz"

// known returns the keys that a decoder lists when it refuses, or warns about, the
// stranger.
func known(t *testing.T, decoder, problems string) []string {
	t.Helper()
	for line := range strings.Lines(problems) {
		if !strings.Contains(line, stranger) {
			continue
		}
		_, list, ok := strings.Cut(strings.TrimSpace(line), "(known: ")
		if !ok {
			t.Fatalf("%s does not say which keys it takes: %s", decoder, line)
		}
		return strings.Split(strings.TrimSuffix(list, ")"), ", ")
	}
	t.Fatalf("%s says nothing about an unknown key: it must be refused with Node.Check; it said:\n%s", decoder, problems)
	return nil
}

// object returns the schema's object at a place, behind references.
func object(t *testing.T, root *source.Node, place string) *source.Node {
	t.Helper()
	n := root
	for part := range strings.SplitSeq(place, ".") {
		if part == "(root)" {
			continue
		}
		next := n.Get(part)
		if next == nil {
			t.Fatalf("the schema has nothing at %s of %s", part, place)
		}
		n = next
	}
	return n
}

const testerHead = `{"schema_version":"0.2","run":{"id":"r","output_dir":"o"},"benchmark":{"manifest":"m","tasks":"t"},"harness":{"type":"command","config":{"command":"true"}}}`

// level is an object of a schema: its place there, and a document with the
// stranger in it.
type level struct {
	place  string
	schema *source.Node
	doc    string
}

// levels lists the objects of a schema that have keys of their own; doc is a
// document with %s where the object is.
func levels(n *source.Node, place, doc string) (out []level) {
	p := n.Get("properties")
	if p != nil {
		out = append(out, level{place, n, fmt.Sprintf(doc, `{"`+stranger+`":1}`)})
		for _, f := range p.Fields {
			out = append(out, levels(f.Value, place+".properties."+f.Name, fmt.Sprintf(doc, fmt.Sprintf(`{%q:%%s}`, f.Name)))...)
		}
	}
	if each := n.Get("additionalProperties"); each != nil && each.Kind == source.Map {
		out = append(out, levels(each, place+".additionalProperties", fmt.Sprintf(doc, `{"m":%s}`))...)
	}
	if each := n.Get("items"); each != nil {
		out = append(out, levels(each, place+".items", fmt.Sprintf(doc, `[%s]`))...)
	}
	return out
}

// TestTesterSchemaAgrees: the schema has the keys that the program takes, and no
// others, at every level of the tester YAML.
func TestTesterSchemaAgrees(t *testing.T) {
	root := schematest.Read(t, "tester", nil)
	all := levels(root, "(root)", "%s")
	for _, d := range root.Get("$defs").Fields {
		named := ""
		if d.Name == "agent" {
			named = `"name":"claude_code",`
		}
		all = append(all, levels(d.Value, "$defs."+d.Name, fmt.Sprintf(`{"harness":{"type":%q,%s"config":%%s}}`, d.Name, named))...)
	}
	if len(all) < 15 {
		t.Fatalf("only %d levels were found", len(all))
	}
	for _, l := range all {
		problems := testerProblems(t, merged(t, testerHead, l.doc))
		schematest.Keys(t, "tester", l.schema, l.place, "the tester YAML", known(t, l.place, problems))
	}
	const settings = "harness.config"
	types := object(t, root, "properties.harness.properties.type.enum")
	_, ps := kinds.Configured(config.Harness{Type: stranger})
	_, list, _ := strings.Cut(ps[0].Message, "one of: ")
	var have []string
	for _, it := range types.Items {
		have = append(have, it.Text)
		if root.Get("$defs").Get(it.Text) == nil {
			t.Errorf("internal/schemas/tester.json has no $defs.%s, the harness.config of that type, to which properties.harness.allOf refers", it.Text)
		}
	}
	slices.Sort(have)
	if want := strings.Split(list, ", "); !slices.Equal(have, want) {
		t.Errorf("%s.type: the program takes %v, and properties.harness.properties.type.enum in internal/schemas/tester.json has %v", settings, want, have)
	}
}

// testerProblems returns what is wrong with a tester YAML; JSON is also YAML.
func testerProblems(t *testing.T, doc string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "tester.yaml")
	write(t, file, doc)
	_, err := config.LoadTester(file, func(c *config.Tester) source.Problems {
		_, ps := kinds.Configured(c.Harness)
		_, more := provider.Parse(c.Judge)
		return append(ps, more...)
	})
	if err == nil {
		return ""
	}
	return err.Error()
}

func write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// merged lays the members of one JSON object over those of another, deep, except
// that a harness replaces a harness.
func merged(t *testing.T, base, change string) string {
	t.Helper()
	var a, b map[string]any
	for text, to := range map[string]*map[string]any{base: &a, change: &b} {
		if err := json.Unmarshal([]byte(text), to); err != nil {
			t.Fatal(text, err)
		}
	}
	for k, v := range b {
		old, isMap := a[k].(map[string]any)
		if m, ok := v.(map[string]any); ok && isMap && k != "harness" {
			maps.Copy(old, m)
			continue
		}
		a[k] = v
	}
	out, err := json.Marshal(a, json.Deterministic(true))
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

// packProblems returns what is wrong with a pack of one row, and the warnings.
func packProblems(t *testing.T, manifest, row string) string {
	t.Helper()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "manifest.yaml"), manifest)
	write(t, filepath.Join(dir, "tasks.jsonl"), row+"\n")
	write(t, filepath.Join(dir, "assets", "data.csv"), "1")
	loc, err := pack.Locate(dir)
	if err != nil {
		t.Fatal(err)
	}
	loaded, err := compile.Load(t.Context(), loc, families.All(), nil)
	if err != nil {
		return err.Error()
	}
	var out strings.Builder
	for _, w := range loaded.Warnings {
		fmt.Fprintln(&out, w)
	}
	return out.String()
}

const (
	manifestHead = `{"id":"p","version":1}`
	rowHead      = `{"id":"a","family":"short_answer","input":{"question":"2+2?"},"eval":{"accepted_answers":["4"]}}`
)

// TestPackSchemasAgree: the same for manifests and rows. What input and eval of
// a row contain needs no comparison: the published schema is made of the families'
// own.
func TestPackSchemasAgree(t *testing.T) {
	for _, l := range levels(schematest.Read(t, "manifest", nil), "(root)", "%s") {
		schematest.Keys(t, "manifest", l.schema, l.place, "the manifest", known(t, l.place, packProblems(t, merged(t, manifestHead, l.doc), rowHead)))
	}
	row := schematest.Read(t, schemas.Row, families.All())
	all := levels(row, "(root)", "%s")
	if len(all) != 3 {
		t.Fatalf("a row has %d levels, and the row, environment and an asset are known", len(all))
	}
	for _, l := range all {
		doc := strings.Replace(merged(t, rowHead, l.doc), `"assets":[{`, `"assets":[{"path":"data.csv",`, 1)
		schematest.Keys(t, schemas.Row, l.schema, l.place, "a row", known(t, l.place, packProblems(t, manifestHead, doc)))
	}
}
