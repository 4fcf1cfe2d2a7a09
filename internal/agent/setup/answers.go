package setup

import (
	"errors"
	"sync"

	"securebench/internal/agent/model"
	"securebench/internal/pipeline/record"
)

// Answers keep, in the directory of a run, what its models answer. All model clients
// of the run share them, each under its own name.
type Answers struct {
	mu      sync.Mutex
	journal *model.Journal // nil until they are opened
}

// Open opens them, once. An earlier part of the run may have asked already.
func (a *Answers) Open(dir *record.Dir) (*model.Journal, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.journal != nil {
		return a.journal, nil
	}
	file, err := dir.Answers()
	if err != nil {
		return nil, err
	}
	salt := dir.Salt()
	a.journal, err = model.OpenJournal(file, func(key string, answer []byte) string { return salt.Keyed("answer", key, answer) })
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return a.journal, nil
}

// Close closes them before the run is complete. It is idempotent.
func (a *Answers) Close() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.journal.Close()
}
