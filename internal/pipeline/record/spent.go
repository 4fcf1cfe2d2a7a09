package record

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"sync"

	"github.com/go-json-experiment/json"

	"securebench/internal/digest"
	"securebench/internal/source"
)

// SpentName is the file that holds, while a run is under way, what each attempt has
// used of its agent's provider at most: a resumed run counts it for the attempts
// that have no record.
const SpentName = RestrictedName + "/spent.jsonl"

// Accounts keep what attempts use in [SpentName]. They are safe for concurrent use.
type Accounts struct {
	file *os.File
	salt digest.Salt

	mu   sync.Mutex
	size int64
	open map[AttemptKey]*account // of attempts without a record
	used map[string]int64        // by the attempts with one, while the file is read
}

// account is what one attempt has used at most.
type account struct {
	former map[string]int64 // before this process, until a try takes it over
	before map[string]int64 // in earlier tries
	last   map[string]int64 // in the latest try
}

// spent is a line of [SpentName]. It replaces the lines before it of the same attempt;
// without a usage, the attempt has its record.
type spent struct {
	Task    string           `json:"task"`
	Attempt int              `json:"attempt"`
	Usage   map[string]int64 `json:"usage,omitzero"`
	MAC     string           `json:"mac"`
}

// mac authenticates the line's content.
func (s spent) mac(salt digest.Salt) (string, error) {
	s.MAC = ""
	text, err := json.Marshal(s, json.Deterministic(true))
	return salt.Keyed("spent", s.Task, text), err
}

// Accounts opens [SpentName], and reads what an earlier process of the run wrote
// there. Lines that are cut short, or that this run did not write, do not count.
// recorded is what the records of the earlier part say, which counts if the file has
// nothing: a complete run has none. Accounts returns what all attempts of the run,
// repeated and dropped ones included, have used at most.
func (d *Dir) Accounts(recorded map[string]int64) (_ *Accounts, used map[string]int64, err error) {
	file, err := source.OpenIn(d.root, SpentName, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, nil, fmt.Errorf("opening %s: %w", SpentName, err)
	}
	a := &Accounts{file: file, salt: d.salt, open: map[AttemptKey]*account{}}
	d.mu.Lock()
	d.accounts = a // which closes it
	d.mu.Unlock()
	for raw, err := range Lines(file) {
		if err != nil {
			return nil, nil, fmt.Errorf("reading %s: %w", SpentName, err)
		}
		if raw.Torn {
			break
		}
		a.size += int64(len(raw.Bytes)) + 1
		a.read(raw.Bytes)
	}
	if err := file.Truncate(a.size); err != nil {
		return nil, nil, fmt.Errorf("reading %s: %w", SpentName, err)
	}
	if a.size == 0 && len(recorded) > 0 {
		none := AttemptKey{} // of no attempt of its own
		a.open[none] = &account{former: recorded}
		if err := a.write(none, recorded); err != nil {
			return nil, nil, err
		}
	}
	for _, at := range a.open {
		a.used = SumUsage(a.used, at.former)
	}
	return a, a.used, nil
}

// Earlier notes, in a directory without [SpentName], what the run has used before.
func (d *Dir) Earlier(used map[string]int64) error {
	if len(used) == 0 {
		return nil
	}
	accounts, _, err := d.Accounts(used)
	return errors.Join(err, accounts.close())
}

// spentBy returns the attempt of a line.
func spentBy(line []byte) AttemptKey {
	var s spent
	if json.Unmarshal(line, &s, json.RejectUnknownMembers(true)) != nil {
		return AttemptKey{}
	}
	return AttemptKey{s.Task, s.Attempt}
}

// read takes over a line.
func (a *Accounts) read(line []byte) {
	var s spent
	if json.Unmarshal(line, &s, json.RejectUnknownMembers(true)) != nil {
		return
	}
	if mac, err := s.mac(a.salt); err != nil || mac != s.MAC {
		return
	}
	key := AttemptKey{s.Task, s.Attempt}
	if s.Usage != nil {
		a.open[key] = &account{former: s.Usage}
		return
	}
	if at := a.open[key]; at != nil {
		a.used = SumUsage(a.used, at.former)
		delete(a.open, key)
	}
}

// Begin begins a try of an attempt. It returns what the attempt had used at most when
// an earlier process of the run was killed, which is the first try's: note is told all
// that the try has used at most, with that. What note has written outlives this process.
func (a *Accounts) Begin(task string, attempt int) (former map[string]int64, note func(map[string]int64) error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	key := AttemptKey{task, attempt}
	at := a.open[key]
	if at == nil {
		at = &account{}
		a.open[key] = at
	}
	former = at.former
	at.former, at.before, at.last = nil, SumUsage(at.before, at.last), former // unless this try notes more
	return former, func(usage map[string]int64) error {
		a.mu.Lock()
		defer a.mu.Unlock()
		at.last = usage
		return a.write(key, SumUsage(at.before, usage))
	}
}

// SumUsage adds counts by name.
func SumUsage(a, b map[string]int64) map[string]int64 {
	switch {
	case len(a) == 0:
		return b
	case len(b) == 0:
		return a
	}
	out := maps.Clone(a)
	for name, n := range b {
		out[name] += n
	}
	return out
}

// write appends a line.
func (a *Accounts) write(key AttemptKey, usage map[string]int64) error {
	s := spent{Task: key.Task, Attempt: key.Attempt, Usage: usage}
	mac, err := s.mac(a.salt)
	if err != nil {
		return err
	}
	s.MAC = mac
	line, err := json.Marshal(s, json.Deterministic(true))
	if err == nil {
		line = append(line, '\n')
		_, err = a.file.WriteAt(line, a.size)
	}
	if err != nil {
		return fmt.Errorf("writing %s: %w", SpentName, err)
	}
	a.size += int64(len(line))
	return nil
}

// settle ends the accounts of attempts that have a record. If that cannot be written,
// they count should the record be lost.
func (a *Accounts) settle(lines []*Line) {
	if a == nil {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, l := range lines {
		if a.open[l.Key()] != nil {
			delete(a.open, l.Key())
			_ = a.write(l.Key(), nil)
		}
	}
}

// close closes the file. It is idempotent.
func (a *Accounts) close() error {
	if a == nil {
		return nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.file == nil {
		return nil
	}
	f := a.file
	a.file = nil
	return f.Close()
}
