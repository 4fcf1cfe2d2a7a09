package preview

import (
	"securebench/internal/pipeline/record"
	"securebench/internal/verdict"
)

// Estimate is what the attempts that remain would take, judging by the records of
// an earlier run.
type Estimate struct {
	From     string `json:"from"`
	Verified bool   `json:"verified"` // whether that run verifies
	Records  int    `json:"records"`  // that were used
	// Known is how many of the tasks have records there; the others are judged by
	// their family, or by all.
	Known   int     `json:"known_tasks"`
	Seconds float64 `json:"seconds"` // from start to end
	// MicroUSD is the cost, absent if the records have none.
	MicroUSD     *int64 `json:"cost_microusd,omitzero"`
	InputTokens  int64  `json:"input_tokens,omitzero"`
	OutputTokens int64  `json:"output_tokens,omitzero"`
}

// past is what an earlier run's records say.
type past struct {
	name     string
	verified bool
	final    int // records that a resume keeps
	all      sum
	tasks    map[string]*sum
	families map[string]*sum
	judged   judged
}

// sum adds up attempts.
type sum struct {
	attempts, passes      int
	millis, verifying     float64 // verifying is that of passes
	priced                int
	cost, tokens, written float64
}

// add adds a record. Records of attempts that failed leave out how long the
// verification took, because that may depend on hidden values.
func (p *past) add(e record.Entry) {
	if e.Outcome == verdict.Infrastructure {
		return
	}
	p.final++
	p.judged.add(e)
	if p.tasks[e.TaskID] == nil {
		p.tasks[e.TaskID] = &sum{}
	}
	if p.families[e.TaskType] == nil {
		p.families[e.TaskType] = &sum{}
	}
	for _, s := range []*sum{&p.all, p.tasks[e.TaskID], p.families[e.TaskType]} {
		s.attempts++
		s.millis += float64(e.Timings["total"])
		if e.Passed {
			s.passes++
			s.verifying += float64(e.Timings[verdict.PhaseVerify])
		}
		if cost, ok := e.Usage["cost_microusd"]; ok {
			s.priced++
			s.cost += float64(cost)
		}
		s.tokens += float64(e.Usage["input_tokens"])
		s.written += float64(e.Usage["output_tokens"])
	}
}

// guesser adds up estimates of single tasks.
type guesser struct {
	past    *past
	tasks   int
	known   int
	millis  float64
	longest float64
	cost    float64
	priced  bool
	tokens  float64
	written float64
}

func (p *past) guesser() *guesser { return &guesser{past: p, priced: true} }

// add adds an attempt at a task.
func (g *guesser) add(id, family string) {
	g.tasks++
	p := g.past
	if p == nil || p.all.attempts == 0 {
		return
	}
	like, near := p.tasks[id], p.families[family]
	if near == nil {
		near = &p.all
	}
	if like != nil {
		g.known++
	} else {
		like = near
	}
	n := float64(like.attempts)
	millis := like.millis / n
	if near.passes > 0 { // what failed was also verified
		millis += near.verifying / float64(near.passes) * float64(like.attempts-like.passes) / n
	}
	g.millis += millis
	g.longest = max(g.longest, millis)
	if like.priced > 0 {
		g.cost += like.cost / float64(like.priced)
	}
	g.priced = g.priced && like.priced > 0
	g.tokens += like.tokens / n
	g.written += like.written / n
}

// estimate scales the sum to the attempts that remain.
func (g *guesser) estimate(p *Preview) *Estimate {
	if g.past == nil || g.past.all.attempts == 0 || g.tasks == 0 {
		return nil
	}
	scale := float64(p.Remaining) / float64(g.tasks)
	e := &Estimate{
		From: g.past.name, Verified: g.past.verified, Records: g.past.all.attempts, Known: g.known,
		InputTokens: int64(g.tokens * scale), OutputTokens: int64(g.written * scale),
	}
	if p.Remaining > 0 {
		e.Seconds = max(g.millis*scale/float64(max(1, p.atOnce)), g.longest) / 1000
	}
	if g.priced {
		cost := int64(g.cost * scale)
		e.MicroUSD = &cost
	}
	return e
}
