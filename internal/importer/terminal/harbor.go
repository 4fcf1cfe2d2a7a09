package terminal

import (
	"bytes"
	"path"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"securebench/internal/lazyregexp"
)

// harborTask is a task.toml.
type harborTask struct {
	Version       jsontext.Value `json:"version"`
	SchemaVersion jsontext.Value `json:"schema_version"`
	Task          jsontext.Value `json:"task"`
	Source        jsontext.Value `json:"source"`
	Metadata      map[string]any `json:"metadata"`
	Agent         struct {
		Timeout *float64       `json:"timeout_sec"`
		User    jsontext.Value `json:"user"`
		Network string         `json:"network_mode"`
	} `json:"agent"`
	Verifier struct {
		Timeout     *float64           `json:"timeout_sec"`
		Env         map[string]string  `json:"env"`
		User        jsontext.Value     `json:"user"`
		Mode        string             `json:"environment_mode"`
		Environment *harborEnvironment `json:"environment"`
		Collect     []jsontext.Value   `json:"collect"`
		Network     string             `json:"network_mode"`
	} `json:"verifier"`
	Solution struct {
		Env map[string]string `json:"env"`
	} `json:"solution"`
	Environment harborEnvironment `json:"environment"`
	Steps       []jsontext.Value  `json:"steps"`
	Strategy    string            `json:"multi_step_reward_strategy"`
	Artifacts   []jsontext.Value  `json:"artifacts"`
}

type harborEnvironment struct {
	Image        string            `json:"docker_image"`
	OS           string            `json:"os"`
	BuildSeconds *float64          `json:"build_timeout_sec"`
	CPUs         jsontext.Value    `json:"cpus"`
	Memory       jsontext.Value    `json:"memory"`
	MemoryMB     jsontext.Value    `json:"memory_mb"`
	Storage      jsontext.Value    `json:"storage"`
	StorageMB    jsontext.Value    `json:"storage_mb"`
	GPUs         int               `json:"gpus"`
	GPUTypes     []string          `json:"gpu_types"`
	TPU          jsontext.Value    `json:"tpu"`
	Internet     *bool             `json:"allow_internet"`
	Network      string            `json:"network_mode"`
	AllowedHosts []string          `json:"allowed_hosts"`
	Servers      []jsontext.Value  `json:"mcp_servers"`
	Env          map[string]string `json:"env"`
	Skills       string            `json:"skills_dir"`
	Health       jsontext.Value    `json:"healthcheck"`
	Workdir      string            `json:"workdir"`
}

// artifact is a path that a separate verifier gets of what the agent left.
type artifact struct {
	Source      string   `json:"source"`
	Destination string   `json:"destination"`
	Exclude     []string `json:"exclude"`
}

// Where Harbor's test scripts write their reward: one number, or an object of numbers.
const (
	rewardFile   = "/logs/verifier/reward.txt"
	rewardObject = "/logs/verifier/reward.json"
)

// rewardOf returns the file that tests write: the object, if they mention no other.
func rewardOf(tests folder) string {
	object := false
	for _, f := range tests {
		if bytes.Contains(f.data, []byte(path.Base(rewardFile))) {
			return rewardFile
		}
		object = object || bytes.Contains(f.data, []byte(path.Base(rewardObject)))
	}
	if object {
		return rewardObject
	}
	return rewardFile
}

// readHarbor reads a task.toml and what lies beside it.
func readHarbor(f folder, name string) (*task, error) {
	var in harborTask
	if err := decodeTOML(f, "task.toml", &in); err != nil {
		return nil, err
	}
	if err := in.runnable(f); err != nil {
		return nil, err
	}
	t := &task{name: name, instruction: f.text("instruction.md"), env: in.Environment.Env, workdir: in.Environment.Workdir,
		agentSeconds: seconds(in.Agent.Timeout, 600), testSeconds: seconds(in.Verifier.Timeout, 600),
		tests: f.below("tests"), solution: f.below("solution"), metadata: in.metadata()}
	var err error
	if t.user, err = userOf(in.Agent.User); err != nil {
		return nil, err
	}
	context := f.below("environment")
	t.image = in.Environment.Image
	if t.image == "" {
		t.recipe = &recipe{dockerfile: context.text("Dockerfile"), context: context}
		delete(context, "Dockerfile")
	}
	if t.workdir == "" {
		t.workdir = lastWorkdir(f.text("environment/Dockerfile"))
	}
	if t.checker, err = scriptChecker("test.sh", t.tests.text("test.sh"), rewardOf(t.tests)); err != nil {
		return nil, err
	}
	t.checker.env, t.live = in.Verifier.Env, t.needsServer()
	if err := in.separate(t); err != nil {
		return nil, err
	}
	if t.importsWorkspace(context) && t.checker.pytest != "" {
		t.addWorkspace()
	}
	return t, nil
}

