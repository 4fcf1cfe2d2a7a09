package scripted

import (
	"encoding/base64"
	"fmt"
	"path"
	"strings"

	"github.com/go-json-experiment/json"

	"securebench/internal/lazyregexp"
)

// call is a tool call in the terms of an API.
type call struct {
	kind      string // type of the item: function_call, custom_tool_call, local_shell_call or tool_use
	namespace string
	name      string
	input     string // JSON, or a custom tool's text
}

// calls turns the actions of a turn into calls of tools that the request
// declares.
func (r *Request) calls(t Turn) ([]call, error) {
	var out []call
	add := func(c call, err error) error {
		out = append(out, c)
		return err
	}
	if t.Run != "" {
		if err := add(r.shell(t.Run)); err != nil {
			return nil, err
		}
	}
	if t.Read != "" {
		if err := add(r.readFile(t.Read)); err != nil {
			return nil, err
		}
	}
	if t.Write != nil {
		if err := add(r.writeFile(*t.Write)); err != nil {
			return nil, err
		}
	}
	if t.Edit != nil {
		if err := add(r.editFile(*t.Edit)); err != nil {
			return nil, err
		}
	}
	if t.Call != nil {
		out = append(out, r.anyCall(*t.Call))
	}
	return out, nil
}

// shell runs a command with the agent's shell tool.
func (r *Request) shell(line string) (call, error) {
	if c, ok := r.plainShell(line); ok {
		return c, nil
	}
	t, ok := r.tool("exec", "exec_command", "shell_command", "shell", "local_shell", "Bash", "run_shell_command", "bash")
	if !ok {
		return call{}, fmt.Errorf("the request declares no shell tool")
	}
	c := call{kind: "function_call", namespace: t.Namespace, name: t.Name}
	argv := []string{"bash", "-lc", line}
	switch {
	case t.Name == "exec" && t.Type == "custom":
		return r.script("exec_command", map[string]any{"cmd": line, "yield_time_ms": 30_000}, "result.output"), nil
	case t.Name == "exec_command":
		c.input = object(map[string]any{"cmd": line, "yield_time_ms": 30_000})
	case t.Name == "shell_command", t.Name == "run_shell_command", t.Name == "bash":
		c.input = object(map[string]any{"command": line})
	case t.Name == "Bash":
		c.kind, c.input = "tool_use", object(map[string]any{"command": line, "description": "Run a command"})
	case t.Type == "local_shell":
		c.kind, c.input = "local_shell_call", object(map[string]any{"type": "exec", "command": argv})
	default:
		c.input = object(map[string]any{"command": argv})
	}
	return c, nil
}

// plainShell runs a command with a tool that takes nothing but commands.
func (r *Request) plainShell(line string) (call, bool) {
	return r.byRole([]string{"bash", "run_shell_command", "terminal", "execute_bash"}, given{command(), line})
}

// script calls a tool from within code mode.
func (r *Request) script(tool string, argument any, result string) call {
	t, _ := r.tool("exec")
	return call{kind: "custom_tool_call", namespace: t.Namespace, name: t.Name,
		input: fmt.Sprintf("const result = await tools.%s(%s);\ntext(%s);\n", tool, object(argument), result)}
}

func (r *Request) readFile(name string) (call, error) {
	if _, ok := r.tool("Read"); ok {
		return call{kind: "tool_use", name: "Read", input: object(map[string]any{"file_path": r.absolute(name)})}, nil
	}
	if c, ok := r.byRole([]string{"read", "read_file"}, given{file(), r.absolute(name)}); ok {
		return c, nil
	}
	return r.shell("cat -- " + quote(name))
}

func (r *Request) writeFile(f File) (call, error) {
	if _, ok := r.tool("Write"); ok {
		return call{kind: "tool_use", name: "Write", input: object(map[string]any{"file_path": r.absolute(f.Path), "content": f.Content})}, nil
	}
	if c, ok := r.byRole([]string{"write", "write_file"}, given{file(), r.absolute(f.Path)}, given{content(), f.Content}); ok {
		return c, nil
	}
	name := quote(f.Path)
	return r.shell(fmt.Sprintf(`mkdir -p "$(dirname -- %s)" && printf %%s %s | base64 -d > %s`,
		name, quote(base64.StdEncoding.EncodeToString([]byte(f.Content))), name))
}

func (r *Request) editFile(e Edit) (call, error) {
	if _, ok := r.tool("Edit"); ok {
		return call{kind: "tool_use", name: "Edit", input: object(map[string]any{
			"file_path": r.absolute(e.Path), "old_string": e.Old, "new_string": e.New})}, nil
	}
	if c, ok := r.byRole([]string{"edit", "replace"}, given{file(), r.absolute(e.Path)}, given{before(), e.Old}, given{after(), e.New}); ok {
		return c, nil
	}
	var p strings.Builder
	fmt.Fprintf(&p, "*** Begin Patch\n*** Update File: %s\n@@\n", e.Path)
	for _, side := range []struct{ sign, text string }{{"-", e.Old}, {"+", e.New}} {
		for line := range strings.Lines(side.text) {
			fmt.Fprintf(&p, "%s%s\n", side.sign, strings.TrimSuffix(line, "\n"))
		}
	}
	p.WriteString("*** End Patch\n")
	if t, ok := r.tool("exec"); ok && t.Type == "custom" {
		return r.script("apply_patch", p.String(), "result"), nil
	}
	if c, ok := r.byRole([]string{"apply_patch"}, given{patch(), p.String()}); ok {
		return c, nil
	}
	if t, ok := r.tool("apply_patch"); ok {
		return call{kind: "custom_tool_call", namespace: t.Namespace, name: t.Name, input: p.String()}, nil
	}
	const replace = `perl -0pi -e 'BEGIN { ($old, $new) = splice @ARGV, 0, 2 } s/\Q$old\E/$new/' -- `
	if c, ok := r.plainShell(replace + quote(e.Old) + " " + quote(e.New) + " " + quote(e.Path)); ok {
		return c, nil
	}
	return r.shell("apply_patch <<'END_OF_PATCH'\n" + p.String() + "END_OF_PATCH") // a command that Codex knows
}

func (r *Request) anyCall(c Call) call {
	out := call{kind: "function_call", namespace: c.Namespace, name: c.Name, input: object(c.Arguments)}
	if r.API == messages { // the other two have functions
		out.kind = "tool_use"
	}
	return out
}

// workdir finds the agent's folder, which Claude Code, Qwen Code and Gemini CLI say in
// their prompts.
var workdir = lazyregexp.New(`(?:Primary working directory: |working in the directory: |Workspace Directories:\*\*\\n  - )([^\\"\s]+)`)

func (r *Request) absolute(name string) string {
	m := workdir.FindSubmatch(r.Body)
	if m == nil || path.IsAbs(name) {
		return name
	}
	return path.Join(string(m[1]), name)
}

// quote makes a word of a shell.
func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

// object is JSON of a value that has no odd parts.
func object(v any) string {
	b, err := json.Marshal(v, json.Deterministic(true))
	if err != nil {
		return "{}"
	}
	return string(b)
}
