package launch

import (
	"fmt"
	"strings"

	"securebench/internal/redact"
)

// Hub describes a run that serves workers, and how it is started.
type Hub struct {
	Run  string   // its folder, an absolute path, which need not be there yet
	Work string   // the folder to which relative paths in Args refer, an absolute path
	ID   string   // the run's id
	Port int      // where it listens; the next port is used as well
	Keys string   // the folder that holds "securebench" with the hub's and the signing key
	Args []string // what "securebench run" is given, besides -o, --hub and --resume
}

// Service is the name by which workers in the same cluster reach the run.
func (k Kubernetes) Service(of Hub) string {
	name := "securebench-hub-" + label(of.ID)
	return strings.TrimRight(name[:min(len(name), longestName)], "-")
}

// Hub returns, as JSON, a run with a hub as a StatefulSet of one pod, the service with the
// name of the hub, and a NetworkPolicy that lets others reach its two ports and nothing
// else. A pod that is started again continues the run.
func (k Kubernetes) Hub(of Hub) ([]byte, error) {
	if err := k.checkHub(of); err != nil {
		return nil, err
	}
	name := k.Service(of)
	m := metadata{name, k.Namespace, map[string]string{"app.kubernetes.io/name": "securebench", instanceLabel: name}}
	ours := selector{map[string]string{instanceLabel: name}}
	ports := []port{{Protocol: "TCP", Port: of.Port}, {Protocol: "TCP", Port: of.Port + 1}}
	p := networkPolicy{APIVersion: "networking.k8s.io/v1", Kind: "NetworkPolicy", Metadata: m, Spec: networkLimits{
		PodSelector: ours, PolicyTypes: []string{"Ingress"}, Ingress: []door{{Ports: ports}},
	}}
	s := service{APIVersion: "v1", Kind: "Service", Metadata: m, Spec: serviceSpec{ClusterIP: "None", Selector: ours.MatchLabels,
		Ports: []servicePort{{"queue", "TCP", of.Port}, {"content", "TCP", of.Port + 1}}}}
	pod := k.pod(k.hub(of), grace, volume{Name: "runs", Claim: &claim{k.Claim}})
	pod.RestartPolicy = "Always" // a StatefulSet has no other
	set := statefulSet{APIVersion: "apps/v1", Kind: "StatefulSet", Metadata: m, Spec: setSpec{
		Replicas: 1, ServiceName: name, Selector: ours, Template: template{Metadata: metadata{Labels: m.Labels}, Spec: pod},
	}}
	return encode(list{APIVersion: "v1", Kind: "List", Items: []any{p, s, set}})
}

// hub describes the container of a run with a hub.
func (k Kubernetes) hub(of Hub) container {
	args := []string{"run", "--hub", fmt.Sprintf("0.0.0.0:%d", of.Port), "--resume", "--progress", "plain", "-o", literal(of.Run)}
	for _, arg := range of.Args {
		args = append(args, literal(arg))
	}
	c := container{WorkingDir: of.Work, Args: args, Env: []variable{{"XDG_CONFIG_HOME", literal(of.Keys)}}, VolumeMounts: []mount{{Name: "runs", MountPath: k.Mount}}}
	if k.Secret != "" {
		c.EnvFrom = []source{{named{k.Secret}}}
	}
	return c
}

// checkHub refuses what the manifests of a hub cannot say.
func (k Kubernetes) checkHub(of Hub) error {
	if err := printable(append([]string{of.Run, of.Work, of.Keys}, of.Args...)...); err != nil {
		return err
	}
	if err := k.check(); err != nil {
		return err
	}
	if of.Port < 1024 || of.Port >= 1<<16-1 {
		return usage("give --serve a port from 1024 to 65534")
	}
	if of.Keys == "" {
		return usage("give --config-home: the folder of the volume in which securebench hub init has made securebench/hub")
	}
	return k.checkVolume(of.Run, of.Work, of.Keys)
}

// checkVolume refuses folders that are not in the volume.
func (k Kubernetes) checkVolume(folders ...string) error {
	if k.Claim == "" {
		return usage("give --claim")
	}
	if k.Mount == "/" || k.Mount == scratchDir {
		return usage("pods cannot have the volume at %s: give --mount a folder below it", k.Mount)
	}
	for _, dir := range folders {
		if !below(k.Mount, dir) {
			return usage("%s is not below %s, which pods see: give --mount the folder that the volume holds", redact.Quote(dir), redact.Quote(k.Mount))
		}
	}
	return nil
}
