package hub

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"sync"

	"github.com/go-json-experiment/json"
)

// maxJournal bounds the journal, in bytes.
const maxJournal = 1 << 30

// grantLine is a line of the journal. Without Who, nobody has the job any more.
type grantLine struct {
	Job   string `json:"job"`
	Grant int64  `json:"grant"`
	Who   string `json:"who,omitzero"`
}

// journal keeps the last grant of each job, so that a run that goes on knows which
// worker still has it, and numbers go on rising. It is not flushed to disk: a power cut
// costs work, no record.
type journal struct {
	mu   sync.Mutex
	file *os.File // nil keeps none
	last map[string]grantLine
	// given counts the grants of each worker, those of earlier parts of the run included.
	given map[string]int
}

// openJournal reads what an earlier part of the run wrote. A torn line at the end is
// forgotten.
func openJournal(file *os.File) (*journal, error) {
	j := &journal{file: file, last: map[string]grantLine{}, given: map[string]int{}}
	if file == nil {
		return j, nil
	}
	data, err := io.ReadAll(io.LimitReader(file, maxJournal))
	if err != nil {
		return nil, fmt.Errorf("reading which workers have which jobs: %w", err)
	}
	whole := data[:bytes.LastIndexByte(data, '\n')+1]
	for line := range bytes.Lines(whole) {
		var g grantLine
		if err := json.Unmarshal(line, &g, json.RejectUnknownMembers(true)); err != nil {
			continue // it costs work at most
		}
		j.enter(g)
	}
	err = file.Truncate(int64(len(whole)))
	if err == nil {
		_, err = file.Seek(int64(len(whole)), io.SeekStart)
	}
	if err != nil {
		return nil, fmt.Errorf("reading which workers have which jobs: %w", err)
	}
	return j, nil
}

// enter takes a line in.
func (j *journal) enter(g grantLine) {
	j.last[g.Job] = g
	if g.Who != "" {
		j.given[g.Who]++
	}
}

// counts says how many jobs each worker was given.
func (j *journal) counts() map[string]int {
	j.mu.Lock()
	defer j.mu.Unlock()
	return maps.Clone(j.given)
}

// held returns the last grant of a job.
func (j *journal) held(job string) (grantLine, bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	g, ok := j.last[job]
	return g, ok
}

// write adds a line.
func (j *journal) write(g grantLine) error {
	b, err := json.Marshal(g)
	if err != nil {
		return fmt.Errorf("writing which worker has a job: %w", err)
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.enter(g)
	if j.file == nil {
		return nil
	}
	if _, err := j.file.Write(append(b, '\n')); err != nil && !errors.Is(err, os.ErrClosed) {
		return fmt.Errorf("writing which worker has a job: %w", err)
	}
	return nil
}
