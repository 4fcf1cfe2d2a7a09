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
	// accounts keep what is used of all providers; nil until they are opened.
	accounts *record.Accounts
	used     map[string]int64
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

// Accounts opens the accounts of a run's attempts, once: whoever is asked notes in them
// what it is paid. used is what the records of an earlier part say, and what is returned
// all that it has used.
func (a *Answers) Accounts(dir *record.Dir, used map[string]int64) (_ *record.Accounts, all map[string]int64, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.accounts == nil {
		if a.accounts, a.used, err = dir.Accounts(used); err != nil {
			return nil, nil, err
		}
	}
	return a.accounts, a.used, nil
}

// Close closes them before the run is complete. It is idempotent.
func (a *Answers) Close() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.journal.Close()
}
