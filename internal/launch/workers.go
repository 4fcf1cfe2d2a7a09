package launch

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"securebench/internal/console"
	"securebench/internal/redact"
)

// Workers describes workers of a run with a hub, and which of them are started.
type Workers struct {
	Hub     string // ADDRESS:PORT of the run; the next port is used as well
	Version string // a text that differs each time
	Count   int
	Args    []string // more flags of "securebench worker"
}

// hub returns the host and the first port.
func (w Workers) hub() (host string, first int, err error) {
	host, number, err := net.SplitHostPort(w.Hub)
	if err == nil {
		first, err = strconv.Atoi(number)
	}
	if err != nil || host == "" || first < 1 || first >= 1<<16-1 {
		return "", 0, usage("give --hub ADDRESS:PORT, where the run is, with a port from 1 to 65534")
	}
	return host, first, nil
}

const (
	// workerGrace is how many minutes a worker may finish what it has, when its pod is
	// ended.
	workerGrace = 30
	// arrayGrace is the same of a task of Slurm, which ends five minutes after its
	// warning.
	arrayGrace = 4
	// failures is how many pods may fail for each worker that is wanted.
	failures = 3
	// credentialDir is where a pod has the credential.
	credentialDir = "/credential"
	// CredentialKey is its key in the Secret.
	CredentialKey = "credential"
)

// check refuses workers that cannot be started.
func (w Workers) check() error {
	if w.Count < 1 {
		return usage("--workers must be 1 or more")
	}
	if _, _, err := w.hub(); err != nil {
		return err
	}
	return printable(append([]string{w.Hub}, w.Args...)...)
}

// arguments returns what securebench is given, each word as word makes it.
func (w Workers) arguments(credential string, grace int, word func(string) string) []string {
	out := append([]string{"worker", "--hub", w.Hub, "--credentials", credential, "--grace", fmt.Sprintf("%dm", grace)}, w.Args...)
	for i := range out {
		out[i] = word(out[i])
	}
	return out
}

// Workers returns the array job in which each task is a worker, with the credential in a
// file.
func (s Slurm) Workers(w Workers, credential string) (Job, error) {
	if err := w.check(); err != nil {
		return Job{}, err
	}
	if err := printable(slices.Concat([]string{s.Program, s.Time, credential}, s.Options)...); err != nil {
		return Job{}, err
	}
	options := []string{"--parsable", "--job-name=securebench-workers", fmt.Sprintf("--array=0-%d", w.Count-1), "--requeue", "--open-mode=append", "--signal=" + warning}
	if s.Time != "" {
		options = append(options, "--time="+s.Time)
	}
	return s.job(append(options, s.Options...), w.arguments(credential, arrayGrace, console.ShellQuote)), nil
}

// WorkersScript returns a shell script that submits the job.
func (s Slurm) WorkersScript(w Workers, credential string) (string, error) {
	j, err := s.Workers(w, credential)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("#!/bin/sh\n# Submits workers of the run at %s as an array.\nsbatch%s <<'WORKER'\n%sWORKER\n", w.Hub, words(j.Options, ""), j.Script), nil
}

// Workers returns, as JSON, a Job of workers and a NetworkPolicy that lets their pods
// reach the hub and nothing else. The job has no number of completions: it has succeeded
// when a worker has, which means that the run has finished.
func (k Kubernetes) Workers(w Workers) ([]byte, error) {
	ways, err := k.checkWorkers(w)
	if err != nil {
		return nil, err
	}
	m := k.metadata("securebench-workers-"+label(k.Secret), w.Version)
	p := networkPolicy{APIVersion: "networking.k8s.io/v1", Kind: "NetworkPolicy", Metadata: m, Spec: networkLimits{
		PodSelector: selector{map[string]string{instanceLabel: m.Name}}, PolicyTypes: []string{"Ingress", "Egress"},
		Egress: ways,
	}}
	c := container{
		Args:         w.arguments(credentialDir+"/"+CredentialKey, workerGrace, literal),
		VolumeMounts: []mount{{Name: "credential", MountPath: credentialDir, ReadOnly: true}},
	}
	j := job{APIVersion: "batch/v1", Kind: "Job", Metadata: m, Spec: jobSpec{
		Parallelism: w.Count, BackoffLimit: failures * w.Count,
		PodFailurePolicy: policy{[]rule{
			disrupted(),
			// It was told to stop, and returned what it had.
			{Action: "Ignore", OnExitCodes: &exitCodes{containerName, "In", []int{143}}},
			// The credential is damaged, or the hub refuses it, the build or the engine.
			{Action: "FailJob", OnExitCodes: &exitCodes{containerName, "In", []int{10, 13}}},
		}},
		Template: template{Metadata: metadata{Labels: m.Labels}, Spec: k.pod(c, workerGrace*60+grace, volume{Name: "credential", Secret: &secret{k.Secret}})},
	}}
	return encode(list{APIVersion: "v1", Kind: "List", Items: []any{p, j}}) // the policy first: it is there before a pod is
}

// checkWorkers refuses workers that could not work, and returns what they have to reach.
func (k Kubernetes) checkWorkers(w Workers) ([]way, error) {
	if err := w.check(); err != nil {
		return nil, err
	}
	if err := k.check(); err != nil {
		return nil, err
	}
	switch {
	case k.Secret == "":
		return nil, usage("give --secret: the Secret whose key %s holds what securebench hub invite wrote", CredentialKey)
	case !k.Privileged:
		return nil, usage("workers make sandboxes: give --privileged, with which their pods have every right on their kernel")
	}
	host, first, err := w.hub()
	if err != nil {
		return nil, err
	}
	ports := []port{{"TCP", first}, {"TCP", first + 1}}
	if name, ok := strings.CutSuffix(host, "."+k.Namespace+".svc"); ok && dnsName(name, true) {
		pods, system := selector{map[string]string{instanceLabel: name}}, selector{map[string]string{"kubernetes.io/metadata.name": "kube-system"}}
		return []way{{To: []peer{{PodSelector: &pods}}, Ports: ports}, {To: []peer{{NamespaceSelector: &system}}, Ports: []port{{"UDP", 53}, {"TCP", 53}}}}, nil
	}
	address, err := netip.ParseAddr(host)
	if err != nil || address.Zone() != "" {
		return nil, usage("--hub %s: give the IP address of the run, since a NetworkPolicy knows no names, or the name of its service, such as securebench-hub-ID.%s.svc", redact.Quote(w.Hub), k.Namespace)
	}
	address = address.Unmap()
	hub := netip.PrefixFrom(address, address.BitLen())
	return []way{{To: []peer{{IPBlock: &block{hub.String()}}}, Ports: ports}}, nil
}
