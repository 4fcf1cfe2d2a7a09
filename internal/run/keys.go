package run

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"securebench/internal/fault"
	"securebench/internal/harness"
	"securebench/internal/redact"
	"securebench/internal/source"
	"securebench/internal/task"
)

// registerKeys takes the keys of providers from the environment and the env file:
// that of the harness's own, and what the usual variables hold. They are looked for
// in whatever agents get, and redacted. A short one is neither, which is said once.
func (r *Run) registerKeys() {
	names := harness.KeyVariables()
	if p := r.needs().Provider(); p != nil && !slices.Contains(names, p.KeyEnv) {
		names = append([]string{p.KeyEnv}, names...)
	}
	var short []string
	for _, name := range names {
		value, _ := r.LookupEnv(name)
		switch value = strings.TrimSpace(value); {
		case value == "":
		case len(value) < redact.MinKey:
			short = append(short, name)
		default:
			if err := errors.Join(r.keys.Add(name, []byte(value)), r.secrets.Add(name, []byte(value))); err != nil {
				r.warn(err.Error())
			}
		}
	}
	if len(short) > 0 {
		r.warn(fmt.Sprintf("%s: fewer than %d characters, as servers of one's own take them: not looked for in what agents get, and not redacted",
			strings.Join(short, ", "), redact.MinKey))
	}
}

// refuseKeys refuses a configuration that gives agents the key of a provider under
// another name.
func (r *Run) refuseKeys() error {
	if r.keys.Empty() {
		return nil
	}
	var ps source.Problems
	h := r.Config.Harness
	for i, name := range h.Env {
		value, _ := r.LookupEnv(name)
		key := r.keys.Find([]byte(value))
		if p := r.needs().Provider(); key == "" || p != nil && name == p.KeyEnv { // which is not forwarded
			continue
		}
		at := h.Pos
		if i < len(h.EnvPos) {
			at = h.EnvPos[i]
		}
		ps.Add(at, "remove it; with harness.config.model the agent reaches its provider through a relay that keeps the key",
			"harness.env forwards %s, whose value contains the provider's key that is in %s", name, key)
	}
	r.refuseKeysIn(&ps, h.Config)
	return fault.As(fault.Config, ps.Err())
}

// refuseKeysIn looks through a part of the configuration.
func (r *Run) refuseKeysIn(ps *source.Problems, n *source.Node) {
	if n == nil {
		return
	}
	found := func(at source.Pos, text string) {
		if key := r.keys.Find([]byte(text)); key != "" {
			ps.Add(at, "remove it, and leave the key in the environment or the env file",
				"the provider's key that is in %s stands here in harness.config, which agents and records get", key)
		}
	}
	found(n.Pos, n.Text)
	for _, item := range n.Items {
		r.refuseKeysIn(ps, item)
	}
	for _, f := range n.Fields {
		found(f.Pos, f.Name)
		r.refuseKeysIn(ps, f.Value)
	}
}

// keyInTask refuses a task whose row brings the key of a provider into its agent's
// sandbox.
func (r *Run) keyInTask(v task.AgentView) error {
	if r.keys.Empty() {
		return nil
	}
	texts := slices.Concat(v.Environment().Env, []string{v.Instruction()})
	for _, x := range v.Payload() {
		text, ok := x.Text()
		if !ok {
			text = string(x.Value)
		}
		texts = append(texts, text)
	}
	for _, text := range texts {
		if key := r.keys.Find([]byte(text)); key != "" {
			return fmt.Errorf("task %q: what its agent gets contains the provider's key that is in %s (remove it from the row)", v.ID(), key)
		}
	}
	return nil
}
