package events

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
)

// Rule says what one kind of event means. Its paths are names of members with dots
// between them; in a list, a number is a position.
type Rule struct {
	// Where are the values that members of the event have, by their paths; with "" a
	// member is absent or null. Each is the path of a list: the paths below are those of
	// its elements, and with "." before them those of the event.
	Where map[string]string `json:"where"`
	Each  string            `json:"each"`

	// Message is the path of what the agent says to its user, or a part of it if
	// Part is set: parts that follow each other are one message.
	Message string `json:"message"`
	Part    bool   `json:"part"`
	// Result is the path of the last message once more, which counts as no step.
	Result string `json:"result"`
	// Call are the paths of what a tool call shows: its name and what it is about.
	Call []string `json:"call"`
	// Done are the paths of what is shown of a call's end, in the trace alone.
	Done  []string `json:"done"`
	Error string   `json:"error"` // the path of an error's words
}

func (r Rule) check() error {
	kinds := 0
	for _, is := range []bool{r.Message != "", r.Result != "", len(r.Call) > 0, len(r.Done) > 0, r.Error != ""} {
		if is {
			kinds++
		}
	}
	switch {
	case kinds != 1:
		return errors.New("want exactly one of message, result, call, done and error")
	case r.Part && r.Message == "":
		return errors.New("part: it is about a message, and there is none")
	case len(r.Where) == 0:
		return errors.New("where: want what the event looks like")
	}
	return nil
}

// ruleEvent returns what reads an event by rules: the first that fits it, or each
// element of a list in it.
func ruleEvent(rules []Rule) func(*Reader, []byte) bool {
	return func(r *Reader, line []byte) bool {
		event, ok := readAs[map[string]any](line)
		if !ok {
			r.endPart()
			return false
		}
		part, read := false, map[place]bool{}
		for _, rule := range rules {
			for i, element := range rule.elements(event) {
				if here := (place{rule.Each, i}); !read[here] && rule.fits(event, element) {
					read[here] = true
					if !rule.Part {
						r.endPart()
					}
					r.apply(rule, event, element)
					part = part || rule.Part
				}
			}
		}
		if !part {
			r.endPart()
		}
		return true
	}
}

// place is an element of a list in an event, or the event.
type place struct {
	list string
	i    int
}

// maxElements is how many elements of a list are looked at.
const maxElements = 1000

// elements returns what a rule is about: the event, or the elements of a list in it.
func (r Rule) elements(event any) []any {
	if r.Each == "" {
		return []any{event}
	}
	list, _ := at(event, r.Each).([]any)
	return list[:min(len(list), maxElements)]
}

func (r Rule) fits(event, element any) bool {
	for path, want := range r.Where {
		got, ok := text(member(event, element, path))
		if got != want || ok != (want != "") {
			return false
		}
	}
	return true
}

// apply takes what a rule says that an event is.
func (r *Reader) apply(rule Rule, event, element any) {
	get := func(path string) string {
		s, _ := text(member(event, element, path))
		return s
	}
	all := func(paths []string) string {
		var words []string
		for _, p := range paths {
			if s := get(p); s != "" {
				words = append(words, s)
			}
		}
		return strings.Join(words, " ")
	}
	switch {
	case rule.Part:
		r.part(get(rule.Message))
	case rule.Message != "":
		if s := get(rule.Message); s != "" {
			r.message(s)
		}
	case rule.Result != "":
		if s := get(rule.Result); s != "" {
			r.sum.Message = s
		}
	case len(rule.Call) > 0:
		r.call("run", all(rule.Call))
	case len(rule.Done) > 0:
		r.emit("done", short(all(rule.Done), maxFinished), true)
	case rule.Error != "":
		r.say("error", get(rule.Error))
	}
}

// part takes a piece of a message.
func (r *Reader) part(s string) {
	if r.parts == nil {
		r.parts = &strings.Builder{}
		r.sum.Steps++
	}
	if r.parts.Len()+len(s) <= MaxLine {
		r.parts.WriteString(s)
	}
	r.sum.Message = r.parts.String()
}

// endPart ends a message of which there were pieces.
func (r *Reader) endPart() {
	if r.parts != nil {
		r.say("", r.parts.String())
		r.parts = nil
	}
}

// member returns a member of an element, or of the whole event if the path begins
// with a dot.
func member(event, element any, path string) any {
	if rest, ok := strings.CutPrefix(path, "."); ok {
		return at(event, rest)
	}
	return at(element, path)
}

// at follows a path, as far as there is anything.
func at(value any, path string) any {
	for name := range strings.SplitSeq(path, ".") {
		switch v := value.(type) {
		case map[string]any:
			value = v[name]
		case []any:
			i, err := strconv.Atoi(name)
			if err != nil || i < 0 || i >= len(v) {
				return nil
			}
			value = v[i]
		default:
			return nil
		}
	}
	return value
}

// text returns what a value is in words, and whether there is one.
func text(value any) (string, bool) {
	switch v := value.(type) {
	case nil:
		return "", false
	case string:
		return v, true
	case map[string]any, []any:
		b, err := json.Marshal(v, json.Deterministic(true))
		return string(b), err == nil
	default:
		return fmt.Sprint(v), true
	}
}
