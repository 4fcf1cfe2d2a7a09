package launch

import (
	"path/filepath"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"securebench/internal/redact"
)

// Kubernetes says how Kubernetes runs the shards of a run.
type Kubernetes struct {
	Image     string // with its digest; its entrypoint is securebench
	Namespace string
	// Claim is the volume that holds Mount, the folder with the run, the pack and all
	// else that the arguments name. Pods see it at the same path.
	Claim, Mount string
	Secret       string // whose keys become variables of the environment; "" for none
	RuntimeClass string // "" for the cluster's
	// User and Group own the run's files, and pods run as them.
	User, Group int64
	// Privileged lets pods make sandboxes themselves: they run as root, with every right
	// on their kernel.
	Privileged bool
}

const (
	containerName = "securebench"
	// retries are those of a shard, after errors that may go away; a pod that was
	// disrupted does not count.
	retries = 3
	// grace is how many seconds a pod that is ended has to remove its sandboxes.
	grace = 120
	// longestName keeps room for the index in the host name of a pod, a label of DNS.
	longestName = 52
	scratchDir  = "/tmp"
	// instanceLabel has the name of the job, also on its pods.
	instanceLabel = "app.kubernetes.io/instance"
)

// Manifest returns an Indexed Job, as JSON, with one index for each shard.
func (k Kubernetes) Manifest(of Shards) ([]byte, error) {
	if err := k.checkShards(of); err != nil {
		return nil, err
	}
	m := k.metadata("securebench-"+label(of.ID), of.Version)
	atOnce := of.Count
	if of.AtOnce > 0 {
		atOnce = min(atOnce, of.AtOnce)
	}
	return encode(job{APIVersion: "batch/v1", Kind: "Job", Metadata: m, Spec: jobSpec{
		CompletionMode: "Indexed", Completions: of.Count, Parallelism: atOnce, BackoffLimitPerIndex: retries,
		PodFailurePolicy: policy{[]rule{
			disrupted(),
			// The configuration or the pack is invalid, or inputs changed.
			{Action: "FailIndex", OnExitCodes: &exitCodes{containerName, "In", []int{10, 11, 15}}},
		}},
		Template: template{Metadata: metadata{Labels: m.Labels}, Spec: k.shard(of)},
	}})
}

// disrupted is the rule for pods that the cluster has ended: they do not count.
func disrupted() rule {
	return rule{Action: "Ignore", OnPodConditions: []condition{{"DisruptionTarget", "True"}}}
}

func encode(manifest any) ([]byte, error) {
	b, err := json.Marshal(manifest, json.Deterministic(true), jsontext.WithIndent("  "))
	return append(b, '\n'), err
}

// metadata returns a name that is used once, since a job cannot be changed.
func (k Kubernetes) metadata(name, version string) metadata {
	version = version[:min(len(version), 8)]
	name = strings.TrimRight(name[:min(len(name), longestName-1-len(version))], "-") + "-" + version
	return metadata{name, k.Namespace, map[string]string{"app.kubernetes.io/name": "securebench", instanceLabel: name}}
}

// shard describes the pod of a shard.
func (k Kubernetes) shard(of Shards) podSpec {
	c := container{
		WorkingDir:   of.Work,
		Args:         of.arguments("$(JOB_COMPLETION_INDEX)", literal), // Kubernetes puts the index in its place
		VolumeMounts: []mount{{Name: "runs", MountPath: k.Mount}},
	}
	if k.Secret != "" {
		c.EnvFrom = []source{{named{k.Secret}}}
	}
	return k.pod(c, grace, volume{Name: "runs", Claim: &claim{k.Claim}})
}

// pod describes a pod with a container, which has grace seconds to end.
func (k Kubernetes) pod(c container, grace int, volumes ...volume) podSpec {
	c.Name, c.Image = containerName, k.Image
	c.Env = append([]variable{{"HOME", scratchDir}}, c.Env...)
	c.VolumeMounts = append(c.VolumeMounts, mount{Name: "scratch", MountPath: scratchDir})
	security := podSecurity{RunAsUser: k.User, RunAsGroup: k.Group, RunAsNonRoot: k.User != 0, SeccompProfile: &profile{"RuntimeDefault"}}
	c.SecurityContext = containerSecurity{AllowPrivilegeEscalation: new(false), ReadOnlyRootFilesystem: true, Capabilities: &capabilities{Drop: []string{"ALL"}}}
	if k.Privileged {
		security, c.SecurityContext = podSecurity{}, containerSecurity{Privileged: true}
	}
	return podSpec{
		RestartPolicy: "Never", RuntimeClassName: k.RuntimeClass, TerminationGracePeriodSeconds: grace,
		SecurityContext: security, Containers: []container{c},
		Volumes: append(volumes, volume{Name: "scratch", EmptyDir: &struct{}{}}),
	}
}

// checkShards refuses what the manifest of shards cannot say.
func (k Kubernetes) checkShards(of Shards) error {
	if err := of.check(); err != nil {
		return err
	}
	if err := k.check(); err != nil {
		return err
	}
	return k.checkVolume(of.Run, of.Work)
}

// check refuses an image and names that Kubernetes would not take.
func (k Kubernetes) check() error {
	if err := printable(k.Image, k.Mount); err != nil {
		return err
	}
	repository, digest, _ := strings.Cut(k.Image, "@sha256:")
	if repository == "" || len(digest) != 64 || strings.Trim(digest, "0123456789abcdef") != "" {
		return usage("--image %s has no digest: write REPOSITORY@sha256:DIGEST, so that every pod runs the same build", redact.Quote(k.Image))
	}
	if k.Namespace == "" {
		return usage("give --namespace")
	}
	for _, n := range []struct {
		flag, name string
		label      bool
	}{{"--namespace", k.Namespace, true}, {"--claim", k.Claim, false}, {"--secret", k.Secret, false}, {"--runtime-class", k.RuntimeClass, false}} {
		if n.name != "" && !dnsName(n.name, n.label) {
			return usage("%s %s is no name that Kubernetes takes: write small letters, digits and -", n.flag, redact.Quote(n.name))
		}
	}
	return nil
}

// literal keeps Kubernetes from putting a variable in the place of its name.
func literal(word string) string { return strings.ReplaceAll(word, "$", "$$") }

// below reports whether a path is a folder or lies below it.
func below(folder, name string) bool {
	rel, err := filepath.Rel(folder, name)
	return err == nil && filepath.IsLocal(rel)
}

// dnsName reports whether Kubernetes takes a name: a label of DNS, or several with dots
// between them.
func dnsName(name string, label bool) bool {
	parts, longest := strings.Split(name, "."), 253
	if label {
		parts, longest = []string{name}, 63
	}
	for _, p := range parts {
		if p == "" || len(p) > 63 || strings.Trim(p, "abcdefghijklmnopqrstuvwxyz0123456789-") != "" || p[0] == '-' || p[len(p)-1] == '-' {
			return false
		}
	}
	return len(name) <= longest
}

// label returns a text as far as it can be in the name of a job.
func label(text string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9':
			return r
		case r >= 'A' && r <= 'Z':
			return r - 'A' + 'a'
		}
		return '-'
	}, text)
}
