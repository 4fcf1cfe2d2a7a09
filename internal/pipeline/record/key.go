package record

// AttemptKey identifies an attempt of a run. Attempts count from 1.
type AttemptKey struct {
	Task    string
	Attempt int
}

// Key identifies the attempt that the record is of.
func (l *Line) Key() AttemptKey { return AttemptKey{l.TaskID, l.Attempt} }
