package terminal

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// debianTask is a task.json: a task of Terminal-Bench whose image needs nothing
// but packages of Debian.
type debianTask struct {
	ID           string         `json:"id"`
	Name         string         `json:"name"`
	Source       jsontext.Value `json:"source"`
	Instruction  string         `json:"instruction"`
	Difficulty   string         `json:"difficulty"`
	Category     string         `json:"category"`
	Tags         []string       `json:"tags"`
	Author       string         `json:"author_name"`
	AgentSeconds *float64       `json:"max_agent_timeout_sec"`
	TestSeconds  *float64       `json:"max_test_timeout_sec"`
	Environment  struct {
		Base     string            `json:"base"`
		Upstream string            `json:"upstream_from"`
		Packages []string          `json:"apt_packages"`
		Workdir  string            `json:"workdir"`
		Env      map[string]string `json:"env"`
		Network  string            `json:"network"`
		Steps    []debianStep      `json:"steps"`
		Replaced []string          `json:"upstream_install_lines_replaced_by_apt_packages"`
	} `json:"environment"`
	Verify struct {
		Files   []string `json:"files"`
		Command string   `json:"command"`
		Dir     string   `json:"cwd"`
		Live    bool     `json:"needs_live_processes_of_the_agent_phase"`
	} `json:"verify"`
	Oracle struct {
		Script   string   `json:"script"`
		Upstream string   `json:"upstream_form"`
		Changes  []string `json:"changes_made_for_offline_use"`
	} `json:"oracle"`
	Verified jsontext.Value `json:"verified_here"`
}

// debianStep is a line of the recipe: one of its fields is set.
type debianStep struct {
	Run     string `json:"run"`
	Workdir string `json:"workdir"`
	Cmd     string `json:"cmd"`
	Copy    *struct {
		From string `json:"from"`
		To   string `json:"to"`
	} `json:"copy"`
	Write *struct {
		To   string `json:"to"`
		Text string `json:"text"`
	} `json:"write"`
}

// debianBase is the image that all tasks of this edition share. Some packages
// need a folder of manual pages, which slim images lack.
func debianBase() string {
	return "FROM securebench-pytest:1\n" + aptLine("ca-certificates", "curl", "procps", "python-is-python3", "tmux") +
		"RUN mkdir -p /usr/share/man/man1\nCMD [\"bash\"]\n"
}

// aptLine installs packages.
func aptLine(packages ...string) string {
	return "RUN apt-get update -qq \\\n && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends " +
		strings.Join(packages, " ") + " \\\n && rm -rf /var/lib/apt/lists/*\n"
}

// readDebian reads a task.json.
func readDebian(f folder, name string) (*task, error) {
	var in debianTask
	if err := decodeJSON(f, "task.json", &in); err != nil {
		return nil, err
	}
	if in.Name != name || in.Environment.Network != "none" || in.Verify.Dir != in.Environment.Workdir {
		return nil, leave("task.json names another task, asks for a network, or runs its tests outside of its workdir")
	}
	target, ok := strings.CutPrefix(in.Verify.Command, "TEST_DIR=/tests python3 -m pytest /tests/")
	target, ok2 := strings.CutSuffix(target, " -rA")
	if !ok || !ok2 || strings.ContainsAny(target, " \t'\"$\\") {
		return nil, leave("its tests are run in a way that is not known: %s", in.Verify.Command)
	}
	t := &task{name: name, instruction: in.Instruction, workdir: in.Environment.Workdir, env: in.Environment.Env,
		agentSeconds: seconds(in.AgentSeconds, 0), testSeconds: seconds(in.TestSeconds, 0),
		tests: f.below("tests"), solution: folder{}, live: in.Verify.Live, offline: true,
		checker:  checker{pytest: target, bare: true},
		metadata: metadata("difficulty", in.Difficulty, "category", in.Category, "tags", in.Tags, "author", in.Author, "task", in.ID, "source", in.Source)}
	if script, ok := f[in.Oracle.Script]; ok {
		t.solution["solution.sh"] = script
	}
	files := f.below("files")
	var err error
	if t.recipe, err = debianRecipe(in, files); err != nil {
		return nil, err
	}
	t.findRoots()
	if t.importsWorkspace(files) {
		t.addWorkspace()
	}
	return t, nil
}

// debianRecipe turns the steps into a Dockerfile. They were one before.
func debianRecipe(in debianTask, files folder) (*recipe, error) {
	r := &recipe{base: debianBase(), context: folder{}}
	for name, content := range files {
		r.context["files/"+name] = content
	}
	var b strings.Builder
	if len(in.Environment.Packages) > 0 {
		b.WriteString(aptLine(in.Environment.Packages...))
	}
	fmt.Fprintf(&b, "WORKDIR %s\n", in.Environment.Workdir)
	for i, s := range in.Environment.Steps {
		switch {
		case s.Run != "":
			b.WriteString(runLine(s.Run))
		case s.Workdir != "":
			fmt.Fprintf(&b, "WORKDIR %s\n", s.Workdir)
		case s.Copy != nil:
			fmt.Fprintf(&b, "COPY %s\n", list("files/"+s.Copy.From, s.Copy.To))
		case s.Write != nil:
			name := fmt.Sprintf("write/%d", i)
			r.context[name] = file{data: []byte(s.Write.Text)}
			fmt.Fprintf(&b, "COPY %s\n", list(name, s.Write.To))
		case s.Cmd == "":
			return nil, leave("task.json has an empty step")
		}
	}
	r.dockerfile = b.String()
	return r, nil
}

// runLine runs a command as the Dockerfile did that the step is from.
func runLine(command string) string {
	if !strings.ContainsAny(command, "\n\r") && !strings.HasSuffix(command, "\\") && !strings.HasPrefix(command, "[") {
		return "RUN " + command + "\n"
	}
	return "RUN " + list("/bin/sh", "-c", command) + "\n"
}

// list renders a JSON list of strings.
func list(items ...string) string {
	b, _ := json.Marshal(items) // strings of a file that was read strictly
	return string(b)
}

// metadata is pairs of names and values, without the empty ones.
func metadata(pairs ...any) map[string]any {
	out := map[string]any{}
	for pair := range slices.Chunk(pairs, 2) {
		name := pair[0].(string) //nolint:errcheck,forcetypeassert // as written above
		switch v := pair[1].(type) {
		case string:
			if v != "" {
				out[name] = v
			}
		case []string:
			if len(v) > 0 {
				out[name] = v
			}
		case jsontext.Value:
			if v != nil {
				out[name] = v
			}
		case map[string]any:
			maps.Copy(out, v)
		}
	}
	return out
}
