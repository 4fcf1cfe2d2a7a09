package calls

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

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
// is a list of calls, or its elements named tool_call are, or a fenced block, or fenced
// blocks of one call each with nothing between them.
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
	inside, rest := elements(text)
	for i, s := range inside {
		inside[i] = unfenced(s)
	}
	if len(inside) > 0 {
		note(join(inside))
	}
	blocks := fenced(rest)
	if list, ok := sequence(rest, blocks); ok {
		note(list, Stated)
		blocks = nil
	}
	for _, b := range blocks {
		if len(found) < 2 {
			note(block(b.text))
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
	if inside, _ := elements(trimmed); len(inside) > 0 {
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

// elements returns what is between the tags of a text's calls, and the text without them.
// The last may lack its end.
func elements(text string) (out []string, rest string) {
	var without strings.Builder
	for {
		before, tail, ok := strings.Cut(text, opening)
		without.WriteString(before)
		if !ok || len(out) > MaxCalls { // more than join takes
			return out, without.String()
		}
		inside, after, _ := strings.Cut(tail, closing)
		out, text = append(out, inside), after
	}
}

const fence = "```"

// fencedBlock is a block between fences, with where these begin and end.
type fencedBlock struct {
	info, text string
	from, to   int
	closed     bool
}

// fenced returns the blocks that stand between fences. The last may lack its end.
func fenced(text string) (out []fencedBlock) {
	inside, begin, b := false, 0, fencedBlock{}
	for at := 0; at < len(text); {
		end := strings.IndexByte(text[at:], '\n')
		next := at + end + 1
		if end < 0 {
			end, next = len(text)-at, len(text)
		}
		line := strings.TrimSpace(text[at : at+end])
		switch {
		case !inside && strings.HasPrefix(line, fence):
			inside, begin, b = true, next, fencedBlock{info: strings.TrimPrefix(line, fence), from: at}
		case inside && line == fence:
			b.text, b.to, b.closed = text[begin:at], next, true
			inside, out = false, append(out, b)
		}
		at = next
	}
	if inside {
		b.text, b.to = text[begin:], len(text)
		out = append(out, b)
	}
	return out
}

// unfenced returns what is in the fence that a text is, or else the text.
func unfenced(text string) string {
	text = strings.TrimSpace(text)
	if all := fenced(text); len(all) == 1 && all[0].from == 0 && all[0].to == len(text) {
		return all[0].text
	}
	return text
}

// sequence returns the calls of blocks that follow each other with nothing between them,
// one in each. Blocks that are all the same are one that is said several times.
func sequence(text string, blocks []fencedBlock) (all []Call, ok bool) {
	if len(blocks) < 2 || len(blocks) > MaxCalls {
		return nil, false
	}
	differ := false
	for i, b := range blocks {
		list, state := block(b.text)
		if state != Stated || len(list) != 1 || i > 0 && strings.TrimSpace(text[blocks[i-1].to:b.from]) != "" {
			return nil, false
		}
		all = append(all, list[0])
		differ = differ || !same(all[:1], list)
	}
	return all, differ
}

// WithoutCode returns a text without its fenced blocks of Python that are no calls, where
// there are any and something is said beside them. What names a tool, or may be a call in
// any form but one without names of arguments, stays.
func WithoutCode(text string, names []string) (string, bool) {
	var b strings.Builder
	at := 0
	for _, f := range fenced(text) {
		if f.closed && isCode(f, names) {
			b.WriteString(text[at:f.from] + "\n")
			at = f.to
		}
	}
	rest := b.String() + text[at:]
	return rest, at > 0 && strings.TrimSpace(rest) != ""
}

// isCode reports whether a block is Python that calls nothing.
func isCode(b fencedBlock, names []string) bool {
	switch strings.ToLower(strings.TrimSpace(b.info)) {
	case "python", "python3", "py":
	default:
		return false
	}
	named := func(s string) bool { return hasWord(b.text, s) }
	says := func(s string) bool { return strings.Contains(b.text, s) }
	if slices.ContainsFunc(names, named) || slices.ContainsFunc([]string{"<tool_call", "<function", `"arguments"`, `"parameters"`}, says) {
		return false
	}
	list, state := block(b.text)
	valid := func(c Call) bool { return !c.Source || c.Arguments.Kind != Invalid }
	return state == Nothing || state == Stated && len(list) > 0 && !slices.ContainsFunc(list, valid)
}

// hasWord reports whether a text has a name that is no part of a longer one.
func hasWord(text, name string) bool {
	part := func(r rune) bool { return r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r) }
	for at := 0; name != ""; {
		i := strings.Index(text[at:], name)
		if i < 0 {
			return false
		}
		before, _ := utf8.DecodeLastRuneInString(text[:at+i])
		after, _ := utf8.DecodeRuneInString(text[at+i+len(name):])
		if !part(before) && !part(after) {
			return true
		}
		at += i + len(name)
	}
	return false
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
