package programs

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"securebench/internal/agent/catalogue"
	"securebench/internal/fault"
)

func amd64() Platform { return Platform{OS: "linux", Arch: "amd64"} }

func open(t *testing.T, dir, registry string) *Cache {
	t.Helper()
	c, err := OpenCache(dir, env(registry))
	if err != nil {
		t.Fatal(err)
	}
	c.pause = time.Millisecond
	t.Cleanup(func() { c.Close() })
	return c
}

// resolve returns the release and what was said.
func resolve(c *Cache, p Program, version string, on Platform) (Release, string, error) {
	var said []string
	r, err := c.Resolve(context.Background(), of(p), version, on, func(s string) { said = append(said, s) })
	return r, strings.Join(said, "\n"), err
}

// content is a release as a list of what its tar stream has.
func content(t *testing.T, c *Cache, r Release) string {
	t.Helper()
	var b bytes.Buffer
	if err := c.WriteTar(r, &b); err != nil {
		t.Fatal(err)
	}
	var out []string
	for in := tar.NewReader(&b); ; {
		h, err := in.Next()
		if errors.Is(err, io.EOF) {
			return strings.Join(out, " ")
		}
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(in)
		if err != nil || h.Uid != 0 || h.Gid != 0 || h.Mode&0o444 != 0o444 || !h.ModTime.Equal(h.ModTime.Truncate(1<<62)) && h.ModTime.Unix() != 0 {
			t.Errorf("%+v, %v", h, err)
		}
		out = append(out, fmt.Sprintf("%s:%o:%s", h.Name, h.Mode, text))
	}
}

// TestResolve: a build of each program has one layout, whatever the vendor's is.
func TestResolve(t *testing.T) {
	t.Parallel()
	reg, dir := standard(t), t.TempDir()
	c := open(t, dir, reg.URL)
	musl := Platform{OS: "linux", Arch: "amd64", Musl: true}
	for _, row := range []struct {
		p             Program
		version, want string
		on            Platform
	}{
		{Codex, "latest", "bin/:755: bin/codex:755:codex 0.2.0 bin/codex-code-mode-host:755:host codex-package.json:644:{} codex-path/:755: codex-path/rg:755:rg codex-resources/:755: codex-resources/bwrap:755:bwrap", amd64()},
		{Codex, "0.1.0", "codex 0.1.0", musl}, // one build for every C library
		{ClaudeCode, "latest", "bin/:755: bin/claude:755:glibc", amd64()},
		{ClaudeCode, "2.0.0", "LICENSE.md:644:x bin/:755: bin/claude:755:musl", musl},
	} {
		r, said, err := resolve(c, row.p, row.version, row.on)
		if err != nil || !strings.Contains(said, "fetching "+string(row.p)) {
			t.Fatalf("%s %s: %v\n%s", row.p, row.version, err, said)
		}
		if got := content(t, c, r); !strings.Contains(got, row.want) {
			t.Errorf("%s %s: %s", row.p, row.version, got)
		}
		if !regexp.MustCompile(`^[a-z0-9]+([._-][a-z0-9]+)*$`).MatchString(r.Key()) || !strings.HasPrefix(r.Key(), KeyPrefix(r.Program, r.Version)) || !strings.HasPrefix(r.Integrity, "sha512-") {
			t.Errorf("%+v has the key %s", r, r.Key())
		}
		again, said, err := resolve(c, row.p, r.Version, row.on)
		if err != nil || again != r || said != "" {
			t.Errorf("from the cache: %+v, %v, %s", again, err, said)
		}
		// On another machine the same package has the same digest.
		other, _, err := resolve(open(t, t.TempDir(), reg.URL), row.p, r.Version, row.on)
		if err != nil || other != r {
			t.Errorf("elsewhere: %+v, %v", other, err)
		}
	}
	entries, err := c.List()
	if err != nil || len(entries) != 4 || entries[0].Title() != "claude_code 2.0.0 linux/amd64" || entries[0].Bytes != 5 {
		t.Errorf("the list: %+v, %v", entries, err)
	}
}

