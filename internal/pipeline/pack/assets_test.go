package pack_test

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"securebench/internal/source"
)

// K01: paths of assets.
func TestAssetPaths(t *testing.T) {
	const fix = " (write a relative path with forward slashes)"
	tests := []struct{ path, want string }{
		{"a", ""}, {"d", ""}, {"d/e", ""}, {"d/", ""}, {"./a", ""}, {"...", ""},
		{"../../etc/passwd", `assets[0].path "../../etc/passwd" contains ".."` + fix},
		{"d/../a", `assets[0].path "d/../a" contains ".."` + fix},
		{"/etc/passwd", `assets[0].path "/etc/passwd" is absolute` + fix},
		{`d\\e`, `assets[0].path "d\\e" contains a backslash` + fix},
		{"", `assets[0].path must be a non-empty string`},
		{".", `assets[0].path "." names the folder itself` + fix},
		{`a\u0000`, `assets[0].path "a\x00" contains a control character` + fix},
		{"none", `assets[0].path "none" does not exist (put it below assets/ beside the manifest)`},
		{"a/b", `assets[0].path "a/b" does not exist (put it below assets/ beside the manifest)`},
	}
	for _, tt := range tests {
		row := `{"id":"x","assets":[{"path":"` + tt.path + `","mount":"m"}]}`
		_, errs, _ := load(t, write(t, manifest, row, "assets/a", "assets/d/e", "assets/.../f"))
		want := tt.want
		if want != "" {
			want = "tasks.jsonl:1:29: " + want
		}
		if diff := cmp.Diff(want, errs); diff != "" {
			t.Errorf("%s: %s", tt.path, diff)
		}
	}
}

