package export

import (
	"fmt"
	"time"

	"securebench/internal/trajectory"
)

// turn is what one side said before another did: a message of a request, or an answer of the
// model with its calls and their results.
type turn struct {
	at        time.Time
	by        trajectory.By
	role      string // system, user, assistant, or relay for a request without an answer
	text      string
	reasoning string
	model     string
	calls     []trajectory.Step
	results   []trajectory.Step
	answer    *trajectory.Step // that ended it
}

// turns groups steps. Every call has an id, and every result that has one belongs to the
// turn with that call, or to the last one.
func turns(steps []trajectory.Step) []*turn {
	g := grouping{calls: map[string]*turn{}}
	for _, s := range steps {
		g.add(s)
	}
	return g.out
}

// grouping is turns in the making.
type grouping struct {
	out   []*turn
	open  *turn // the model's answer that goes on
	calls map[string]*turn
	n     int
}

func (g *grouping) add(s trajectory.Step) {
	switch s.Kind {
	case trajectory.Message:
		if s.By == trajectory.Model {
			g.model(s).text = joined(g.model(s).text, s.Text)
			return
		}
		g.open = nil
		g.out = append(g.out, &turn{at: s.At, by: s.By, role: role(s.Role), text: s.Text})
	case trajectory.Reasoning:
		t := g.model(s)
		t.reasoning = joined(t.reasoning, s.Text)
	case trajectory.Call:
		t := g.model(s)
		g.n++
		if s.Call == "" || g.calls[s.Call] != nil {
			s.Call = fmt.Sprintf("call-%d", g.n)
		}
		g.calls[s.Call] = t
		t.calls = append(t.calls, s)
	case trajectory.Result:
		t := g.calls[s.Call]
		if t == nil {
			s.Call = ""
			t = g.last(s)
		}
		g.open = nil
		t.results = append(t.results, s)
	case trajectory.Answer:
		t := g.model(s)
		t.answer, t.model = &s, s.Model
		g.open = nil
	case trajectory.Error:
		g.open = nil
		g.out = append(g.out, &turn{at: s.At, by: s.By, role: "system", text: fmt.Sprintf("a request had no answer: %s (status %d)", s.Reason, s.Status)})
	}
}

// model is the answer of the model that goes on, or a new one.
func (g *grouping) model(s trajectory.Step) *turn {
	if g.open == nil || g.open.by != s.By {
		g.open = &turn{at: s.At, by: s.By, role: "assistant"}
		g.out = append(g.out, g.open)
	}
	return g.open
}

// last is the last turn of the model, or a new one.
func (g *grouping) last(s trajectory.Step) *turn {
	for i := len(g.out) - 1; i >= 0; i-- {
		if g.out[i].role == "assistant" {
			return g.out[i]
		}
	}
	return g.model(s)
}

// role is one that every format knows.
func role(name string) string {
	switch name {
	case "system", "developer":
		return "system"
	case "assistant":
		return "assistant"
	}
	return "user"
}

func joined(a, b string) string {
	if a == "" || b == "" {
		return a + b
	}
	return a + "\n\n" + b
}
