package main

import (
	"encoding/base64"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"securebench/internal/schemas/schematest"
	"securebench/internal/source"
)

// TestSchemasOfRuns: the published schemas accept what a run writes, and refuse it
// with a mistake.
func TestSchemasOfRuns(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	pack, out := textPack(t, dir), filepath.Join(dir, "out")
	refused := 0
	check := func(name, doc string) {
		n, err := source.ParseJSON(name, 1, []byte(doc))
		if err != nil {
			t.Fatal(err)
		}
		refused += schematest.Refuses(t, name, nil, n.Any())
	}
	read := func(name string) string {
		text, err := os.ReadFile(filepath.Join(out, name))
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	for _, agent := range []string{"oracle", "null"} {
		if res := securebench(t, nil, "run", pack, "--agent", agent, "-o", out, "-q", "--force"); res.code != exitDone {
			t.Fatalf("exit %d: %s", res.code, res.stderr)
		}
		check("run", read("run.json"))
		for line := range strings.Lines(read("candidates.jsonl")) {
			check("record", line)
		}
		envelope, err := source.ParseJSON("statement", 1, []byte(read("statement.dsse.json")))
		if err != nil {
			t.Fatal(err)
		}
		payload, err := base64.StdEncoding.DecodeString(envelope.Get("payload").Text)
		if err != nil {
			t.Fatal(err)
		}
		check("statement", string(payload))
	}
	if refused < 300 {
		t.Errorf("only %d mistakes were tried", refused)
	}
}
