package preferencepair

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"securebench/internal/family"
	"securebench/internal/task"
)

// present returns the two orders of a pair: as written, and exchanged. With one order, the
// attempt's secret says which: no order in a pack teaches anything.
func present(v task.AgentView, c family.Case) []*task.AgentView {
	a, _ := v.Get("candidate_a")
	b, _ := v.Get("candidate_b")
	written := v.Presented(nil, mark(v, c.Seed, "A"))
	turned := v.Presented(map[string]jsontext.Value{"candidate_a": b.Value, "candidate_b": a.Value}, mark(v, c.Seed, "B"))
	out := []*task.AgentView{&written, &turned}
	if !isBoth(c.Sandbox) {
		out[1-chosen(c.Seed)] = nil
	}
	return out
}

// chosen returns which order is made where only one is.
func chosen(seed [32]byte) int { return int(derive(seed, "order")[0] & 1) }

func derive(seed [32]byte, label string) []byte {
	m := hmac.New(sha256.New, seed[:])
	m.Write([]byte("preference_pair " + label))
	return m.Sum(nil)
}

// mark returns a text of 128 bits that parts the values of one presentation, and that is
// in none of them.
func mark(v task.AgentView, seed [32]byte, order string) string {
	for label := "mark " + order; ; label += "'" {
		m := strings.ToUpper(hex.EncodeToString(derive(seed, label)[:16]))
		found := false
		for _, r := range v.Payload() {
			found = found || strings.Contains(string(r.Value), m)
		}
		if !found {
			return m
		}
	}
}
