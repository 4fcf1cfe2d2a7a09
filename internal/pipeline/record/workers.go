package record

import (
	"fmt"
	"slices"
)

// The roles of workers on other machines.
const (
	RoleProduce = "produce"
	RoleVerify  = "verify"
)

// By names the workers that made the calls of an attempt, "" for the process of the run.
type By struct {
	Produce string `json:"produce,omitzero"`
	Verify  string `json:"verify,omitzero"`
}

// Worker is a worker on another machine that the run let in. Its build is the run's, and
// its engine is the run's in all but the kernel.
type Worker struct {
	ID     string   `json:"id"` // the name of its credential, and a name of its process
	Roles  []string `json:"roles"`
	Kernel string   `json:"kernel,omitzero"`
	First  string   `json:"first"` // seen; RFC 3339, UTC
	Last   string   `json:"last"`
	Jobs   int      `json:"jobs"` // that it was given, as far as the run has written down
}

// OneZone reports whether agents and verifiers worked for processes that had what both
// need, on other machines: shards, or workers with both roles.
func (m *Manifest) OneZone() bool {
	return m.Shards != nil && len(m.Shards.Parts) > 0 || slices.ContainsFunc(m.Workers, func(w Worker) bool { return len(w.Roles) > 1 })
}

// OracleAgent is the name of the agent that submits rows' own solutions. Those that are
// programs are run by workers that verify, since they are hidden.
const OracleAgent = "oracle"

// Made returns an error unless the run let in the workers that made the calls of an
// attempt, in these roles.
func (m *Manifest) Made(by By) error {
	for role, id := range map[string]string{RoleProduce: by.Produce, RoleVerify: by.Verify} {
		if m.Agent == OracleAgent {
			role = RoleVerify
		}
		if id != "" && !slices.ContainsFunc(m.Workers, func(w Worker) bool { return w.ID == id && slices.Contains(w.Roles, role) }) {
			return fmt.Errorf("the run let in no worker %q with the role %s", id, role)
		}
	}
	return nil
}

// checkWorkers rejects workers that no run can have.
func (m *Manifest) checkWorkers() error {
	seen := map[string]bool{}
	for _, w := range m.Workers {
		if w.ID == "" || seen[w.ID] || len(w.Roles) == 0 || slices.ContainsFunc(w.Roles, func(r string) bool { return r != RoleProduce && r != RoleVerify }) {
			return fmt.Errorf("it has a worker %q that no run can have", w.ID)
		}
		seen[w.ID] = true
	}
	return nil
}
