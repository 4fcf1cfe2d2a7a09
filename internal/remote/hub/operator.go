package hub

import (
	"fmt"
	"slices"

	"github.com/nats-io/nats.go"

	"securebench/internal/remote"
)

// listenOperator answers whoever the hub is of.
func (h *Hub) listenOperator() error {
	_, err := h.broker.conn.Subscribe(remote.OperatorSubject, func(m *nats.Msg) {
		h.reply(m, "the operator", func() (any, error) {
			return asked(m.Data, func(q remote.Question) any {
				told := h.drain(q.Drain)
				out := h.Status()
				out.Drained = told
				return out
			})
		})
	})
	if err != nil {
		return fmt.Errorf("listening to the operator: %w", err)
	}
	return nil
}

// drain tells workers to leave when they have finished what they have: those with a
// credential, or one. "" is none.
func (h *Hub) drain(name string) (told []string) {
	h.mu.Lock()
	for id, w := range h.workers {
		if name != "" && (w.Name == name || id == name) && !w.left {
			w.leaves, w.draining = true, true
			told = append(told, id)
		}
	}
	h.mu.Unlock()
	slices.Sort(told)
	for _, id := range told {
		_ = h.broker.conn.Publish(remote.Notice(id), nil) // it hears it with its next beat otherwise
	}
	return told
}