// runnable leaves out tasks that need what no sandbox here has.
func (in *harborTask) runnable(f folder) error {
	env := in.Environment
	switch {
	case len(in.Steps) > 0 || in.Strategy != "":
		return leave("it has several steps")
	case env.GPUs > 0 || len(env.GPUTypes) > 0 || given(env.TPU):
		return leave("it needs a GPU or TPU")
	case env.OS != "" && env.OS != "linux":
		return leave("it needs the system %s", env.OS)
	case len(env.Servers) > 0 || env.Skills != "" || given(env.Health):
		return leave("it needs servers, skills or a health check of its environment")
	case env.Network == "allowlist" || len(env.AllowedHosts) > 0 || in.Agent.Network == "allowlist" || in.Verifier.Network == "allowlist":
		return leave("it needs some hosts of the network")
	case len(in.Verifier.Collect) > 0:
		return leave("it collects the state of the agent's environment with commands")
	case len(in.Solution.Env) > 0:
		return leave("its solution needs variables of its own")
	case env.Image == "" && f.text("environment/Dockerfile") == "":
		return leave("it has no environment/Dockerfile and no docker_image")
	}
	if n := services(f, "environment/docker-compose.yaml"); n != 1 {
		return leave("it has several containers")
	}
	return nil
}

func given(v jsontext.Value) bool { return v != nil && v.Kind() != 'n' }

// separate reads a verifier in an environment of its own: its image, and what it
// gets of the agent's work.
func (in *harborTask) separate(t *task) error {
	own := in.Verifier.Environment
	if in.Verifier.Mode != "separate" && own == nil {
		t.findRoots()
		return nil
	}
	if own != nil {
		if own.Image == "" && t.tests.text("Dockerfile") == "" {
			return leave("its verifier has an environment of its own, without an image")
		}
		t.checker.own = own.Image
	}
	if text := t.tests.text("Dockerfile"); text != "" && t.checker.own == "" {
		return leave("its verifier has a Dockerfile of its own, which contains the tests: name an image")
	}
	t.roots, t.separate = nil, true
	for _, v := range in.Artifacts {
		a, err := artifactOf(v)
		if err != nil {
			return err
		}
		if a.Destination != "" && a.Destination != a.Source {
			return leave("its artifact %s lies elsewhere for the verifier", a.Source)
		}
		for _, p := range a.Exclude {
			t.exclude = append(t.exclude, strings.TrimRight(a.Source, "/")+"/"+strings.TrimLeft(p, "/"))
		}
		t.roots = append(t.roots, a.Source)
	}
	if len(t.roots) == 0 {
		return leave("its verifier is separate and gets nothing of the agent's work")
	}
	slices.Sort(t.roots)
	return nil
}

func artifactOf(v jsontext.Value) (a artifact, err error) {
	if v.Kind() == '"' {
		err = json.Unmarshal(v, &a.Source)
	} else {
		err = json.Unmarshal(v, &a, json.RejectUnknownMembers(true))
	}
	if err != nil || !strings.HasPrefix(a.Source, "/") {
		return a, leave("one of its artifacts is not of a known form")
	}
	return a, nil
}

// metadata keeps what the operator may want to know: the author's words, and the
// resources that the task asks for.
func (in *harborTask) metadata() map[string]any {
	out := map[string]any{}
	if len(in.Metadata) > 0 {
		out["task_metadata"] = in.Metadata
	}
	resources := map[string]any{}
	for name, v := range map[string]jsontext.Value{"cpus": in.Environment.CPUs, "memory": in.Environment.Memory, "memory_mb": in.Environment.MemoryMB,
		"storage": in.Environment.Storage, "storage_mb": in.Environment.StorageMB} {
		if given(v) {
			resources[name] = v
		}
	}
	if len(resources) > 0 {
		out["resources"] = resources
	}
	return out
}

// userOf reads a user: a name or a number.
func userOf(v jsontext.Value) (string, error) {
	switch {
	case !given(v):
		return "", nil
	case v.Kind() == '0':
		return string(v), nil
	case v.Kind() == '"':
		var s string
		err := json.Unmarshal(v, &s)
		return s, err
	}
	return "", leave("its user is not of a known form")
}

var (
	workdirLine = lazyregexp.New(`(?mi)^[ \t]*WORKDIR[ \t]+"?([^"\s]+)"?[ \t]*$`)
	fromLine    = lazyregexp.New(`(?mi)^[ \t]*FROM[ \t]+(\S+)`)
)

// lastWorkdir returns the working folder of a Dockerfile's image, "" if it is not
// known. The images that Terminal-Bench is built from have /app.
func lastWorkdir(dockerfile string) string {
	last := ""
	if m := fromLine.FindAllStringSubmatch(dockerfile, -1); len(m) > 0 && strings.Contains(m[len(m)-1][1], "/t-bench/") {
		last = "/app"
	}
	for _, m := range workdirLine.FindAllStringSubmatch(dockerfile, -1) {
		switch {
		case strings.HasPrefix(m[1], "/"):
			last = m[1]
		case last != "":
			last += "/" + m[1]
		}
	}
	if strings.Contains(last, "$") {
		return ""
	}
	return last
}
