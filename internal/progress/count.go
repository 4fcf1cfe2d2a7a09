package progress

import "sync"

// Count reports the tasks of a command that is no run: a check of a pack, or of a run.
type Count struct {
	To    Reporter
	Total int // verdicts; 0 is not known

	mu    sync.Mutex
	begun int
}

// Begin reports the beginning of a verification.
func (c *Count) Begin(taskID string, attempt int, family string) {
	c.mu.Lock()
	c.begun++
	index := c.begun
	c.mu.Unlock()
	c.To.Event(TaskStart{Index: index, Total: max(c.Total, index), TaskID: taskID, Attempt: attempt, Family: family})
	c.To.Event(VerifierStart{TaskID: taskID, Attempt: attempt})
}
