package config_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"securebench/internal/config"
)

func loadEnv(t testing.TB, text string) ([]config.Var, string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "env")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	got, err := config.LoadEnv(path)
	if err != nil {
		return nil, strings.ReplaceAll(err.Error(), path, "env")
	}
	return got, ""
}

func TestLoadEnv(t *testing.T) {
	got, problem := loadEnv(t, "# comment\n\n A = 1 \r\nexport B=\"x # y $A \\n\"\nC='a=b'\nD=\nE=\"\"\nexport=7\nF=a\"b\"\n")
	want := []config.Var{{"A", "1"}, {"B", `x # y $A \n`}, {"C", "a=b"}, {"D", ""}, {"E", ""}, {"export", "7"}, {"F", `a"b"`}}
	if d := cmp.Diff(want, got); d != "" || problem != "" {
		t.Errorf("%s -want +got:\n%s", problem, d)
	}
}

func TestLoadEnvProblems(t *testing.T) {
	tests := map[string]string{
		"A=1\nsk-hunter2": "env:2: expected KEY=VALUE",
		"=hunter2":        "env:1: expected KEY=VALUE",
		"sk hunter2=x":    "env:1: expected KEY=VALUE, where KEY consists of letters, digits and _",
		"\ufeffA=1":       "env:1: expected KEY=VALUE, where KEY consists of letters, digits and _",
		"A=1\nA=hunter2":  "env:2: duplicate key A, first set in line 1",
		`A="hunter2`:      "env:1: the quoted value of A is not closed on the line",
		`A='`:             "env:1: the quoted value of A is not closed on the line",
		"A=hunter2\xff":   "env:1: the value of A is not valid text",
		"A=\x00":          "env:1: the value of A is not valid text",
		"x\ny\nA=1":       "env:1: expected KEY=VALUE\nenv:2: expected KEY=VALUE",
	}
	for in, want := range tests {
		got, problem := loadEnv(t, in)
		if problem != want || got != nil {
			t.Errorf("%q: %v, %q; want %q", in, got, problem, want)
		}
		if strings.Contains(problem, "hunter2") {
			t.Errorf("%q: the error holds a value", in)
		}
	}
}

func TestLoadEnvMissing(t *testing.T) {
	t.Chdir(t.TempDir())
	if got, err := config.LoadEnv(config.DefaultEnvFile); got != nil || err != nil {
		t.Errorf("a missing default file: %v, %v", got, err)
	}
	if _, err := config.LoadEnv("other.env"); err == nil {
		t.Error("a missing named file is not an error")
	}
}

func TestVarDoesNotPrintItsValue(t *testing.T) {
	v := config.Var{Name: "KEY", Value: "hunter2"}
	for _, s := range []string{fmt.Sprint(v), fmt.Sprintf("%+v %#v %s", v, v, []config.Var{v}), v.LogValue().String()} {
		if strings.Contains(s, "hunter2") || !strings.Contains(s, "KEY") {
			t.Errorf("printed as %q", s)
		}
	}
	if b, err := json.Marshal(v); err == nil {
		t.Errorf("marshalled as %s", b)
	}
}

func FuzzLoadEnv(f *testing.F) {
	f.Add("A=1\nexport B='x'\n")
	f.Add("A==\"\r\n")
	f.Fuzz(func(t *testing.T, text string) {
		got, _ := loadEnv(t, text)
		// What was read is written back and read again as the same.
		var b strings.Builder
		for _, v := range got {
			fmt.Fprintf(&b, "%s='%s'\n", v.Name, v.Value)
		}
		again, problem := loadEnv(t, b.String())
		if d := cmp.Diff(got, again); d != "" || problem != "" {
			t.Errorf("%q: %s -first +second:\n%s", text, problem, d)
		}
	})
}
