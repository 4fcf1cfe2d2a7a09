package record

import "testing"

// TestWorkers: a record may name only workers that the run let in, in their roles, and a
// run says whether agents and verifiers were apart.
func TestWorkers(t *testing.T) {
	m := Manifest{Format: ManifestFormat, Planned: Planned{Tasks: 1, Attempts: 1},
		Workers: []Worker{{ID: "a.1", Roles: []string{RoleProduce}}, {ID: "v.1", Roles: []string{RoleVerify}}}}
	for _, tt := range []struct {
		by By
		ok bool
	}{
		{By{}, true}, {By{Produce: "a.1"}, true}, {By{"a.1", "v.1"}, true}, {By{Verify: "v.1"}, true},
		{By{Produce: "v.1"}, false}, {By{Verify: "a.1"}, false}, {By{Produce: "a.2"}, false}, {By{"a.1", "a.1"}, false},
	} {
		if err := m.Made(tt.by); (err == nil) != tt.ok {
			t.Errorf("%+v: %v", tt.by, err)
		}
	}
	if m.LabelZone(); m.OneZone() || len(m.Labels) != 0 {
		t.Errorf("workers of one role each: %s", m.Labels)
	}
	for name, w := range map[string]Worker{"twice": {ID: "a.1", Roles: []string{RoleVerify}}, "no role": {ID: "x"}, "another role": {ID: "x", Roles: []string{"sign"}}, "no name": {Roles: []string{RoleVerify}}} {
		bad := m
		bad.Workers = append(bad.Workers[:2:2], w)
		if err := bad.check(); err == nil {
			t.Errorf("%s is accepted", name)
		}
	}
	m.Workers[1].Roles = append(m.Workers[1].Roles, RoleProduce)
	if m.LabelZone(); !m.OneZone() || len(m.Labels) != 1 || m.check() != nil {
		t.Errorf("a worker with both roles: %s", m.Labels)
	}
}