// TestLayout: a release in the cache that another description laid out is fetched again,
// and a file that can be executed though its package does not say so is one.
func TestLayout(t *testing.T) {
	t.Parallel()
	reg, dir := standard(t), t.TempDir()
	c := open(t, dir, reg.URL)
	first, other := of(Codex), of(Codex)
	other.Executable = []string{"codex-package.json", "not/there"}
	resolve := func(p catalogue.Package) (string, string) {
		t.Helper()
		var said strings.Builder
		r, err := c.Resolve(t.Context(), p, "0.1.0", amd64(), func(line string) { said.WriteString(line) })
		if err != nil {
			t.Fatal(err)
		}
		return content(t, c, r), said.String()
	}
	if got, _ := resolve(first); !strings.Contains(got, "codex-package.json:644") {
		t.Error(got)
	}
	for _, p := range []catalogue.Package{other, first, other} {
		want := map[bool]string{true: "codex-package.json:755", false: "codex-package.json:644"}[len(p.Executable) > 0]
		if got, said := resolve(p); !strings.Contains(got, want) || !strings.Contains(said, "another description of it laid it out") {
			t.Errorf("%s\n%s", got, said)
		}
		if _, said := resolve(p); said != "" {
			t.Errorf("it is fetched twice: %s", said)
		}
	}
}

// TestOffline: what is in the cache needs no registry, and what needs one says
// what does not.
func TestOffline(t *testing.T) {
	t.Parallel()
	reg, dir := standard(t), t.TempDir()
	r, _, err := resolve(open(t, dir, reg.URL), Codex, "0.1.0", amd64())
	if err != nil {
		t.Fatal(err)
	}
	reg.Close()
	c := open(t, dir, reg.URL)
	if again, said, err := resolve(c, Codex, "0.1.0", amd64()); err != nil || again != r || said != "" {
		t.Errorf("%+v, %v, %s", again, err, said)
	}
	_, _, err = resolve(c, Codex, "latest", amd64())
	if fault.KindOf(err) != fault.Infrastructure || !strings.Contains(err.Error(), "without a registry, name a version of the cache: 0.1.0") {
		t.Errorf("latest: %v", err)
	}
	_, _, err = resolve(c, ClaudeCode, "2.0.0", amd64())
	if fault.KindOf(err) != fault.Infrastructure || !strings.Contains(err.Error(), "check the network and the npm client's settings") {
		t.Errorf("not in the cache: %v", err)
	}
}

func TestErrors(t *testing.T) {
	t.Parallel()
	reg := standard(t)
	reg.add(t, "@openai/codex", "0.9.0-linux-x64", map[string]string{"vendor/t/codex/codex*": "an older layout"})
	reg.add(t, "@openai/codex", "0.9.1-linux-x64", map[string]string{"vendor/t/bin/codex": "cannot be executed"})
	c := open(t, t.TempDir(), reg.URL)
	for _, row := range []struct {
		p       Program
		version string
		on      Platform
		kind    fault.Kind
		say     string
	}{
		{Codex, "9.9.9", amd64(), fault.Config, "codex has no version 9.9.9; the newest is 0.2.0"},
		{Codex, "0.3.0-alpha.1", amd64(), fault.Config, "has no build for linux/amd64"},
		{Codex, "0.2.0", Platform{OS: "linux", Arch: "arm64"}, fault.Config, "has no build for linux/arm64"},
		{ClaudeCode, "1.0.0", amd64(), fault.Config, "claude_code 1.0.0 has no build for linux/amd64"},
		{ClaudeCode, "3.0.0", amd64(), fault.Config, "has no version 3.0.0; the newest is 2.0.0"},
		{Codex, "beta", amd64(), fault.Config, "codex has no version beta"},
		{Codex, "^1.0", amd64(), fault.Config, "is not a version of codex"},
		{Codex, "../x", amd64(), fault.Config, "is not a version of codex"},
		{Codex, "1.2.3/../../x", amd64(), fault.Config, "is not a version of codex"},
		{Codex, "latest", Platform{OS: "darwin", Arch: "arm64"}, fault.Config, "there are no agents for darwin/arm64"},
		{Codex, "0.9.0", amd64(), fault.Integrity, "its layout is not known"},
		{Codex, "0.9.1", amd64(), fault.Integrity, "its layout is not known"},
	} {
		if _, _, err := resolve(c, row.p, row.version, row.on); fault.KindOf(err) != row.kind || err == nil || !strings.Contains(err.Error(), row.say) {
			t.Errorf("%s %s: %v, want %q", row.p, row.version, err, row.say)
		}
	}
	if left, err := filepath.Glob(filepath.Join(c.root.Name(), ".new-*")); err != nil || len(left) > 0 {
		t.Errorf("left behind: %q, %v", left, err)
	}
}

