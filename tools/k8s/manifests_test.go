package k8s_test

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	apps "k8s.io/api/apps/v1"
	batch "k8s.io/api/batch/v1"
	core "k8s.io/api/core/v1"
	networking "k8s.io/api/networking/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	security "k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"

	"securebench/tools/k8s"
)

// manifests are those that the tests of internal/launch compare with.
func manifests(t *testing.T) map[string][]byte {
	t.Helper()
	names, err := filepath.Glob(filepath.Join("..", "..", "internal", "launch", "testdata", "*.json"))
	if err != nil || len(names) < 3 {
		t.Fatalf("found %d manifests: %v", len(names), err)
	}
	out := map[string][]byte{}
	for _, name := range names {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		out[filepath.Base(name)] = b
	}
	return out
}

// decoded returns the manifests of a file.
func decoded(t *testing.T, name string) []runtime.Object {
	t.Helper()
	out, err := k8s.Decode(manifests(t)[name])
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return out
}

// TestShards: the manifest is a Job whose pods are retried by shard.
func TestShards(t *testing.T) {
	for _, name := range []string{"shards.json", "shards-full.json", "shards-root.json"} {
		job := decoded(t, name)[0].(*batch.Job)
		spec, pod := job.Spec, job.Spec.Template.Spec
		if *spec.CompletionMode != batch.IndexedCompletion || *spec.Completions != 3 || *spec.Parallelism > 3 || *spec.BackoffLimitPerIndex < 1 {
			t.Errorf("%s: its shards are not indexes: %+v", name, spec)
		}
		rules := spec.PodFailurePolicy.Rules
		if rules[0].Action != batch.PodFailurePolicyActionIgnore || rules[0].OnPodConditions[0].Type != core.DisruptionTarget ||
			!on(rules[1], pod, batch.PodFailurePolicyActionFailIndex, 10, 11, 15) {
			t.Errorf("%s: its rules for failed pods are %+v", name, rules)
		}
		if *pod.AutomountServiceAccountToken || pod.RestartPolicy != core.RestartPolicyNever || pod.Volumes[0].PersistentVolumeClaim.ClaimName != "runs" {
			t.Errorf("%s: its pods are %+v", name, pod)
		}
	}
}

// TestWorkers: the manifests are a NetworkPolicy that selects the pods of the Job, which
// has no number of completions.
func TestWorkers(t *testing.T) {
	objects := decoded(t, "workers.json")
	network, job := objects[0].(*networking.NetworkPolicy), objects[1].(*batch.Job)
	spec, pod := job.Spec, job.Spec.Template.Spec
	if spec.Completions != nil || spec.CompletionMode != nil || *spec.Parallelism != 5 {
		t.Errorf("its pods are not workers of one queue: %+v", spec)
	}
	rules := spec.PodFailurePolicy.Rules
	if rules[0].OnPodConditions[0].Type != core.DisruptionTarget || !on(rules[1], pod, batch.PodFailurePolicyActionIgnore, 143) ||
		!on(rules[2], pod, batch.PodFailurePolicyActionFailJob, 10, 13) {
		t.Errorf("its rules for failed pods are %+v", rules)
	}
	selector, err := meta.LabelSelectorAsSelector(&network.Spec.PodSelector)
	if err != nil || selector.Empty() || !selector.Matches(labels.Set(job.Spec.Template.Labels)) || network.Namespace != job.Namespace {
		t.Errorf("the policy selects %v and not the workers: %v", selector, err)
	}
	if len(network.Spec.PolicyTypes) != 2 || len(network.Spec.Ingress) != 0 || len(network.Spec.Egress) != 1 {
		t.Errorf("the policy lets workers reach more than the hub: %+v", network.Spec)
	}
	if *pod.AutomountServiceAccountToken || pod.Volumes[0].Secret.SecretName != "agents" || !pod.Containers[0].VolumeMounts[0].ReadOnly {
		t.Errorf("its pods are %+v", pod)
	}
}

