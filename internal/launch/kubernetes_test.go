package launch_test

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	"securebench/internal/fault"
	"securebench/internal/launch"
)

var update = flag.Bool("update", false, "write the manifests of testdata")

func cluster() launch.Kubernetes {
	return launch.Kubernetes{Image: "registry.example/securebench@sha256:" + strings.Repeat("5e", 32), Namespace: "bench", Claim: "runs", Mount: "/data", User: 1000, Group: 1000}
}

// TestKubernetesManifests compares manifests with those of testdata, which the module
// tools/k8s decodes with Kubernetes' own types.
func TestKubernetesManifests(t *testing.T) {
	t.Parallel()
	full := shards()
	full.ID, full.AtOnce, full.Args = "Nightly run №7 "+strings.Repeat("x", 80), 2, []string{"--config", "$(HOME)/it's $1.yaml", "--attempts", "3"}
	sealed := cluster()
	sealed.Secret, sealed.RuntimeClass, sealed.Privileged = "provider", "kata", true
	owned := cluster()
	owned.User, owned.Group = 0, 0
	for name, m := range map[string]struct {
		k  launch.Kubernetes
		of launch.Shards
	}{"shards": {cluster(), shards()}, "shards-full": {sealed, full}, "shards-root": {owned, shards()}} {
		got, err := m.k.Manifest(m.of)
		if err != nil {
			t.Fatal(err)
		}
		checkGolden(t, name, got)
	}
}

// checkGolden compares manifests with a golden file, or writes it with -update.
func checkGolden(t *testing.T, name string, got []byte) {
	t.Helper()
	golden := filepath.Join("testdata", name+".json")
	if *update {
		if err := os.WriteFile(golden, got, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(want, got) {
		t.Errorf("the manifests are not those of %s (-update writes them):\n%s", golden, got)
	}
}

// TestKubernetesArguments expands the arguments as Kubernetes does: only the index of
// the shard is put in the place of a variable.
func TestKubernetesArguments(t *testing.T) {
	t.Parallel()
	of := shards()
	of.Run = "/data/$(HOME)"
	of.Args = []string{"$(HOME)", "$$(HOME)", "$HOME", "$", "$$", "$(", "a$$$(HOME)b", "$(JOB_COMPLETION_INDEX)"}
	b, err := cluster().Manifest(of)
	if err != nil {
		t.Fatal(err)
	}
	var m struct {
		Spec struct {
			Template struct {
				Spec struct{ Containers []struct{ Args []string } }
			}
		}
	}
	if err := json.Unmarshal(b, &m, json.MatchCaseInsensitiveNames(true)); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, arg := range m.Spec.Template.Spec.Containers[0].Args {
		got = append(got, expand(arg))
	}
	want := append([]string{"run", "--shard", "7", "-o", of.Run}, of.Args...)
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("a pod gets %q, want %q", got, want)
	}
}

// expand puts values in the place of $(NAME), as Kubernetes does in arguments: $$ is
// one $, and what is no reference stays.
func expand(word string) string {
	var b strings.Builder
	for word != "" {
		before, rest, found := strings.Cut(word, "$")
		b.WriteString(before)
		if !found {
			break
		}
		name, after, closed := strings.Cut(strings.TrimPrefix(rest, "("), ")")
		switch {
		case strings.HasPrefix(rest, "$"):
			b.WriteByte('$')
			word = rest[1:]
		case strings.HasPrefix(rest, "(") && closed:
			b.WriteString(map[string]string{"JOB_COMPLETION_INDEX": "7", "HOME": "/root"}[name])
			word = after
		default:
			b.WriteByte('$')
			word = rest
		}
	}
	return b.String()
}

func TestKubernetesRefuses(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(*launch.Kubernetes, *launch.Shards)
		says   string
	}{
		"a tag":               {func(k *launch.Kubernetes, _ *launch.Shards) { k.Image = "securebench:1" }, "has no digest"},
		"a short digest":      {func(k *launch.Kubernetes, _ *launch.Shards) { k.Image = "securebench@sha256:5e" }, "has no digest"},
		"no repository":       {func(k *launch.Kubernetes, _ *launch.Shards) { k.Image = k.Image[len("registry.example/securebench"):] }, "has no digest"},
		"no namespace":        {func(k *launch.Kubernetes, _ *launch.Shards) { k.Namespace = "" }, "give --namespace"},
		"no claim":            {func(k *launch.Kubernetes, _ *launch.Shards) { k.Claim = "" }, "give --claim"},
		"a wrong namespace":   {func(k *launch.Kubernetes, _ *launch.Shards) { k.Namespace = "a.b" }, "--namespace a.b"},
		"a wrong claim":       {func(k *launch.Kubernetes, _ *launch.Shards) { k.Claim = "Runs" }, "--claim Runs"},
		"a long claim":        {func(k *launch.Kubernetes, _ *launch.Shards) { k.Claim = strings.Repeat("a.", 126) + "ab" }, "--claim"},
		"a wrong secret":      {func(k *launch.Kubernetes, _ *launch.Shards) { k.Secret = "-a" }, "--secret -a"},
		"a wrong class":       {func(k *launch.Kubernetes, _ *launch.Shards) { k.RuntimeClass = "a..b" }, "--runtime-class a..b"},
		"the root":            {func(k *launch.Kubernetes, _ *launch.Shards) { k.Mount = "/" }, "cannot have the volume at /"},
		"the scratch folder":  {func(k *launch.Kubernetes, _ *launch.Shards) { k.Mount = "/tmp" }, "cannot have the volume at /tmp"},
		"a run elsewhere":     {func(_ *launch.Kubernetes, of *launch.Shards) { of.Run = "/database/run" }, "/database/run is not below /data"},
		"a folder elsewhere":  {func(_ *launch.Kubernetes, of *launch.Shards) { of.Work = "/" }, "/ is not below /data"},
		"a break in the path": {func(k *launch.Kubernetes, _ *launch.Shards) { k.Mount = "/data\n" }, "line break"},
		"an escape":           {func(_ *launch.Kubernetes, of *launch.Shards) { of.Args = []string{"\x1b"} }, "invisible"},
	} {
		k, of := cluster(), shards()
		c.change(&k, &of)
		b, err := k.Manifest(of)
		if fault.KindOf(err) != fault.Usage || !strings.Contains(err.Error(), c.says) || b != nil {
			t.Errorf("%s: got %q and %v, want %q", name, b, err, c.says)
		}
	}
}
