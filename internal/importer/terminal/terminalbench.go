package terminal

import (
	"strings"

	"securebench/internal/lazyregexp"
	"securebench/internal/source"
)

// benchTask is a task.yaml.
type benchTask struct {
	Instruction  string   `json:"instruction"`
	Descriptions any      `json:"descriptions"`
	Author       string   `json:"author_name"`
	Email        string   `json:"author_email"`
	Difficulty   string   `json:"difficulty"`
	Category     string   `json:"category"`
	Tags         []string `json:"tags"`
	Parser       string   `json:"parser_name"`
	AgentSeconds *float64 `json:"max_agent_timeout_sec"`
	TestSeconds  *float64 `json:"max_test_timeout_sec"`
	SameShell    bool     `json:"run_tests_in_same_shell"`
	Unrecorded   bool     `json:"disable_asciinema"`
	Expert       *float64 `json:"expert_time_estimate_min"`
	Junior       *float64 `json:"junior_time_estimate_min"`
	Estimated    *float64 `json:"estimated_duration_sec"`
}

// readTerminalBench reads a task.yaml and what lies beside it.
func readTerminalBench(f folder, name string) (*task, error) {
	var in benchTask
	if err := decodeYAML(f, "task.yaml", &in); err != nil {
		return nil, err
	}
	switch {
	case in.Descriptions != nil:
		return nil, leave("it has several descriptions")
	case in.Parser != "" && in.Parser != "pytest":
		return nil, leave("the output of its tests is read by the parser %s", in.Parser)
	case in.SameShell:
		return nil, leave("its tests run in the agent's own shell")
	case f.text("Dockerfile") == "":
		return nil, leave("it has no Dockerfile")
	case services(f, "docker-compose.yaml") != 1:
		return nil, leave("it has several containers")
	}
	t := &task{name: name, instruction: in.Instruction, workdir: lastWorkdir(f.text("Dockerfile")),
		agentSeconds: seconds(in.AgentSeconds, 360), testSeconds: seconds(in.TestSeconds, 60), tests: f.below("tests"), solution: folder{},
		metadata: metadata("difficulty", in.Difficulty, "category", in.Category, "tags", in.Tags, "author", in.Author)}
	if err := t.benchSolution(f); err != nil {
		return nil, err
	}
	context := folder{}
	for name, content := range f {
		first, _, _ := strings.Cut(name, "/")
		switch first {
		case "task.yaml", "tests", "run-tests.sh", "docker-compose.yaml", "Dockerfile", "solution.sh", "solution.yaml":
		default:
			context[name] = content
		}
	}
	t.recipe = &recipe{dockerfile: f.text("Dockerfile"), context: context}
	if leaks.MatchString(t.recipe.dockerfile) {
		return nil, leave("its Dockerfile copies the tests or the solution")
	}
	var err error
	if t.checker, err = scriptChecker("run-tests.sh", f.text("run-tests.sh"), ""); err != nil {
		return nil, err
	}
	t.live = t.needsServer()
	t.findRoots()
	if t.importsWorkspace(context) {
		t.addWorkspace()
	}
	return t, nil
}

// leaks matches lines that copy what the agent must not see.
var leaks = lazyregexp.New(`(?mi)^[ \t]*(?:COPY|ADD)[ \t].*(?:\btests/|\bsolution\.|run-tests)`)

// services counts the containers of a compose file; no file counts as one.
func services(f folder, name string) int {
	content, ok := f[name]
	if !ok {
		return 1
	}
	node, err := source.ParseYAML(name, content.data)
	if err != nil {
		return 0
	}
	return fieldsOf(node.Get("services"))
}

// typed is a command of a solution that was typed into a terminal.
type typed struct {
	Command    string   `json:"command"`
	MinTimeout *float64 `json:"min_timeout_sec"`
	MaxTimeout *float64 `json:"max_timeout_sec"`
	Block      *bool    `json:"block"`
	Enter      *bool    `json:"append_enter"`
}

// benchSolution reads the solution: a script, or what is typed.
func (t *task) benchSolution(f folder) error {
	if script, ok := f["solution.sh"]; ok {
		t.solution["solution.sh"] = script
		return nil
	}
	if _, ok := f["solution.yaml"]; !ok {
		return nil
	}
	var lines []typed
	if err := decodeYAML(f, "solution.yaml", &lines); err != nil {
		return err
	}
	var b strings.Builder
	b.WriteString("#!/bin/bash\n")
	for _, l := range lines {
		if l.Enter != nil && !*l.Enter {
			return nil // keys for a program on the terminal: no script does that
		}
		b.WriteString(l.Command + "\n")
	}
	t.solution["solution.sh"] = file{data: []byte(b.String())}
	return nil
}

func fieldsOf(n *source.Node) int {
	if n == nil {
		return 0
	}
	return len(n.Fields)
}
