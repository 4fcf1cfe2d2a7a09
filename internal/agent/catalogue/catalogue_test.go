package catalogue

import (
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"securebench/internal/agent/agenttest"
	"securebench/internal/agent/debian"
)

// a is a description that is as short as can be.
const a = `name: a
about: an agent
program: {npm: a, files: [{from: ./}], start: bin/a}
providers: [{api: openai_responses, base_url: "https://a.example", keys: [A_KEY]}]
command: ["{program}", "{prompt}"]
`

// TestBuiltin: the descriptions of this program can be read, and each has a release that
// tests run.
func TestBuiltin(t *testing.T) {
	t.Parallel()
	all := Builtin()
	if len(all) < 3 || !slices.IsSorted(Names(all)) {
		t.Fatalf("agents: %q", Names(all))
	}
	for _, a := range all {
		if agenttest.Pinned(a.Name) == "" {
			t.Errorf("agenttest/versions.txt has no release of %s", a.Name)
		}
		if len(a.Version) == 0 || !strings.HasPrefix(a.Digest(), "sha256:") {
			t.Errorf("%s: %+v", a.Name, a)
		}
	}
	if a, ok := Find("claude-code"); !ok || a.Name != "claude_code" {
		t.Errorf("claude-code: %q", a.Name)
	}
}

// TestBadDescriptions: errors say what is wrong and where.
func TestBadDescriptions(t *testing.T) {
	t.Parallel()
	if _, err := Parse("x/a.yaml", []byte(a)); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ old, new, want string }{
		{"name: a", "name: b", `a.yaml:1:1: name: "b" is not the name of the file`},
		{"about: an agent", "about: 3", "a.yaml:2:8: /about: "},
		{"about", "abot", "a.yaml:2:"},
		{"about: an agent", `about: "a\nb"`, "about: want one line"},
		{"npm: a,", "", "program: npm, pypi: want a package"},
		{"npm: a,", "npm: a, runtime: perl,", "program: runtime: want one of node@VERSION, python@"},
		{"start: bin/a", "start: ../a", "program: start: want the path"},
		{"from: ./", "from: ./, to: ../x", "program: files: \"../x\" is not a path"},
		{"openai_responses", "telepathy", "providers[0]: api: want one of "},
		{"https://a.example", "http://a.example", "providers[0]: base_url: want"},
		{"keys: [A_KEY]", "keys: [a-key]", "providers[0]: keys: \"a-key\""},
		{"keys: [A_KEY]", "keys: [A_KEY], words: {model: x}", "providers[0]: words: \"model\" cannot be a name"},
		{"{prompt}", "{promt}", "the placeholder {promt} is not known"},
		{`["{program}", "{prompt}"]`, "[{if: rain, then: [x]}]", `if: "rain" is not known`},
		{`["{program}", "{prompt}"]`, "[{if: external_tools, do: [x]}]", "a.yaml:5:"},
		{"command:", "acp: {command: []}\ncommand:", "acp: command: there is none"},
		{"command: [", "acps: [", "a.yaml:5:"},
		{"command:", "env: [PATH=/x]\ncommand:", `env: "PATH=/x": want NAME=VALUE`},
		{"command:", "env: [https_proxy=x]\ncommand:", `env: "https_proxy=x": want NAME=VALUE`},
		{"command:", "files: [{path: '{home}/../x', text: y}]\ncommand:", "does not lie below {home}"},
		{"command:", "output: {events: [{where: {type: x}, message: a, call: [b]}]}\ncommand:", "events[0]: want exactly one"},
		{"command:", "work: {last: x, files: true}\ncommand:", "work: want last or files"},
		{"command:", "output: {reader: mine}\ncommand:", "reader: want codex or claude_code"},
	} {
		_, err := Parse("x/a.yaml", []byte(strings.Replace(a, c.old, c.new, 1)))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s for %s: %v, want %q", c.new, c.old, err, c.want)
		}
	}
}

