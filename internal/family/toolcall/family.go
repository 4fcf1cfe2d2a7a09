package toolcall

import (
	_ "embed" // the schemas
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"

	"securebench/internal/family"
	"securebench/internal/family/toolcall/calls"
	"securebench/internal/task"
	"securebench/internal/toolschema"
	"securebench/internal/verdict"
)

//go:embed schema/input.json
var inputSchema []byte

//go:embed schema/eval.json
var evalSchema []byte

// Family describes tool_call.
func Family() family.Family {
	return family.Family{
		Name:        "tool_call",
		InputSchema: inputSchema,
		EvalSchema:  evalSchema,
		Check:       check,
		Doubts:      doubtful,
		Lanes: map[string]task.Lane{
			"initial_state":        task.EvaluationInputs,
			"simulator":            task.EvaluationInputs,
			"expected_calls":       task.Hidden,
			"expected_final_state": task.Hidden,
			"match":                task.Hidden,
			"answer":               task.Hidden,
		},
		Quotes:     []string{"expected_calls"},
		Extraction: task.Extraction{Mode: task.FromStdout, Kind: task.Text},
		Instruction: "State which of the tools you would call, and with which arguments. Nothing is called. " +
			"Answer with one JSON list that has an object for each call, and with nothing else. Each object has the members " +
			"name, which is the name of a tool, and arguments, an object with the arguments by their names. " +
			"If the request needs none of the tools, answer with a sentence that says so, and with no list.",
		VerifySeconds:  300,
		Reference:      reference,
		PublicMetadata: []string{"candidate_answer", "expected_answer", "stated_calls"},
		Pending:        pending,
		Baselines:      baselines(),
		Garbage:        garbage,
		NewVerifier:    newVerifier,
	}
}

// served reports whether a row's tools are called, and not only stated.
func served(eval map[string]jsontext.Value) bool {
	return has(eval["simulator"]) || has(eval["expected_final_state"])
}

func has(v jsontext.Value) bool { return len(v) > 0 && v.Kind() != 'n' }

// declines reports whether no call is expected.
func declines(expected jsontext.Value) bool {
	v, err := calls.ParseJSON(expected)
	return err == nil && v.Kind == calls.List && len(v.Items) == 0
}

// pending leaves rows whose tools must be called.
func pending(inputs task.SandboxView, v task.EvaluatorView) (verdict.Reason, string) {
	simulator, _ := inputs.Get("simulator")
	state, _ := v.Get("expected_final_state")
	switch {
	case has(simulator.Value):
		return verdict.NoVerifier, "the row's tools are served by a simulator (eval.simulator), which securebench cannot run yet: only stated calls are scored"
	case has(state.Value):
		return verdict.NoVerifier, "eval.expected_final_state can only be compared with the state of a simulator, and the row has no eval.simulator"
	}
	return "", ""
}

// check applies the rules of a row that the schemas do not have.
func check(row family.Row) (out []family.Problem) {
	add := func(fix, message string, path ...string) {
		out = append(out, family.Problem{Path: path, Message: message, Fix: fix})
	}
	if has(row.Input["prompt"]) == has(row.Input["messages"]) {
		add("give the request as one of the two", "must have either prompt or messages", "input")
	}
	if !has(row.Eval["expected_calls"]) && !has(row.Eval["expected_final_state"]) {
		add("say which calls must be stated: expected_calls, [] if none may be", "must have expected_calls or expected_final_state", "eval")
		return out
	}
	if served(row.Eval) {
		if declines(row.Eval["expected_calls"]) && !has(row.Eval["expected_final_state"]) && !has(row.Eval["answer"]) {
			add("add expected_final_state or answer", "would be passed by doing nothing: a simulator, expected_calls: [], and nothing else that is checked", "eval")
		}
		return out
	}
	if has(row.Eval["answer"]) {
		add("remove it, or add eval.simulator", "needs a simulator: without one, what an agent answers is its calls", "eval", "answer")
	}
	k, err := newKey(row.Input["tools"], row.Eval["expected_calls"], row.Eval["match"])
	if err == nil {
		err = k.possible()
	}
	var p *place
	if errors.As(err, &p) {
		add("", p.Error(), p.path...)
	} else if err != nil {
		add("", err.Error(), "eval")
	}
	return out
}

// possible returns an error if no candidate can pass.
func (k *key) possible() error {
	switch {
	case k.match.Extra == extraReads:
		return at(errors.New("reads needs a simulator: without one, no call is known to only read"), "eval", "match", "extra")
	case k.match.State != "", len(k.match.Ignore) > 0:
		return at(errors.New("has state or ignore, which need a simulator"), "eval", "match")
	}
	for i, e := range k.expected {
		path := []string{"eval", "expected_calls", strconv.Itoa(i)}
		if k.match.Rule == ruleJSON {
			for _, a := range e.accepted {
				if _, known := e.tool.properties().Get(a.name); !known {
					return at(fmt.Errorf("accepts %q, which is no parameter of the tool %s", a.name, e.tool.name), path...)
				}
			}
		}
		c, ok := e.gold(k.match.Rule)
		if !ok || !k.fits(i, c) {
			return at(fmt.Errorf("cannot be met: the first accepted values do not fit the parameters of the tool %s, or a required one has none", e.tool.name), path...)
		}
	}
	return nil
}

