package export

import (
	"fmt"
	"io"
	"slices"
	"time"

	"securebench/internal/trajectory"
)

// atifVersion is that of the Agent Trajectory Interchange Format.
const atifVersion = "ATIF-v1.7"

// withoutSteps says why a trajectory has two steps.
const withoutSteps = "The steps of the agent are the operator's and not in this file: it has what was asked and what was scored (securebench export --steps)."

// ATIF writes a trajectory of the Agent Trajectory Interchange Format for each attempt.
// Create makes a file of a name.
func (r *Run) ATIF(create func(name string, write func(io.Writer) error) error) error {
	for a, err := range r.attempts() {
		if err != nil {
			return err
		}
		body, err := encode(a.trajectory())
		if err != nil {
			return fmt.Errorf("encoding the trajectory of %q: %w", a.TaskID, err)
		}
		err = create(fmt.Sprintf("%d-%d.json", a.Index, a.Attempt), func(w io.Writer) error {
			_, err := w.Write(append(body, '\n'))
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// trajectory is the attempt in that format.
func (a *attempt) trajectory() object {
	m := a.run.Manifest
	version := "unknown"
	if len(m.Programs) > 0 {
		version = m.Programs[0].Version
	}
	agent := object{"name": a.Agent, "version": version}
	if model := a.model(); model != "" {
		agent["model_name"] = model
	}
	steps := a.atifSteps()
	out := object{"schema_version": atifVersion, "session_id": m.RunID, "trajectory_id": fmt.Sprintf("%s/%s/%d", m.RunID, a.TaskID, a.Attempt),
		"agent": agent, "steps": steps, "final_metrics": a.metrics(len(steps)),
		"extra": object{"securebench": object{"pack": m.Pack.ID, "pack_version": m.Pack.Version, "task_id": a.TaskID, "attempt": a.Attempt,
			"status": a.Status, "outcome": a.Outcome, "failure_reason": a.FailureReason, "basis": a.Basis.String(), "containment": a.Containment,
			"labels": a.Labels, "candidate": a.Digests.Candidate}}}
	if len(a.steps) == 0 {
		out["notes"] = withoutSteps
	} else if a.omitted > 0 {
		out["notes"] = fmt.Sprintf("%d more steps are not there, because there were too many.", a.omitted)
	}
	return out
}

// metrics are those of the whole attempt.
func (a *attempt) metrics(steps int) object {
	out := object{"total_steps": steps}
	for key, name := range map[string]string{"input_tokens": "total_prompt_tokens", "output_tokens": "total_completion_tokens", "cached_input_tokens": "total_cached_tokens"} {
		if n, ok := a.Usage[key]; ok {
			out[name] = n
		}
	}
	if n, ok := a.Usage["cost_microusd"]; ok {
		out["total_cost_usd"] = float64(n) / 1e6
	}
	return out
}

// atifSteps has a step for each turn, or for the question and the candidate.
func (a *attempt) atifSteps() []object {
	if len(a.steps) == 0 {
		return []object{{"step_id": 1, "source": "user", "message": a.question()}, {"step_id": 2, "source": "agent", "message": a.shown()}}
	}
	out := []object{}
	for i, t := range turns(a.steps) {
		s := object{"step_id": i + 1, "timestamp": t.at.UTC().Format(time.RFC3339Nano), "source": t.role, "message": t.text}
		if t.role == "assistant" {
			s["source"] = "agent"
			t.atif(s)
		}
		out = append(out, s)
	}
	return out
}

// atif adds what only a turn of the agent has.
func (t *turn) atif(s object) {
	if t.by != trajectory.Model { // the agent's word, which no answer had
		s["extra"] = object{"said_by": "agent"}
	}
	if t.reasoning != "" {
		s["reasoning_content"] = t.reasoning
	}
	if t.model != "" {
		s["model_name"] = t.model
	}
	calls := []object{}
	for _, c := range t.calls {
		calls = append(calls, object{"tool_call_id": c.Call, "function_name": c.Name, "arguments": arguments(c.Text)})
	}
	if len(calls) > 0 {
		s["tool_calls"] = calls
	}
	results := []object{}
	for _, res := range t.results {
		r := object{"content": res.Text}
		if slices.ContainsFunc(t.calls, func(c trajectory.Step) bool { return res.Call != "" && c.Call == res.Call }) {
			r["source_call_id"] = res.Call
		}
		if res.Failed {
			r["extra"] = object{"failed": true}
		}
		results = append(results, r)
	}
	if len(results) > 0 {
		s["observation"] = object{"results": results}
	}
	if t.answer != nil && t.answer.Usage != nil {
		u := t.answer.Usage
		s["metrics"] = object{"prompt_tokens": u.Input, "completion_tokens": u.Output, "cached_tokens": u.Cached}
	}
}
