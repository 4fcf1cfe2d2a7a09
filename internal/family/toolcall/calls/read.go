package calls

import (
	"slices"
	"strings"

	"securebench/internal/lazyregexp"
)

// Call is one stated call.
type Call struct {
	Name      string
	Arguments Value // a Dict, or Invalid
	// Source says that the call was written in Python's syntax.
	Source bool
}

// Value is the call as [Read] reads it from JSON.
func (c Call) Value() Value {
	return Value{Kind: Dict, Members: []Member{{"name", Value{Kind: String, Text: c.Name}}, {"arguments", c.Arguments}}}
}

// State is what a text states.
type State uint8

// The states.
const (
	Nothing   State = iota // no call, and nothing that looks like one
	Broken                 // something that looks like calls and cannot be read
	Ambiguous              // several lists of calls that differ
	Stated                 // a list of calls, which may be empty
)

// MaxCalls is the most calls of a list, and MaxText the most bytes of a text that is read.
const (
	MaxCalls = 1000
	MaxText  = 1 << 20
)

// Read returns what a text states, without reasoning and the tokens of a chat: all of it
// is a list of calls, or its elements named tool_call are, or a fenced block.
func Read(text string) ([]Call, State) {
	if len(text) > MaxText {
		return nil, Broken
	}
	text = strings.TrimSpace(text)
	if list, state := block(text); state == Stated {
		return list, state
	}
	found, broken := []([]Call){}, false
	note := func(list []Call, state State) {
		switch {
		case state == Broken:
			broken = true
		case state == Stated && !slices.ContainsFunc(found, func(l []Call) bool { return same(l, list) }):
			found = append(found, list)
		}
	}
	if inside, ok := elements(text); ok {
		note(join(inside))
	}
	for _, b := range fenced(text) {
		if len(found) < 2 {
			note(block(b))
		}
	}
	switch {
	case len(found) > 1 || len(found) == 1 && broken:
		return nil, Ambiguous
	case len(found) == 1:
		return found[0], Stated
	case broken || looksLike(text) || hint.MatchString(text):
		return nil, Broken
	}
	return nil, Nothing
}

// Whole reports whether all of a text is a list of calls. Tags in it belong to its values
// then, and are no reasoning.
func Whole(text string) bool {
	if len(text) > MaxText {
		return false
	}
	_, state := block(text)
	return state == Stated
}

// hint is what calls have in the forms that are not read: members named arguments, a list
// in Python's syntax, a line that is a call of it, or an element of calls.
var hint = lazyregexp.New(`"(?:arguments|parameters)"\s*:|\[\s*[A-Za-z_][A-Za-z0-9_.]*\(|` +
	`(?m:^\s*[A-Za-z_][A-Za-z0-9_.]*\((?:\w+\s*=.*)?\)\s*$)|<(?:tool_calls?|function)\b`)

// ReadOfficial returns what a text states by the rules of BFCL's own scorer, which reads
// all of a text as Python and takes nothing out of prose: what it cannot decode is no
// call. Calls in JSON, which it gets from the interface of a provider, count as well.
func ReadOfficial(text string) ([]Call, State) {
	if len(text) > MaxText {
		return nil, Nothing
	}
	trimmed := strings.TrimSpace(text)
	if inside, ok := elements(trimmed); ok {
		if list, state := join(inside); state == Stated {
			return list, state
		}
		return nil, Nothing
	}
	if list, state := jsonCalls(trimmed); state == Stated {
		return list, state
	}
	source := strings.Trim(text, "`\n ")
	if !strings.HasPrefix(source, "[") {
		source = "[" + source
	}
	if !strings.HasSuffix(source, "]") {
		source += "]"
	}
	if list, ok := officialCalls(strings.Trim(strings.TrimSpace(source), "'")); ok {
		return list, Stated
	}
	return nil, Nothing
}

// looksLike reports whether a text begins as a list of calls does.
func looksLike(text string) bool {
	return strings.HasPrefix(text, "[") || strings.HasPrefix(text, "{")
}

// block reads a text all of which may be calls.
func block(text string) ([]Call, State) {
	text = strings.TrimSpace(text)
	if list, state := jsonCalls(text); state != Nothing {
		return list, state
	}
	if list, ok := jsonLines(text); ok {
		return list, Stated
	}
	if list, ok := literalCalls(text); ok {
		return list, Stated
	}
	if looksLike(text) {
		return nil, Broken
	}
	return nil, Nothing
}

// join reads texts that make up one list.
func join(texts []string) (all []Call, _ State) {
	for _, text := range texts {
		list, state := block(text)
		if state != Stated || len(all)+len(list) > MaxCalls {
			return nil, Broken
		}
		all = append(all, list...)
	}
	return all, Stated
}

const opening, closing = "<tool_call>", "</tool_call>"

// elements returns what is between the tags of a text's calls. The last may lack its end.
func elements(text string) (out []string, found bool) {
	for {
		_, rest, ok := strings.Cut(text, opening)
		if !ok {
			return out, found
		}
		inside, after, _ := strings.Cut(rest, closing)
		if len(out) > MaxCalls {
			return out, true // more than join takes
		}
		out, found, text = append(out, inside), true, after
	}
}

const fence = "```"

// fenced returns the blocks that stand between fences. The last may lack its end.
func fenced(text string) (out []string) {
	inside, begin := false, 0
	for at := 0; at < len(text); {
		end := strings.IndexByte(text[at:], '\n')
		next := at + end + 1
		if end < 0 {
			end, next = len(text)-at, len(text)
		}
		line := strings.TrimSpace(text[at : at+end])
		switch {
		case !inside && strings.HasPrefix(line, fence):
			inside, begin = true, next
		case inside && line == fence:
			inside, out = false, append(out, text[begin:at])
		}
		at = next
	}
	if inside {
		out = append(out, text[begin:])
	}
	return out
}

// same reports whether two lists are equal as they are written, but for the order of
// arguments.
func same(a, b []Call) bool {
	return slices.EqualFunc(a, b, func(x, y Call) bool { return x.Name == y.Name && x.Arguments.same(y.Arguments) })
}

func (v Value) same(w Value) bool {
	if v.Kind != w.Kind || v.Kind == Invalid || v.True != w.True || v.Text != w.Text || len(v.Members) != len(w.Members) {
		return false
	}
	if !slices.EqualFunc(v.Items, w.Items, Value.same) {
		return false
	}
	for _, m := range v.Members {
		if other, ok := w.Get(m.Name); !ok || !m.Value.same(other) {
			return false
		}
	}
	return true
}
