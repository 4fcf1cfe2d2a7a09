package ownagent

import (
	"errors"
	"fmt"
	"slices"

	"securebench/internal/config"
	"securebench/internal/fault"
)

// Variables looks at the variables that are forwarded: it warns of those that are not
// set, and refuses to go on without those that are required.
func (a *Agent) Variables(h config.Harness, lookup func(string) (string, bool), warn func(string)) error {
	var errs []error
	for i, name := range h.Env {
		value, ok := lookup(name)
		if name == "PATH" {
			a.Path = value
		}
		if ok || a.Needs.Relay != nil && name == a.Needs.Relay.KeyEnv { // without which no run begins
			continue
		}
		at := h.Pos
		if i < len(h.EnvPos) {
			at = h.EnvPos[i]
		}
		if slices.Contains(h.Required, name) {
			errs = append(errs, fault.Errorf(fault.Config, "%s: harness.env requires %s, which is not set (set it in the environment or in the env file)", at, name))
			continue
		}
		warn(fmt.Sprintf("%s: harness.env names %s, which is not set: the agent does not get it (set it, or write {name: %s, required: true} to never run without it)", at, name, name))
	}
	return errors.Join(errs...)
}
