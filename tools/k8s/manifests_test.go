package k8s_test

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	batch "k8s.io/api/batch/v1"
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

// TestJobs: every manifest is a Job whose pods are retried by shard.
func TestJobs(t *testing.T) {
	for name, b := range manifests(t) {
		object, err := k8s.Decode(b)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		job, ok := object.(*batch.Job)
		if !ok {
			t.Errorf("%s is a %T", name, object)
			continue
		}
		spec, pod := job.Spec, job.Spec.Template.Spec
		if *spec.CompletionMode != batch.IndexedCompletion || *spec.Completions != 3 || *spec.Parallelism > 3 || *spec.BackoffLimitPerIndex < 1 {
			t.Errorf("%s: its shards are not indexes: %+v", name, spec)
		}
		rules := spec.PodFailurePolicy.Rules
		if rules[0].Action != batch.PodFailurePolicyActionIgnore || rules[0].OnPodConditions[0].Type != "DisruptionTarget" ||
			rules[1].Action != batch.PodFailurePolicyActionFailIndex || !slices.Equal(rules[1].OnExitCodes.Values, []int32{10, 11, 15}) ||
			*rules[1].OnExitCodes.ContainerName != pod.Containers[0].Name {
			t.Errorf("%s: its rules for failed pods are %+v", name, rules)
		}
		if *pod.AutomountServiceAccountToken || pod.RestartPolicy != "Never" || pod.Volumes[0].PersistentVolumeClaim.ClaimName != "runs" {
			t.Errorf("%s: its pods are %+v", name, pod)
		}
	}
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
		if misspelt < 40 {
			t.Errorf("%s: only %d fields were misspelt", name, misspelt)
		}
	}
}

// eachField visits every field of every object. The keys of labels are no fields.
func eachField(v any, visit func(object map[string]any, field string)) {
	switch v := v.(type) {
	case map[string]any:
		for _, field := range slices.Sorted(maps.Keys(v)) {
			if field != "labels" {
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
	}
	for name, b := range manifests(t) {
		object, err := k8s.Decode(b)
		if err != nil {
			t.Fatal(err)
		}
		template := object.(*batch.Job).Spec.Template
		for _, level := range []security.Level{security.LevelBaseline, security.LevelRestricted} {
			at := security.LevelVersion{Level: level, Version: security.LatestVersion()}
			result := policy.AggregateCheckResults(evaluator.EvaluatePod(at, &template.ObjectMeta, &template.Spec))
			if want := slices.Contains(passes[name], level); result.Allowed != want {
				t.Errorf("%s passes %s: %t, want %t: %s", name, level, result.Allowed, want, result.ForbiddenDetail())
			}
		}
	}
}
