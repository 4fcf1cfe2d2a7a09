package export

import (
	"archive/zip"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"time"
	"unicode/utf8"

	"securebench/internal/digest"
	"securebench/internal/trajectory"
	"securebench/internal/verdict"
)

// object is a JSON object of a format of others.
type object = map[string]any

// inspectVersion is that of Inspect's log format.
const inspectVersion = 2

// maxSummary bounds a text in the list of samples, in bytes.
const maxSummary = 1000

// Inspect writes the run as a log of Inspect: an archive with a file for each attempt.
func (r *Run) Inspect(to io.Writer) error {
	z := zip.NewWriter(to)
	add := func(name string, v any) error {
		body, err := encode(v)
		if err != nil {
			return fmt.Errorf("encoding %s: %w", name, err)
		}
		part, err := z.CreateHeader(&zip.FileHeader{Name: name, Method: zip.Deflate, Modified: time.Date(1980, 1, 1, 0, 0, 0, 0, time.UTC)})
		if err == nil {
			_, err = part.Write(body)
		}
		if err != nil {
			return fmt.Errorf("writing %s: %w", name, err)
		}
		return nil
	}
	if err := add("_journal/start.json", object{"version": inspectVersion, "eval": r.spec(), "plan": object{}}); err != nil {
		return err
	}
	summaries, sums := []object{}, map[verdict.Basis]*tally{}
	usage := object{}
	for a, err := range r.attempts() {
		if err != nil {
			return err
		}
		sample, summary := a.sample()
		if err := add(a.sampleName(), sample); err != nil {
			return err
		}
		summaries = append(summaries, summary)
		count(sums, a)
		addUsage(usage, a)
	}
	if err := add("summaries.json", summaries); err != nil {
		return err
	}
	header := object{"version": inspectVersion, "status": "success", "eval": r.spec(), "plan": object{},
		"results": r.results(sums), "stats": object{"started_at": r.Manifest.Started, "completed_at": r.Ended, "model_usage": usage}}
	if err := add("header.json", header); err != nil {
		return err
	}
	if err := z.Close(); err != nil {
		return fmt.Errorf("completing the log: %w", err)
	}
	return nil
}

// modelName is what Inspect calls the model: a provider and a name.
func (r *Run) modelName() string {
	if m := r.Manifest; m.Model != "" {
		return m.Agent + "/" + m.Model
	}
	return "securebench/" + r.Manifest.Agent
}

// spec says what was evaluated.
func (r *Run) spec() object {
	m := r.Manifest
	return object{"run_id": m.RunID, "eval_id": m.RunID, "created": m.Started, "task": m.Pack.ID, "task_id": m.Pack.ID, "task_version": m.Pack.Version,
		"dataset": object{"name": m.Pack.ID, "samples": m.Planned.Tasks}, "model": r.modelName(),
		"config": object{"epochs": m.Planned.Attempts}, "packages": object{"securebench": m.Version}, "scorers": []object{{"name": "computed"}, {"name": "judged"}},
		"metadata": object{"agent": m.Agent, "labels": m.Labels, "left_out": m.Planned.LeftOut, "digests": m.Digests,
			"note": "exported from a signed run of securebench: only the run itself can be verified"}}
}

// tally counts the verdicts of one basis.
type tally struct{ passed, verdicts, records int }

func count(sums map[verdict.Basis]*tally, a *attempt) {
	is := a.ByRule()
	t := sums[is.Basis]
	if t == nil {
		t = &tally{}
		sums[is.Basis] = t
	}
	t.records++
	if is.Status == verdict.StatusPassed {
		t.passed++
	}
	if is.Status != verdict.StatusPending {
		t.verdicts++
	}
}

// results has a rate for what was computed and one for what was judged, over what was
// planned.
func (r *Run) results(sums map[verdict.Basis]*tally) object {
	p := r.Manifest.Planned
	planned := map[verdict.Basis]int{verdict.Computed: (p.Tasks - p.Judged) * p.Attempts, verdict.Judged: p.Judged * p.Attempts}
	scores, completed := []object{}, 0
	for _, basis := range []verdict.Basis{verdict.Computed, verdict.Judged} {
		t := sums[basis]
		if t == nil || planned[basis] == 0 {
			continue
		}
		completed += t.verdicts
		rate := float64(t.passed) / float64(planned[basis])
		scores = append(scores, object{"name": basis.String(), "scorer": basis.String(), "scored_samples": t.verdicts, "unscored_samples": t.records - t.verdicts,
			"metrics": object{"accuracy": object{"name": "accuracy", "value": rate}}})
	}
	return object{"total_samples": p.Tasks * p.Attempts, "completed_samples": completed, "scores": scores}
}

// sampleName is the file of an attempt. A task's id is a stranger's.
func (a *attempt) sampleName() string {
	name := fmt.Sprintf("samples/%s_epoch_%d.json", a.TaskID, a.Attempt)
	if !fs.ValidPath(name) || strings.ContainsAny(name, "\\:") {
		hex, _ := digest.Hex(digest.Bytes([]byte(a.TaskID)))
		name = fmt.Sprintf("samples/%s_epoch_%d.json", hex, a.Attempt)
	}
	return name
}