// TestHub: the manifests are a NetworkPolicy and a Service that select the pod of the
// StatefulSet, whose volume stays when the pod goes. Workers in the cluster may reach it.
func TestHub(t *testing.T) {
	objects := decoded(t, "hub.json")
	network, service, set := objects[0].(*networking.NetworkPolicy), objects[1].(*core.Service), objects[2].(*apps.StatefulSet)
	pod := set.Spec.Template
	if *set.Spec.Replicas != 1 || set.Spec.ServiceName != service.Name || pod.Spec.RestartPolicy != core.RestartPolicyAlways || pod.Spec.Volumes[0].PersistentVolumeClaim.ClaimName != "runs" {
		t.Errorf("it is not one pod with a volume: %+v", set.Spec)
	}
	own, err := meta.LabelSelectorAsSelector(set.Spec.Selector)
	if err != nil || !own.Matches(labels.Set(pod.Labels)) || !labels.SelectorFromSet(service.Spec.Selector).Matches(labels.Set(pod.Labels)) || len(service.Spec.Selector) == 0 {
		t.Errorf("the service selects %v, and the set %v: %v", service.Spec.Selector, own, err)
	}
	selector, err := meta.LabelSelectorAsSelector(&network.Spec.PodSelector)
	if err != nil || selector.Empty() || !selector.Matches(labels.Set(pod.Labels)) || len(network.Spec.PolicyTypes) != 1 || len(network.Spec.Ingress) != 1 || len(network.Spec.Ingress[0].Ports) != 2 {
		t.Errorf("the policy is %+v: %v", network.Spec, err)
	}
	if *pod.Spec.AutomountServiceAccountToken || service.Spec.ClusterIP != core.ClusterIPNone || len(service.Spec.Ports) != 2 || service.Spec.Ports[1].Port != service.Spec.Ports[0].Port+1 {
		t.Errorf("the service is %+v, the pod %+v", service.Spec, pod.Spec)
	}
	workers := decoded(t, "workers-in-cluster.json")[0].(*networking.NetworkPolicy).Spec.Egress
	reaches, err := meta.LabelSelectorAsSelector(workers[0].To[0].PodSelector)
	if err != nil || len(workers) != 2 || !reaches.Matches(labels.Set(pod.Labels)) || reaches.Empty() || workers[1].Ports[0].Port.IntVal != 53 {
		t.Errorf("workers may reach %+v: %v", workers, err)
	}
}

// on reports whether a rule is about these exit codes of the pod's container.
func on(r batch.PodFailurePolicyRule, pod core.PodSpec, action batch.PodFailurePolicyAction, codes ...int32) bool {
	return r.Action == action && slices.Equal(r.OnExitCodes.Values, codes) && *r.OnExitCodes.ContainerName == pod.Containers[0].Name
}

// TestMisspelt renames each field of each manifest in turn: none is ignored.
func TestMisspelt(t *testing.T) {
	for name, b := range manifests(t) {
		var m map[string]any
		if err := json.Unmarshal(b, &m); err != nil {
			t.Fatal(err)
		}
		misspelt := 0
		eachField(m, func(object map[string]any, field string) {
			misspelt++
			value := object[field]
			delete(object, field)
			object[field+"s"] = value
			wrong, err := json.Marshal(m)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := k8s.Decode(wrong); err == nil {
				t.Errorf("%s: %s is read as %s", name, field+"s", field)
			}
			delete(object, field+"s")
			object[field] = value
		})
		if misspelt < 30 {
			t.Errorf("%s: only %d fields were misspelt", name, misspelt)
		}
	}
}

// eachField visits every field of every object. The keys of labels are no
// fields.
func eachField(v any, visit func(object map[string]any, field string)) {
	switch v := v.(type) {
	case map[string]any:
		for _, field := range slices.Sorted(maps.Keys(v)) {
			if field != "labels" && field != "matchLabels" && !(field == "selector" && v["clusterIP"] != nil) { // of a service
				eachField(v[field], visit)
			}
			visit(v, field)
		}
	case []any:
		for _, inner := range v {
			eachField(inner, visit)
		}
	}
}

// TestPodSecurity: pods pass the strictest level of Kubernetes' Pod Security Standards
// that their owner and --privileged allow.
func TestPodSecurity(t *testing.T) {
	evaluator, err := policy.NewEvaluator(policy.DefaultChecks(), nil)
	if err != nil {
		t.Fatal(err)
	}
	passes := map[string][]security.Level{
		"shards.json":      {security.LevelBaseline, security.LevelRestricted},
		"shards-root.json": {security.LevelBaseline}, // its pods are root, without capabilities
		"shards-full.json": nil,                      // --privileged
		"hub.json":         {security.LevelBaseline, security.LevelRestricted},
	}
	for name, levels := range passes {
		var template core.PodTemplateSpec
		switch all := decoded(t, name); of := all[len(all)-1].(type) {
		case *batch.Job:
			template = of.Spec.Template
		case *apps.StatefulSet:
			template = of.Spec.Template
		}
		for _, level := range []security.Level{security.LevelBaseline, security.LevelRestricted} {
			at := security.LevelVersion{Level: level, Version: security.LatestVersion()}
			result := policy.AggregateCheckResults(evaluator.EvaluatePod(at, &template.ObjectMeta, &template.Spec))
			if want := slices.Contains(levels, level); result.Allowed != want {
				t.Errorf("%s passes %s: %t, want %t: %s", name, level, result.Allowed, want, result.ForbiddenDetail())
			}
		}
	}
}
