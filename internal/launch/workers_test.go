package launch_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"securebench/internal/fault"
	"securebench/internal/launch"
)

func workers() launch.Workers {
	return launch.Workers{Hub: "10.0.0.5:4222", Version: "0123456789abcdef", Count: 5}
}

func workersCluster() launch.Kubernetes {
	return launch.Kubernetes{Image: cluster().Image, Namespace: "bench", Secret: "agents", Privileged: true}
}

// TestKubernetesWorkers compares the manifests of workers with that of testdata.
func TestKubernetesWorkers(t *testing.T) {
	t.Parallel()
	w := workers()
	w.Args = []string{"--cache", "/scratch/$(HOME)"}
	got, err := workersCluster().Workers(w)
	if err != nil {
		t.Fatal(err)
	}
	checkGolden(t, "workers", got)
	inside := workers()
	inside.Hub = "securebench-hub-nightly.bench.svc:4222"
	if got, err = workersCluster().Workers(inside); err != nil {
		t.Fatal(err)
	}
	checkGolden(t, "workers-in-cluster", got)
	for hub, cidr := range map[string]string{"[fd00::5]:4222": `"fd00::5/128"`, "[::ffff:10.0.0.5]:4222": `"10.0.0.5/32"`} {
		w := workers()
		w.Hub = hub
		if b, err := workersCluster().Workers(w); err != nil || !strings.Contains(string(b), cidr) {
			t.Errorf("a hub at %s: %v, want %s in %s", hub, err, cidr, b)
		}
	}
}

func TestWorkersRefused(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(*launch.Kubernetes, *launch.Workers)
		says   string
	}{
		"no workers":        {func(_ *launch.Kubernetes, w *launch.Workers) { w.Count = 0 }, "--workers must be 1 or more"},
		"no hub":            {func(_ *launch.Kubernetes, w *launch.Workers) { w.Hub = "" }, "give --hub ADDRESS:PORT"},
		"no port":           {func(_ *launch.Kubernetes, w *launch.Workers) { w.Hub = "10.0.0.5" }, "give --hub ADDRESS:PORT"},
		"no next port":      {func(_ *launch.Kubernetes, w *launch.Workers) { w.Hub = "10.0.0.5:65535" }, "give --hub ADDRESS:PORT"},
		"a name":            {func(_ *launch.Kubernetes, w *launch.Workers) { w.Hub = "hub:4222" }, "knows no names"},
		"another namespace": {func(_ *launch.Kubernetes, w *launch.Workers) { w.Hub = "x.other.svc:4222" }, "knows no names"},
		"a zone":            {func(_ *launch.Kubernetes, w *launch.Workers) { w.Hub = "[fe80::1%eth0]:4222" }, "knows no names"},
		"a line break":      {func(_ *launch.Kubernetes, w *launch.Workers) { w.Hub = "a\nb:4222" }, "line break"},
		"no credential":     {func(k *launch.Kubernetes, _ *launch.Workers) { k.Secret = "" }, "give --secret"},
		"without sandboxes": {func(k *launch.Kubernetes, _ *launch.Workers) { k.Privileged = false }, "give --privileged"},
		"an escape":         {func(_ *launch.Kubernetes, w *launch.Workers) { w.Args = []string{"\x1b"} }, "invisible"},
		"a tag":             {func(k *launch.Kubernetes, _ *launch.Workers) { k.Image = "securebench:1" }, "has no digest"},
		"no namespace":      {func(k *launch.Kubernetes, _ *launch.Workers) { k.Namespace = "" }, "give --namespace"},
	} {
		k, w := workersCluster(), workers()
		c.change(&k, &w)
		b, err := k.Workers(w)
		if fault.KindOf(err) != fault.Usage || !strings.Contains(err.Error(), c.says) || b != nil {
			t.Errorf("%s: got %q and %v, want %q", name, b, err, c.says)
		}
	}
}

// TestSlurmWorkers runs the printed script and a task of its array: each word arrives as
// it was given.
func TestSlurmWorkers(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	jobs := filepath.Join(dir, "jobs")
	if err := os.Mkdir(jobs, 0o755); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "sbatch"), sbatch)
	bench := filepath.Join(dir, "bench")
	write(t, bench, program)
	w := workers()
	w.Hub, w.Args = "login$(touch marker):4222", []string{"--cache", "/scratch/$(touch marker)"}
	credential := "/home/it's $HOME/agents.json"
	s := launch.Slurm{Program: bench, Time: "8:00:00", Options: []string{"--comment=a b"}}
	script, err := s.WorkersScript(w, credential)
	if err != nil {
		t.Fatal(err)
	}
	shell(t, dir, script, "PATH="+dir+":"+os.Getenv("PATH"), "JOBS="+jobs)
	if got, want := lines(t, filepath.Join(jobs, "0.args")), []string{"--parsable", "--job-name=securebench-workers", "--array=0-4", "--requeue",
		"--open-mode=append", "--signal=B:TERM@300", "--time=8:00:00", "--comment=a b"}; !slices.Equal(got, want) {
		t.Errorf("the options are %q, want %q", got, want)
	}
	out := filepath.Join(dir, "out")
	shell(t, dir, read(t, filepath.Join(jobs, "0.script")), "OUT="+out)
	if got, want := lines(t, out), []string{"worker", "--hub", w.Hub, "--credentials", credential, "--grace", "4m", "--cache", w.Args[1]}; !slices.Equal(got, want) {
		t.Errorf("a worker got %q, want %q", got, want)
	}
	if _, err := s.WorkersScript(w, "a\nb"); fault.KindOf(err) != fault.Usage {
		t.Errorf("a credential with a line break: %v", err)
	}
}
