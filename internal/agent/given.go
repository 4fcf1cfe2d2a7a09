package agent

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"

	"securebench/internal/candidate"
	"securebench/internal/pipeline/capture"
	"securebench/internal/pipeline/produce"
	"securebench/internal/pipeline/record"
	"securebench/internal/task"
	"securebench/internal/verdict"
)

// The built-in agents run no program: their candidate enters at capture and
// passes through the same verification and records as any other.
const (
	OracleName = record.OracleAgent
	NullName   = "null"
	ReplayName = "replay"
)

// given is a production whose candidate exists from the start.
type given struct {
	agent     string
	kind      task.CandidateKind
	origin    candidate.Origin
	data      []byte // of a text, code or patch
	tree      func(context.Context) (candidate.Candidate, error)
	rejection *candidate.Rejection
	limit     int64
	sink      candidate.Sink
	stop      string // why the model stopped; "" is not known
}

func (g *given) blank() bool {
	return g.rejection != nil || g.tree == nil && len(bytes.TrimSpace(g.data)) == 0
}

// Run returns the record's description of the candidate.
func (g *given) Run(context.Context) (produce.Result, error) {
	m := verdict.NewMetadata(map[string]any{"harness": g.agent})
	if g.origin != "" {
		m.Set("candidate_kind", g.kind)
		m.Set(record.OriginKey, g.origin)
	}
	res := produce.Result{Metadata: m}
	if g.stop != "" {
		m.Set(verdict.StopKey, g.stop)
		res.Usage = g.count()
	}
	return res, nil
}

// count counts what came of the answer, by the names of the record's usage.
func (g *given) count() map[string]int64 {
	out := map[string]int64{"answers": 1}
	declined := verdict.Declined(g.stop)
	for name, is := range map[string]bool{
		"answers_truncated": verdict.CutOff(g.stop),
		"answers_empty":     !declined && len(bytes.TrimSpace(g.data)) == 0,
		"answers_refused":   declined,
	} {
		if is {
			out[name] = 1
		}
	}
	return out
}

// Capture admits the candidate under the run's bounds.
func (g *given) Capture(ctx context.Context, _ produce.Result) (res capture.Result, err error) {
	if g.rejection != nil {
		return capture.Result{Rejection: g.rejection}, nil
	}
	c, err := g.admit(ctx)
	if errors.As(err, &res.Rejection) {
		return res, nil
	}
	if err != nil {
		return res, fmt.Errorf("capturing the candidate: %w", err)
	}
	res.Candidate = &c
	return res, nil
}

func (g *given) admit(ctx context.Context) (candidate.Candidate, error) {
	if g.tree != nil {
		return g.tree(ctx)
	}
	if _, err := candidate.Admit(g.kind, g.origin, g.data, g.limit); err != nil {
		return candidate.Candidate{}, err
	}
	return g.sink.Put(g.kind, g.origin, bytes.NewReader(g.data))
}

// Command returns nothing.
func (*given) Command() Command { return Command{} }

// Close does nothing.
func (*given) Close(context.Context) error { return nil }

// nothing is a production without a candidate.
func nothing(agent, why string) *given {
	return &given{agent: agent, rejection: candidate.Reject(verdict.CandidateMissing, "%s", why)}
}

// Oracle submits the row's own reference solution, or runs it if it is a
// program.
type Oracle struct {
	Limit int64 // of a text, code or patch in bytes; 0 is the default
	// Runner runs programs; without it, programs are not supported.
	Runner *Runner
}

// Name returns "oracle".
func (*Oracle) Name() string { return OracleName }

// Sandboxed is false: most solutions need no sandbox.
func (*Oracle) Sandboxed() bool { return false }

// Prepare takes the solution from the request.
func (o *Oracle) Prepare(ctx context.Context, req Request, out Output) (Production, error) {
	switch sol := req.Solution; {
	case sol == nil:
		return nothing(OracleName, "the row has no reference solution"), nil
	case sol.Command != nil:
		return o.Runner.program(ctx, req, out)
	case sol.Files != nil:
		return o.Runner.files(req, out)
	case sol.Kind == task.Text && inlines(req.View):
		return inline(&given{agent: OracleName, origin: candidate.Given, sink: out.Sink}, req.View, o.Runner.owner(req), sol.Data), nil
	default:
		return &given{agent: OracleName, kind: sol.Kind, origin: candidate.Given, data: sol.Data, limit: o.Limit, sink: out.Sink}, nil
	}
}

// Submits reports whether an agent submits its rows' own solutions.
func Submits(a Agent) bool {
	_, ok := a.(*Oracle)
	return ok
}

// Null submits an empty candidate.
type Null struct{}

// Name returns "null".
func (Null) Name() string { return NullName }

// Sandboxed is false.
func (Null) Sandboxed() bool { return false }

// Prepare returns the empty candidate.
func (Null) Prepare(_ context.Context, req Request, out Output) (Production, error) {
	g := &given{agent: NullName, kind: req.View.Extraction().Kind, origin: candidate.Given, sink: out.Sink}
	if g.kind == task.Workspace {
		g.tree = func(context.Context) (candidate.Candidate, error) {
			return stream(out.Sink, candidate.Given, func(w io.Writer) error {
				_, err := candidate.NewTreeWriter(w, candidate.Bounds{}).Close() // the empty tree
				return err
			})
		}
	}
	return g, nil
}