// TestTamperedPackage: a package that something on the way changed is not kept.
func TestTamperedPackage(t *testing.T) {
	t.Parallel()
	reg := standard(t)
	evil := tarball(t, codexFiles("evil"))
	c := open(t, t.TempDir(), reg.URL)
	reg.set(func([]byte) []byte { return evil }, nil)
	if _, _, err := resolve(c, Codex, "0.1.0", amd64()); fault.KindOf(err) != fault.Integrity || !strings.Contains(err.Error(), "nothing was kept") {
		t.Errorf("got %v", err)
	}
	if entries, err := c.List(); err != nil || len(entries) > 0 {
		t.Errorf("kept: %v, %v", entries, err)
	}
	reg.set(nil, nil)
	if _, _, err := resolve(c, Codex, "0.1.0", amd64()); err != nil {
		t.Errorf("the honest twin: %v", err)
	}
}

// TestDamagedCache: whatever is changed in the cache is noticed before it is used.
// Where a registry answers, the release is fetched again; a stream that has begun
// ends with an error.
func TestDamagedCache(t *testing.T) {
	t.Parallel()
	reg := standard(t)
	for name, damage := range map[string]func(tree string) error{
		"content":            func(tree string) error { return os.WriteFile(tree+"/bin/codex", []byte("kodex 0.1.0"), 0o755) },
		"length":             func(tree string) error { return os.Truncate(tree+"/bin/codex", 3) },
		"a file more":        func(tree string) error { return os.WriteFile(tree+"/bin/git", nil, 0o755) },
		"a folder more":      func(tree string) error { return os.Mkdir(tree+"/lib", 0o755) },
		"a file less":        func(tree string) error { return os.Remove(tree + "/codex-path/rg") },
		"executable no more": func(tree string) error { return os.Chmod(tree+"/bin/codex", 0o644) },
		"executable now":     func(tree string) error { return os.Chmod(tree+"/codex-package.json", 0o755) },
		"renamed":            func(tree string) error { return os.Rename(tree+"/bin/codex-code-mode-host", tree+"/bin/host") },
		"a link": func(tree string) error {
			return errors.Join(os.Rename(tree+"/bin/codex", tree+"/../codex"), os.Symlink("../../codex", tree+"/bin/codex"))
		},
		"a link as folder": func(tree string) error { return errors.Join(os.Rename(tree, tree+"2"), os.Symlink("tree2", tree)) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			c := open(t, dir, reg.URL)
			r, _, err := resolve(c, Codex, "0.1.0", amd64())
			if err != nil {
				t.Fatal(err)
			}
			if err := damage(filepath.Join(dir, "codex_0.1.0_linux-amd64", "tree")); err != nil {
				t.Fatal(err)
			}
			if name != "a link as folder" { // which has the right content at this moment
				if err := c.WriteTar(r, io.Discard); err == nil {
					t.Error("the damaged tree was written")
				}
				if _, _, err := resolve(open(t, dir, "http://127.0.0.1:1"), Codex, "0.1.0", amd64()); err == nil {
					t.Error("without a registry, the damaged tree is used")
				}
			}
			again, said, err := resolve(c, Codex, "0.1.0", amd64())
			if err != nil || again != r || name != "a link as folder" && !strings.Contains(said, "damaged: fetching it again") {
				t.Errorf("%+v, %v, %s", again, err, said)
			}
			if got := content(t, c, again); !strings.Contains(got, "bin/codex:755:codex 0.1.0") {
				t.Errorf("now it is %s", got)
			}
		})
	}
}

// TestDamagedDescription: so is a damaged description.
func TestDamagedDescription(t *testing.T) {
	t.Parallel()
	reg := standard(t)
	dir := t.TempDir()
	c := open(t, dir, reg.URL)
	if _, _, err := resolve(c, Codex, "0.1.0", amd64()); err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"", "{}", `{"program":"codex"}`, strings.Repeat("x", 1<<20)} {
		if err := os.WriteFile(filepath.Join(dir, "codex_0.1.0_linux-amd64", "release.json"), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if _, said, err := resolve(c, Codex, "0.1.0", amd64()); err != nil || !strings.Contains(said, "damaged") {
			t.Errorf("%.20q: %v, %s", text, err, said)
		}
	}
}

