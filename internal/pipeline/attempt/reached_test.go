package attempt

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"securebench/internal/candidate"
	"securebench/internal/pipeline/capture"
	"securebench/internal/pipeline/produce"
	"securebench/internal/redact"
	"securebench/internal/sandbox"
	"securebench/internal/task"
	"securebench/internal/verdict"
)

// provided is what a relay knows.
type provided struct{}

func (provided) Usage() map[string]int64 { return map[string]int64{"requests": 3} }
func (provided) Words() (_, _ string)    { return "why", "max_tokens" }
func (provided) Held() time.Duration     { return 2 * time.Second }
func (provided) Trace() ([]byte, []byte) {
	return []byte("secret-value-0123456789\n"), []byte("a secret-value-0123456789\n")
}

// TestReached: what the run knows of an agent's requests is added to what another process
// says of it, without a secret.
func TestReached(t *testing.T) {
	var secrets redact.Registry
	if err := secrets.Add("NAME", []byte("secret-value-0123456789")); err != nil {
		t.Fatal(err)
	}
	r := Reached{Reached: produce.Reached{Lines: []byte("relay\n"), Counts: map[string]int64{"relay_allowed": 3, "proxy_denied": 1}, Provider: provided{}}, Secrets: &secrets}
	p := Produced{Metadata: verdict.NewMetadata(map[string]any{"network": map[string]int64{"proxy_denied": 2}, "exit_code": 0}), Usage: map[string]int64{"steps": 7},
		Raw: map[string][]byte{produce.NetworkFile: []byte("proxy\n"), "stdout": []byte("out")}, End: sandbox.Exited}
	r.AddTo(&p)
	want := Produced{Metadata: verdict.NewMetadata(map[string]any{"network": map[string]int64{"proxy_denied": 3, "relay_allowed": 3}, "exit_code": 0, "relay_refusal": "why", "stop_reason": "max_tokens", "held_seconds": 2}),
		Usage: map[string]int64{"steps": 7, "requests": 3}, End: sandbox.Exited,
		Raw: map[string][]byte{produce.NetworkFile: []byte("proxy\nrelay\n"), "exchanges.jsonl": []byte("[redacted:NAME]\n"), "steps.jsonl": []byte("a [redacted:NAME]\n"), "stdout": []byte("out")}}
	if d := cmp.Diff(want, p); d != "" {
		t.Errorf("-want +got\n%s", d)
	}
	var none Produced
	r.AddTo(&none)
	if none.Usage["requests"] != 3 || string(none.Raw[produce.NetworkFile]) != "relay\n" {
		t.Errorf("%+v", none)
	}
}

// TestCutOffByRelay: an agent's text is cut off if the last answer of its model was; what
// it wrote to a file is whole.
func TestCutOffByRelay(t *testing.T) {
	for origin, want := range map[candidate.Origin]bool{candidate.Stdout: true, candidate.File: false} {
		c := candidate.New(task.Text, origin, []byte("4"))
		p := Produced{Candidate: &c, End: sandbox.Exited}
		Reached{Reached: produce.Reached{Provider: provided{}}}.AddTo(&p)
		if p.Candidate.CutOff != want || c.CutOff {
			t.Errorf("%s: %v", origin, p.Candidate.CutOff)
		}
		ran := produce.Result{Metadata: verdict.NewMetadata(map[string]any{verdict.StopKey: "max_tokens"})}
		if p := produced(ran, capture.Result{Candidate: &c}); p.Candidate.CutOff != want {
			t.Errorf("%s, in a sandbox here: %v", origin, p.Candidate.CutOff)
		}
	}
}

// TestReachedDecides: whether an attempt has used its budget, and whether its end is that
// of the run, is what the relay says, and not what a worker does.
func TestReachedDecides(t *testing.T) {
	r := Reached{Reached: produce.Reached{Provider: provided{}}, Spent: true}
	c := candidate.New(task.Text, candidate.Stdout, []byte("4"))
	for end, want := range map[sandbox.End]sandbox.End{sandbox.Exited: produce.OverBudget, sandbox.TimedOut: ""} {
		p := Produced{Candidate: &c, End: end}
		r.AddTo(&p)
		if p.Limit != want || (p.Candidate == nil) != (want != "") {
			t.Errorf("%s: %+v", end, p)
		}
	}
	busy := errors.New("the engine is busy")
	for name, tt := range map[string]struct {
		known, says error
		phase       verdict.Phase
		want        Class
	}{
		"a lie":           {nil, produce.ErrRejected, verdict.PhaseProduce, Infrastructure},
		"another lie":     {nil, produce.ErrSpent, verdict.PhaseProduce, Infrastructure},
		"busy":            {nil, busy, verdict.PhaseProduce, Infrastructure},
		"waited":          {nil, produce.ErrWaited, verdict.PhaseProduce, Final},
		"rejected":        {fmt.Errorf("%w: 401", produce.ErrRejected), busy, verdict.PhaseProduce, Rejected},
		"spent":           {produce.ErrSpent, produce.ErrSpent, verdict.PhaseProduce, Spent},
		"spent and later": {produce.ErrSpent, busy, verdict.PhaseCapture, Infrastructure},
	} {
		e := Failed(tt.says, tt.phase)
		Reached{Err: tt.known}.AddToError(e)
		if e.Class != tt.want || tt.want == Spent && !errors.Is(e, produce.ErrSpent) {
			t.Errorf("%s: %s", name, e.Class)
		}
	}
}