// K01: links and special files, wherever they are, whatever they point to.
func TestAssetLinks(t *testing.T) {
	const fix = " (replace it by a copy: packs hold regular files and directories only)"
	link := func(to, at string) func(string) error {
		return func(dir string) error { return os.Symlink(to, filepath.Join(dir, at)) }
	}
	tests := []struct {
		name, path string
		change     func(dir string) error
		want       string
	}{
		{"none", "d", func(string) error { return nil }, ""},
		{"the asset", "l", link("a", "assets/l"), `tasks.jsonl:1:29: assets[0].path "l" reaches assets/l, which is a symbolic link` + fix},
		{"out of the pack", "l", link("/etc/passwd", "assets/l"), `tasks.jsonl:1:29: assets[0].path "l" reaches assets/l, which is a symbolic link` + fix},
		{"inside a folder", "d", link("../a", "assets/d/l"), `tasks.jsonl:1:29: assets[0].path "d" reaches assets/d/l, which is a symbolic link` + fix},
		{"on the way", "l/e", link("d", "assets/l"), `tasks.jsonl:1:29: assets[0].path "l/e" reaches assets/l, which is a symbolic link` + fix},
		{"dangling", "l", link("nowhere", "assets/l"), `tasks.jsonl:1:29: assets[0].path "l" reaches assets/l, which is a symbolic link` + fix},
		{"not referred to", "a", link("a", "assets/l"), "assets/l: the pack contains a symbolic link" + fix},
		{"in the evaluation tree", "a", link("h", "hidden/l"), "hidden/l: the pack contains a symbolic link" + fix},
		{"pipe", "p", func(dir string) error { return syscall.Mkfifo(filepath.Join(dir, "assets/p"), 0o644) },
			`tasks.jsonl:1:29: assets[0].path "p" reaches assets/p, which is a special file` + fix},
		{"root", "a", func(dir string) error {
			assets := filepath.Join(dir, "assets")
			if err := os.Rename(assets, assets+".real"); err != nil {
				return err
			}
			return os.Symlink("assets.real", assets)
		}, `tasks.jsonl:1:29: assets[0].path "a" reaches assets, which is a symbolic link` + fix},
		{"evaluation root", "a", func(dir string) error {
			hidden := filepath.Join(dir, "hidden")
			if err := os.RemoveAll(hidden); err != nil {
				return err
			}
			return os.Symlink("/etc", hidden)
		}, "hidden: the pack contains a symbolic link" + fix},
		{"root is a file", "a", func(dir string) error {
			assets := filepath.Join(dir, "assets")
			if err := os.RemoveAll(assets); err != nil {
				return err
			}
			return os.WriteFile(assets, nil, 0o644)
		}, `tasks.jsonl:1:29: assets[0].path "a" reaches assets, which is a regular file` + fix},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			loc := write(t, manifest, `{"id":"x","assets":[{"path":"`+tt.path+`","mount":"m"}]}`, "assets/a", "assets/d/e", "hidden/h")
			if err := tt.change(filepath.Dir(loc.Manifest)); err != nil {
				t.Fatal(err)
			}
			_, errs, _ := load(t, loc)
			if diff := cmp.Diff(tt.want, errs); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// A root named in the manifest that is a link is reported at its place there.
func TestLinkedRootInManifest(t *testing.T) {
	loc := write(t, manifest+"asset_roots:\n  eval: x/y\n", `{"id":"a"}`)
	if err := os.Symlink("/etc", filepath.Join(filepath.Dir(loc.Manifest), "x")); err != nil {
		t.Fatal(err)
	}
	_, errs, _ := load(t, loc)
	want := "manifest.yaml:5:9: the pack contains a symbolic link (replace it by a copy: packs hold regular files and directories only)"
	if diff := cmp.Diff(want, errs); diff != "" {
		t.Error(diff)
	}
}

// A pack whose folder is reached through a link is accepted.
func TestPackBehindLink(t *testing.T) {
	loc := write(t, manifest, `{"id":"a","assets":[{"path":"a"}]}`, "assets/a")
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(filepath.Dir(loc.Manifest), link); err != nil {
		t.Fatal(err)
	}
	loc.Manifest, loc.Tasks = filepath.Join(link, "manifest.yaml"), filepath.Join(link, "tasks.jsonl")
	if _, errs, _ := load(t, loc); errs != "" {
		t.Error(errs)
	}
}

// A public asset must not overlap the evaluation files.
func TestRootsThatOverlap(t *testing.T) {
	const fix = " (keep public and evaluation files apart)"
	tests := []struct{ public, eval, path, want string }{
		{"data", "data/hidden", "open", ""},
		{"data", "data/hidden", "hidden", `assets[0].path "hidden" reaches into the evaluation files in data/hidden` + fix},
		{"data", "data/hidden", "hidden/h", `assets[0].path "hidden/h" reaches into the evaluation files in data/hidden` + fix},
		{"data", "data/hidden/deep", "hidden", `assets[0].path "hidden" reaches into the evaluation files in data/hidden/deep` + fix},
		{"data", "data", "open", `assets[0].path "open" reaches into the evaluation files in data` + fix},
		{"data/hidden", "data", "h", `assets[0].path "h" reaches into the evaluation files in data` + fix},
	}
	for _, tt := range tests {
		m := manifest + "asset_roots: {public: " + tt.public + ", eval: " + tt.eval + "}\n"
		_, errs, _ := load(t, write(t, m, `{"id":"x","assets":[{"path":"`+tt.path+`"}]}`, "data/open", "data/hidden/h", "data/hidden/deep/x"))
		want := tt.want
		if want != "" {
			want = "tasks.jsonl:1:29: " + want
		}
		if diff := cmp.Diff(want, errs); diff != "" {
			t.Errorf("%+v: %s", tt, diff)
		}
	}
}

// K02: mounts over each other, over securebench's files, over verifiers'
// paths.
func TestMounts(t *testing.T) {
	reserved := func(mount, over string) string {
		return `assets[0].mount "` + mount + `" lies over the reserved path ` + over + " (choose another mount)"
	}
	const alike = " (spell them alike, or choose another mount)"
	const apart = " (give each asset its own mount)"
	tests := []struct{ mounts, want string }{
		{"x", ""}, {"x y", ""}, {"x/a x/b", ""}, {"x xy", ""}, {"evaluate", ""}, {"Eval", ""}, {"task", ""}, {"securebench/public/other.json", ""},
		{"eval", reserved("eval", "eval")},
		{"eval/x", reserved("eval/x", "eval")},
		{"./eval//x", reserved("eval/x", "eval")},
		{"ground_truth", reserved("ground_truth", "ground_truth")},
		{"scorer/s.py", reserved("scorer/s.py", "scorer")},
		{"task/hidden.json", reserved("task/hidden.json", "task/hidden.json")},
		{"output/score.json", reserved("output/score.json", "output/score.json")},
		{"securebench/evaluation_inputs/x", reserved("securebench/evaluation_inputs/x", "securebench/evaluation_inputs")},
		{"securebench/evaluator", reserved("securebench/evaluator", "securebench/evaluator")},
		{"securebench", reserved("securebench", "securebench/evaluation_inputs")},
		{"securebench/public/q.json", `assets[0] is mounted over securebench/public/q.json, which holds input.q (choose another mount)`},
		{"securebench/public", `assets[0] is mounted over securebench/public/q.json, which holds input.q (choose another mount)`},
		{"x x", "assets[1] is mounted at x, over assets[0] at x" + apart},
		{"x x/", "assets[1] is mounted at x, over assets[0] at x" + apart},
		{"x x/y", "assets[1] is mounted at x/y, over assets[0] at x" + apart},
		{"data Data", "assets[1] is mounted at Data, which is data on some systems" + alike},
		{"data/a Data/b", "assets[1] is mounted at Data, which is data on some systems" + alike},
		{"caf\u00e9 cafe\u0301", "assets[1] is mounted at cafe\u0301, which is caf\u00e9 on some systems" + alike},
		{"SecureBench/x", "assets[0] is mounted at SecureBench, which is securebench on some systems" + alike},
		{"x/y z x", "assets[2] is mounted at x, over assets[0] at x/y" + apart},
	}
	for _, tt := range tests {
		var assets []string
		for mount := range strings.FieldsSeq(tt.mounts) {
			assets = append(assets, `{"path":"a","mount":"`+mount+`"}`)
		}
		row := `{"id":"x","input":{"q":1},"assets":[` + strings.Join(assets, ",") + `]}`
		_, errs, _ := load(t, write(t, manifest, row, "assets/a"))
		if _, message, ok := strings.Cut(errs, ": "); ok {
			errs = message
		}
		if diff := cmp.Diff(tt.want, errs); diff != "" {
			t.Errorf("%s: %s", tt.mounts, diff)
		}
	}
}

// Whatever path and mount are accepted stay inside their folders.
func TestAcceptedPathsAreLocal(t *testing.T) {
	loc := write(t, manifest, "", "assets/a", "assets/d/e")
	part := rapid.SampledFrom([]string{"a", "d", "e", "..", ".", "", "/", `\`, "eval", "securebench", "evaluator", "~", "\u202e", "C:"})
	accepted := 0
	rapid.Check(t, func(rt *rapid.T) {
		join := rapid.Map(rapid.SliceOfN(part, 1, 4), func(parts []string) string { return strings.Join(parts, "/") })
		text := func(label string, valid ...string) *source.Node {
			return &source.Node{Kind: source.String, Text: rapid.OneOf(rapid.SampledFrom(valid), join).Draw(rt, label)}
		}
		asset := &source.Node{Kind: source.Map, Fields: []source.Field{{Name: "path", Value: text("path", "a", "d/e")}, {Name: "mount", Value: text("mount", "a", "x/y")}}}
		put(t, filepath.Dir(loc.Tasks), "tasks.jsonl", `{"id":"x","assets":[`+string(asset.JSON())+`]}`)
		p, errs, _ := load(t, loc)
		if errs != "" {
			return
		}
		rows, err := collect(p)
		if err != nil {
			rt.Fatal(err)
		}
		a := rows[0].Assets[0]
		if !filepath.IsLocal(a.Path) || !filepath.IsLocal(a.Mount) || strings.HasPrefix(a.Mount+"/", "eval/") ||
			strings.HasPrefix(a.Mount, "securebench/evaluator") {
			rt.Fatalf("accepted %+v", a)
		}
		accepted++
	})
	if accepted == 0 {
		t.Error("nothing was accepted, so nothing was tested")
	}
}