func TestRemove(t *testing.T) {
	t.Parallel()
	reg, dir := standard(t), t.TempDir()
	c := open(t, dir, reg.URL)
	for _, v := range []string{"0.1.0", "0.2.0"} {
		if _, _, err := resolve(c, Codex, v, amd64()); err != nil {
			t.Fatal(err)
		}
	}
	if _, _, err := resolve(c, ClaudeCode, "2.0.0", amd64()); err != nil {
		t.Fatal(err)
	}
	removed := func(p Program, version string) (out []string) {
		t.Helper()
		entries, err := c.Remove(context.Background(), p, version)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			out = append(out, string(e.Program)+"@"+e.Version)
		}
		return out
	}
	if got := removed(Codex, "0.1.0"); !slices.Equal(got, []string{"codex@0.1.0"}) {
		t.Errorf("one: %q", got)
	}
	if got := removed(Codex, "0.1.0"); got != nil {
		t.Errorf("again: %q", got)
	}
	if got := removed("", ""); !slices.Equal(got, []string{"claude_code@2.0.0", "codex@0.2.0"}) {
		t.Errorf("all: %q", got)
	}
	if left, err := filepath.Glob(filepath.Join(dir, "*/*")); err != nil || len(left) > 0 {
		t.Errorf("left behind: %q, %v", left, err)
	}
}

// TestCacheOfOthers: a folder into which others can write is no cache.
func TestCacheOfOthers(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for mode, good := range map[os.FileMode]bool{0o700: true, 0o755: true, 0o775: false, 0o777: false} {
		if err := os.Chmod(dir, mode); err != nil {
			t.Fatal(err)
		}
		c, err := OpenCache("", func(name string) string { return map[string]string{"SECUREBENCH_AGENT_CACHE": dir}[name] })
		if good != (err == nil) || !good && fault.KindOf(err) != fault.Refused {
			t.Errorf("%o: %v", mode, err)
		}
		if err == nil {
			c.Close()
		}
	}
	if os.Geteuid() == 0 {
		if err := errors.Join(os.Chmod(dir, 0o755), os.Chown(dir, 12345, 12345)); err != nil {
			t.Fatal(err)
		}
		if _, err := OpenCache(dir, env("")); fault.KindOf(err) != fault.Refused {
			t.Errorf("another user's folder: %v", err)
		}
	}
}

func TestNames(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"codex": "codex latest", "codex@0.1.0": "codex 0.1.0", "claude-code@2.0.0-rc.1": "claude_code 2.0.0-rc.1", "claude_code@next": "claude_code next",
		"gpt": "", "codex@": "", "codex@a b": "", "codex@^1": "", "codex@1.2": "", "": "", "codex@1.0.0+x": "", "codex@-rf": "",
	} {
		p, v, err := ParseName(name, catalogue.Packages(catalogue.Builtin()))
		if got := fmt.Sprintf("%s %s", p.Name, v); want == "" && fault.KindOf(err) != fault.Usage || want != "" && (err != nil || got != want) {
			t.Errorf("%q: %s, %v", name, got, err)
		}
	}
	for name, good := range map[string]bool{"linux/amd64": true, "linux/arm64/musl": true, "linux/386": false, "linux": false, "": false, "linux/amd64/glibc": false, "linux/amd64/musl/": false} {
		if p, err := ParsePlatform(name); good != (err == nil) || good && p.String() != name {
			t.Errorf("%q: %v, %v", name, p, err)
		}
	}
	// No version's keys begin as another's.
	keys := []string{KeyPrefix(Codex, "0.1.0"), KeyPrefix(Codex, "0.1.0-alpha"), KeyPrefix(Codex, "0.1.0-alpha.1"), KeyPrefix(ClaudeCode, "0.1.0")}
	for i, a := range keys {
		for j, b := range keys {
			if i != j && strings.HasPrefix(a, b) {
				t.Errorf("%s begins with %s", a, b)
			}
		}
	}
}
