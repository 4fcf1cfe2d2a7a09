package agent

import (
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"securebench/internal/agent/model"
	"securebench/internal/redact"
	"securebench/internal/trajectory"
)

// stepsOf are those of a question that was asked without an agent, in the form that all
// agents' steps have.
func stepsOf(q model.Question, res model.Result, secrets *redact.Registry) []byte {
	r := trajectory.NewRecorder(secrets)
	for i, t := range res.Tries {
		if t.Own || q.Choices != nil && t.Error == "" && i < len(res.Tries)-1 { // how likely one of the choices is
			continue
		}
		r.Asked(t.Began, func(add func(trajectory.Step) bool) {
			message := func(role, text string) bool {
				return add(trajectory.Step{Kind: trajectory.Message, Role: role, Text: text})
			}
			going := q.System == "" || message("system", q.System)
			for _, x := range q.Examples {
				going = going && message("user", x.User) && message("assistant", x.Assistant)
			}
			_ = going && message("user", q.User)
		})
		took := time.Duration(t.Took)
		end := trajectory.Step{By: trajectory.Relay, Kind: trajectory.Error, At: t.Began.Add(took), Took: took.Milliseconds(), Text: t.Error}
		if t.Error != "" || i < len(res.Tries)-1 {
			r.Answered(nil, end)
			continue
		}
		u := res.Usage
		end.By, end.Kind, end.Model, end.Reason, end.Estimated = trajectory.Model, trajectory.Answer, res.Model, res.Stop, u.Guessed
		end.Usage = &trajectory.Usage{Input: u.Input, Cached: u.Cached, Output: u.Output}
		r.Answered(said(q, res.Answer), end)
	}
	return r.Lines()
}

// said are the steps of an answer. Calls of tools are its text then.
func said(q model.Question, a model.Answer) (out []trajectory.Step) {
	add := func(kind trajectory.Kind, name, text string) {
		if text != "" {
			out = append(out, trajectory.Step{Kind: kind, Name: name, Text: text})
		}
	}
	add(trajectory.Reasoning, "", a.Reasoning)
	var calls []struct {
		Name      string         `json:"name"`
		Arguments jsontext.Value `json:"arguments"`
	}
	if len(q.Tools) == 0 || json.Unmarshal([]byte(a.Text), &calls, json.RejectUnknownMembers(true)) != nil || len(calls) == 0 {
		add(trajectory.Message, "", a.Text)
		return out
	}
	add(trajectory.Message, "", a.Beside)
	for _, c := range calls {
		add(trajectory.Call, c.Name, string(c.Arguments))
	}
	return out
}
