package launch_test

import (
	"strings"
	"testing"

	"securebench/internal/fault"
	"securebench/internal/launch"
)

func served() launch.Hub {
	return launch.Hub{Run: "/data/runs/nightly", Work: "/data", ID: "nightly", Port: 4222, Keys: "/data/config", Args: []string{"--config", "$(HOME)/it's.yaml"}}
}

// TestKubernetesHub compares the manifests of a run with a hub with that of testdata.
func TestKubernetesHub(t *testing.T) {
	t.Parallel()
	k := cluster()
	k.Secret = "provider"
	got, err := k.Hub(served())
	if err != nil {
		t.Fatal(err)
	}
	checkGolden(t, "hub", got)
	if name := k.Service(served()); name != "securebench-hub-nightly" {
		t.Errorf("its service is %s", name)
	}
	for name, c := range map[string]struct {
		change func(*launch.Kubernetes, *launch.Hub)
		says   string
	}{
		"no port":       {func(_ *launch.Kubernetes, of *launch.Hub) { of.Port = 0 }, "--serve"},
		"no next port":  {func(_ *launch.Kubernetes, of *launch.Hub) { of.Port = 65535 }, "--serve"},
		"no keys":       {func(_ *launch.Kubernetes, of *launch.Hub) { of.Keys = "" }, "--config-home"},
		"keys outside":  {func(_ *launch.Kubernetes, of *launch.Hub) { of.Keys = "/root/.config" }, "not below"},
		"a run outside": {func(_ *launch.Kubernetes, of *launch.Hub) { of.Run = "/runs" }, "not below"},
		"no volume":     {func(k *launch.Kubernetes, _ *launch.Hub) { k.Claim = "" }, "give --claim"},
		"a tag":         {func(k *launch.Kubernetes, _ *launch.Hub) { k.Image = "securebench:1" }, "has no digest"},
		"a line break":  {func(_ *launch.Kubernetes, of *launch.Hub) { of.Args = []string{"a\nb"} }, "line break"},
	} {
		k, of := cluster(), served()
		c.change(&k, &of)
		if b, err := k.Hub(of); fault.KindOf(err) != fault.Usage || !strings.Contains(err.Error(), c.says) || b != nil {
			t.Errorf("%s: %q, %v, want %q", name, b, err, c.says)
		}
	}
}
