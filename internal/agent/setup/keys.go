package setup

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"securebench/internal/agent/harness"
	"securebench/internal/config"
	"securebench/internal/fault"
	"securebench/internal/judge/provider"
	"securebench/internal/redact"
	"securebench/internal/source"
	"securebench/internal/task"
)

// Keys are the keys of providers, which no agent gets.
type Keys struct{ found redact.Registry }

// Keys takes the keys of providers from the environment and the env file: those of the
// agent's own, if it names some, and what the usual variables hold. They are looked for
// in whatever agents get, and redacted. A short one is neither, which is said once.
func (a Around) Keys(own ...string) *Keys {
	names := slices.Concat(own, harness.KeyVariables())
	if s, _ := provider.Parse(a.Config.Judge); s != nil { // whoever the agent's provider is
		names = append(names, s.Model.Variables()...)
	}
	k := &Keys{}
	var short []string
	for i, name := range names {
		if slices.Contains(names[:i], name) {
			continue
		}
		switch value := strings.TrimSpace(a.Getenv(name)); {
		case value == "":
		case len(value) < redact.MinKey:
			short = append(short, name)
		default:
			if err := errors.Join(k.found.Add(name, []byte(value)), a.Secrets.Add(name, []byte(value))); err != nil {
				a.Warn(err.Error())
			}
		}
	}
	if len(short) > 0 {
		a.Warn(fmt.Sprintf("%s: the key has fewer than %d characters, so it is not looked for in what agents get, and not redacted",
			strings.Join(short, ", "), redact.MinKey))
	}
	return k
}

// Refuse refuses a configuration that gives agents a key under another name than own,
// which is not forwarded.
func (k *Keys) Refuse(h config.Harness, own string, getenv func(string) string) error {
	if k.found.Empty() {
		return nil
	}
	var ps source.Problems
	for i, name := range h.Env {
		if key := k.found.Find([]byte(getenv(name))); key != "" && name != own {
			ps.Add(h.EnvAt(i), "remove it; with harness.config.model the agent reaches its provider through a relay that keeps the key",
				"harness.env forwards %s, whose value contains the provider's key that is in %s", name, key)
		}
	}
	k.refuseIn(&ps, h.Config)
	return fault.As(fault.Config, ps.Err())
}

// refuseIn looks through a part of the configuration.
func (k *Keys) refuseIn(ps *source.Problems, n *source.Node) {
	if n == nil {
		return
	}
	found := func(at source.Pos, text string) {
		if key := k.found.Find([]byte(text)); key != "" {
			ps.Add(at, "remove it, and leave the key in the environment or the env file",
				"harness.config contains the provider's key that is in %s, and agents and records get harness.config", key)
		}
	}
	found(n.Pos, n.Text)
	for _, item := range n.Items {
		k.refuseIn(ps, item)
	}
	for _, f := range n.Fields {
		found(f.Pos, f.Name)
		k.refuseIn(ps, f.Value)
	}
}

// InTask refuses a task whose row brings a key into its agent's sandbox.
func (k *Keys) InTask(v task.AgentView) error {
	if k.found.Empty() {
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
		if key := k.found.Find([]byte(text)); key != "" {
			return fmt.Errorf("task %q: what its agent gets contains the provider's key that is in %s (remove it from the row)", v.ID(), key)
		}
	}
	return nil
}