// doubtful finds tools that share a name in the interfaces of providers.
func doubtful(row family.Row) (out []family.Problem) {
	tools, err := readTools(row.Input["tools"])
	if err != nil {
		return nil
	}
	for i, t := range tools {
		if j := slices.IndexFunc(tools[:i], func(o tool) bool { return toolschema.Name(o.name) == toolschema.Name(t.name) }); j >= 0 {
			out = append(out, family.Problem{Path: []string{"input", "tools", strconv.Itoa(i), "name"},
				Message: fmt.Sprintf("is the name of tools[%d] for a provider of models, which takes only letters, digits, _ and -", j),
				Fix:     "rename one of the two"})
		}
	}
	return out
}

// reference states the expected calls with the first accepted values, and without what
// may be left out.
func reference(v task.EvaluatorView) (family.Solution, bool) {
	k, err := keyOf(v)
	if err != nil {
		return family.Solution{}, false
	}
	if len(k.expected) == 0 {
		return family.Solve(task.Text, decline), true
	}
	list := calls.Value{Kind: calls.List}
	for _, e := range k.expected {
		c, ok := e.gold(k.match.Rule)
		if !ok {
			return family.Solution{}, false
		}
		list.Items = append(list.Items, c.Value())
	}
	text, ok := list.JSON()
	return family.Solve(task.Text, string(text)), ok
}

// gold is the call that meets the expectation with the fewest arguments.
func (e expected) gold(rule string) (calls.Call, bool) {
	c := calls.Call{Name: e.tool.name, Arguments: calls.Value{Kind: calls.Dict}}
	for _, a := range e.accepted {
		if (a.optional || rule == ruleBFCL && a.omissible()) && !e.tool.requires(a.name) {
			continue
		}
		i := slices.IndexFunc(a.values, func(v calls.Value) bool { return rule == ruleJSON || !isEmpty(v) })
		if i < 0 {
			return c, false
		}
		v := a.values[i]
		if rule == ruleBFCL {
			v = officialGold(v, e.tool, a.name)
		}
		c.Arguments.Members = append(c.Arguments.Members, calls.Member{Name: a.name, Value: v})
	}
	return c, true
}

// officialGold is a value for an accepted one: in objects, the data set lists the values
// of each member.
func officialGold(v calls.Value, t tool, name string) calls.Value {
	schema, _ := t.properties().Get(name)
	p := newParameter(schema, accepted{values: []calls.Value{v}})
	switch {
	case p.declared == calls.Dict && v.Kind == calls.Dict:
		return firstOfEach(v)
	case p.declared == calls.List && p.inner == calls.Dict && v.Kind == calls.List:
		out := calls.Value{Kind: calls.List}
		for _, item := range v.Items {
			out.Items = append(out.Items, firstOfEach(item))
		}
		return out
	}
	return v
}

func firstOfEach(v calls.Value) calls.Value {
	out := calls.Value{Kind: calls.Dict}
	for _, m := range v.Members {
		if len(m.Value.Items) > 0 && !slices.ContainsFunc(m.Value.Items, isEmpty) {
			out.Members = append(out.Members, calls.Member{Name: m.Name, Value: m.Value.Items[0]})
		}
	}
	return out
}

// decline is an answer that states no call.
const decline = "None of the tools can do this."

// baselines say nothing, decline, or call tools without reading the request.
func baselines() []family.Baseline {
	say := func(text string) func(task.AgentView) (string, bool) {
		return func(task.AgentView) (string, bool) { return text, true }
	}
	call := func(most int) func(task.AgentView) (string, bool) {
		return func(v task.AgentView) (string, bool) {
			r, _ := v.Get("tools")
			return callAll(r, most)
		}
	}
	return []family.Baseline{
		{Name: "nothing", Answer: say(""), Shown: true},
		{Name: "declining", Answer: say(decline), Shown: true},
		{Name: "an empty list", Answer: say("[]")},
		{Name: "the first tool", Answer: call(1)},
		{Name: "every tool", Answer: call(-1), Shown: true},
		family.Echo("prompt"),
	}
}

// garbage is a call, for rows that any text without one passes.
func garbage(v task.EvaluatorView) (string, bool) {
	list, _ := v.Get("expected_calls")
	tools, _ := v.Get("tools")
	if !declines(list.Value) {
		return "", false
	}
	return callAll(tools, 1)
}

// callAll states calls of the first tools, with what their parameters have as default or
// among their values.
func callAll(r task.Resource, most int) (string, bool) {
	tools, err := readTools(r.Value)
	if err != nil {
		return "", false
	}
	if most >= 0 {
		tools = tools[:min(most, len(tools))]
	}
	list := calls.Value{Kind: calls.List}
	for _, t := range tools {
		c := calls.Call{Name: t.name, Arguments: calls.Value{Kind: calls.Dict}}
		for _, p := range t.properties().Members {
			if t.requires(p.Name) {
				c.Arguments.Members = append(c.Arguments.Members, calls.Member{Name: p.Name, Value: guess(p.Value)})
			}
		}
		list.Items = append(list.Items, c.Value())
	}
	text, ok := list.JSON()
	return string(text), ok
}

// guess is a value that fits a parameter, without the request.
func guess(schema calls.Value) calls.Value {
	if v, ok := schema.Get("default"); ok {
		return v
	}
	if v, ok := schema.Get("enum"); ok && len(v.Items) > 0 {
		return v.Items[0]
	}
	name, _ := schema.Get("type")
	switch kind := pythonKind(name.Text); kind {
	case calls.Int, calls.Float:
		return calls.Value{Kind: kind, Text: "1"}
	case calls.Bool:
		return calls.Value{Kind: calls.Bool, True: true}
	case calls.List, calls.Dict:
		return calls.Value{Kind: kind}
	}
	return empty()
}