// TestLoad: an operator's descriptions are beside those of this program, and cannot take
// the place of one.
func TestLoad(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "mine [1]") // which is no pattern
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	getenv := func(name string) string { return map[string]string{"SECUREBENCH_AGENTS": dir}[name] }
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("a.yaml", a)
	got, err := Lookup(getenv, "a")
	if err != nil || !got.Own || string(got.Text()) != a {
		t.Errorf("%+v, %v", got, err)
	}
	if _, err := Lookup(getenv, "b"); err == nil || !strings.Contains(err.Error(), "there is no agent b, only a, aider, claude_code, codex") {
		t.Errorf("%v", err)
	}
	for _, taken := range []string{"codex", "claude-code", "node", "python", "loader"} {
		write(taken+".yaml", strings.Replace(a, "name: a", "name: "+taken, 1))
		if _, err := Load(getenv); err == nil || !strings.Contains(err.Error(), "there is an agent "+taken+" already") {
			t.Errorf("%s: %v", taken, err)
		}
		os.Remove(filepath.Join(dir, taken+".yaml"))
	}
}

// TestPlace: files go where the description says, and nothing else goes anywhere.
func TestPlace(t *testing.T) {
	t.Parallel()
	p := Package{NPM: "m", Build: "m-{arch}{libc}", BuildVersion: "{version}-{arch}",
		Files: []Placement{{From: "v/*/", Except: []string{"voice/"}}, {From: "LICENSE", To: "doc/LICENSE"}, {From: "lib/", To: "l"}}}
	for name, want := range map[string]string{"v/x/bin/a": "bin/a", "v/x/voice/a": "", "v/x": "", "LICENSE": "doc/LICENSE", "LICENSES": "",
		"lib/a/b": "l/a/b", "lib": "", "README": "", "v//x": "x"} {
		if got := p.Place(name); got != want {
			t.Errorf("%s goes to %q, want %q", name, got, want)
		}
	}
	if name, v := p.BuildOf(Variant{"x64", true}, "1.2"); name != "m-x64-musl" || v != "1.2-x64" || !p.ByLibc() {
		t.Errorf("%s %s", name, v)
	}
}

// TestExpand: what a placeholder stands for is not looked at again.
func TestExpand(t *testing.T) {
	t.Parallel()
	v := Values{Words: map[string]string{"prompt": "write {model} and {", "model": "m"}, Lists: map[string][]string{"args": {"a", "{model}"}},
		Holds: map[string]bool{ExternalTools: true}}
	got := v.Expand([]Item{{Then: []string{"{prompt}", "x{model}{other}", "{args}"}}, {If: ExternalTools, Then: []string{"yes"}},
		{If: "not " + ExternalTools, Then: []string{"no"}}, {If: "not " + NamedModel, Then: []string{"alias"}}})
	if want := []string{"write {model} and {", "xm{other}", "a", "{model}", "yes", "alias"}; !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
	text, err := v.JSON([]byte(`{"{model}": ["{prompt}", 3, {"b": true}]}`))
	if want := `{"m":["write {model} and {",3,{"b":true}]}`; text != want || err != nil {
		t.Errorf("got %s, %v", text, err)
	}
}

func FuzzParse(f *testing.F) {
	for _, b := range Builtin() {
		f.Add(b.Text())
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		got, err := Parse("a.yaml", text)
		if err != nil {
			return
		}
		if got.Name != "a" || len(got.Command) == 0 || len(got.Providers) == 0 {
			t.Errorf("%+v", got)
		}
		Values{}.Expand(got.Command)
		got.Program.Place("x/y/z")
	})
}

// TestRuntimes: each program of Debian is the same packages for both processors, all of them pinned,
// and a version of three numbers, by which wheels are chosen.
func TestRuntimes(t *testing.T) {
	t.Parallel()
	names := func(all []debian.Package) (out []string) {
		for _, p := range all {
			name, _, _ := strings.Cut(path.Base(p.File), "_")
			out = append(out, name)
			if !regexp.MustCompile(`^pool/main/[^ ]+\.deb$`).MatchString(p.File) || !regexp.MustCompile(`^[0-9a-f]{64}$`).MatchString(p.SHA256) {
				t.Errorf("%+v is not pinned", p)
			}
		}
		return out
	}
	found := 0
	for _, r := range Runtimes() {
		if r.Debian == nil {
			continue
		}
		found++
		amd64, arm64 := names(r.Debian["amd64"]), names(r.Debian["arm64"])
		if !slices.Equal(amd64, arm64) || !slices.Contains(amd64, "libc6") || r.Glibc == 0 {
			t.Errorf("%s %s is made of %q and %q", r.Name, r.Exact, amd64, arm64)
		}
		if !regexp.MustCompile(`^[0-9]+\.[0-9]+\.[0-9]+$`).MatchString(r.Exact) {
			t.Errorf("%s has the version %s", r.Name, r.Exact)
		}
	}
	if found == 0 {
		t.Error("there is none")
	}
}