// sample returns an attempt as Inspect has it, and its line in the list of all.
func (a *attempt) sample() (sample, summary object) {
	is := a.ByRule()
	value := map[verdict.Status]string{verdict.StatusPassed: "C", verdict.StatusFailed: "I"}[is.Status]
	if value == "" {
		value = "N" // no answer that was scored
	}
	score := object{"value": value, "answer": a.shown(), "explanation": strings.TrimSpace(string(is.Reason) + " " + a.FailureMessage),
		"metadata": object{"outcome": a.Outcome, "containment": a.Containment, "labels": a.Labels, "candidate": a.Digests.Candidate}}
	metadata := object{"index": a.Index, "family": a.TaskType, "outcome": a.Outcome, "failure_reason": a.FailureReason, "failure_phase": a.FailurePhase,
		"containment": a.Containment, "labels": a.Labels}
	messages, usage := a.messages(), object{}
	addUsage(usage, a)
	common := object{"id": a.TaskID, "epoch": a.Attempt, "target": "", "metadata": metadata, "scores": object{is.Basis.String(): score},
		"model_usage": usage, "total_time": float64(a.Timings["total"]) / 1000}
	sample, summary = object{}, object{"completed": true, "message_count": len(messages), "input": cut(a.question())}
	for k, v := range common {
		sample[k], summary[k] = v, v
	}
	short := object{"value": value, "answer": cut(a.shown())}
	summary["scores"] = object{is.Basis.String(): short}
	sample["input"], sample["messages"] = a.question(), messages
	sample["output"] = object{"model": a.run.modelName(), "completion": a.shown(),
		"choices": []object{{"message": object{"role": "assistant", "content": a.shown(), "source": "generate"}, "stop_reason": "stop"}}}
	if a.Outcome == verdict.Infrastructure {
		sample["error"] = object{"message": a.FailureMessage, "traceback": "", "traceback_ansi": ""}
		summary["error"] = cut(a.FailureMessage)
	}
	return sample, summary
}

// cut is the beginning of a text.
func cut(s string) string {
	if len(s) <= maxSummary {
		return s
	}
	n := maxSummary
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n] + "..."
}

// addUsage adds the tokens of an attempt to those of its model.
func addUsage(to object, a *attempt) {
	if _, ok := a.Usage["input_tokens"]; !ok {
		return
	}
	name := a.run.modelName()
	u, ok := to[name].(object)
	if !ok {
		u = object{"input_tokens": int64(0), "output_tokens": int64(0), "total_tokens": int64(0)}
		to[name] = u
	}
	add := func(key string, n int64) {
		old, _ := u[key].(int64)
		u[key] = old + n
	}
	in, out := a.Usage["input_tokens"], a.Usage["output_tokens"]
	add("input_tokens", in)
	add("output_tokens", out)
	add("total_tokens", in+out)
	if cached, ok := a.Usage["cached_input_tokens"]; ok {
		add("input_tokens_cache_read", cached)
	}
	if reasoning, ok := a.Usage["reasoning_tokens"]; ok {
		add("reasoning_tokens", reasoning)
	}
}

// messages are the conversation: of the steps if they are there, or else the question and
// the candidate.
func (a *attempt) messages() []object {
	if len(a.steps) == 0 {
		out := []object{{"role": "user", "content": a.question(), "source": "input"}}
		if a.shown() != "" {
			out = append(out, object{"role": "assistant", "content": a.shown(), "source": "generate"})
		}
		return out
	}
	var out []object
	for _, t := range turns(a.steps) {
		switch t.role {
		case "system", "user":
			out = append(out, object{"role": t.role, "content": t.text})
		default:
			out = append(out, t.assistant())
			for _, res := range t.results {
				m := object{"role": "tool", "content": res.Text, "function": res.Name}
				if res.Call != "" {
					m["tool_call_id"] = res.Call
				}
				if res.Failed {
					m["error"] = object{"type": "unknown", "message": "the tool failed, as the agent says"}
				}
				out = append(out, m)
			}
		}
	}
	return out
}

// assistant is a turn of the model as a message.
func (t *turn) assistant() object {
	content := []object{}
	if t.reasoning != "" {
		content = append(content, object{"type": "reasoning", "reasoning": t.reasoning})
	}
	if t.text != "" || len(content) == 0 {
		content = append(content, object{"type": "text", "text": t.text})
	}
	m := object{"role": "assistant", "content": content}
	if t.model != "" {
		m["model"] = t.model
	}
	if t.by == trajectory.Model {
		m["source"] = "generate"
	}
	calls := []object{}
	for _, c := range t.calls {
		calls = append(calls, object{"id": c.Call, "function": c.Name, "arguments": arguments(c.Text), "type": "function"})
	}
	if len(calls) > 0 {
		m["tool_calls"] = calls
	}
	return m
}
