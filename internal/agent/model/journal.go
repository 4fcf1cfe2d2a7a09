package model

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/go-json-experiment/json"

	"securebench/internal/digest"
)

// Journal keeps what models answered, so that a run that is resumed does not ask
// the same again. It is safe for concurrent use; a nil journal keeps nothing.
type Journal struct {
	file *os.File
	mac  func(key string, answer []byte) string

	mu   sync.Mutex
	size int64
	at   map[string]place // of the answers, by key
	// open is what questions had spent at most when an earlier process of the run was
	// killed while it asked them.
	open map[string]Spending
}

type place struct{ offset, length int64 }

// entry is one line of a journal.
type entry struct {
	Key    string `json:"key"`
	MAC    string `json:"mac"`
	Answer kept   `json:"answer,omitzero"`
	// Asked says instead that a request is about to be made, and what the question has
	// spent at most when that is done; nothing spent says that it has failed.
	Asked *Spending `json:"asked,omitzero"`
}

// kept is an answer with what it took: the record of its attempt may not have been
// written when the run was killed.
type kept struct {
	Answer
	Spending
	Times times `json:"times_ns"` // of the spending
}

type times struct {
	Latency int64 `json:"latency"`
	First   int64 `json:"first"`
	Waited  int64 `json:"waited"`
}

func keep(a Answer, s Spending) kept {
	return kept{a, s, times{s.Latency.Nanoseconds(), s.First.Nanoseconds(), s.Waited.Nanoseconds()}}
}

// spending returns what the answer took.
func (k kept) spending() Spending {
	s := k.Spending
	s.Latency, s.First, s.Waited = time.Duration(k.Times.Latency), time.Duration(k.Times.First), time.Duration(k.Times.Waited)
	return s
}

// maxEntry bounds a line of a journal.
const maxEntry = 2 * maxResponse

// OpenJournal reads a journal's file, which it then appends to and closes. mac
// authenticates an answer to a question. What it does not fit, or is cut short,
// does not count.
func OpenJournal(file *os.File, mac func(key string, answer []byte) string) (*Journal, error) {
	j := &Journal{file: file, mac: mac, at: map[string]place{}, open: map[string]Spending{}}
	in := bufio.NewReader(file)
	for {
		line, err := in.ReadSlice('\n')
		var long []byte
		for errors.Is(err, bufio.ErrBufferFull) && len(long) <= maxEntry {
			long = append(long, line...)
			line, err = in.ReadSlice('\n')
		}
		if long != nil {
			line = append(long, line...)
		}
		if errors.Is(err, io.EOF) { // and what is left was cut short
			break
		}
		if err != nil {
			return nil, fmt.Errorf("reading the answers of the model: %w", err)
		}
		if e, ok := j.read(line); ok {
			j.note(e, int64(len(line)))
		}
		j.size += int64(len(line))
	}
	if err := file.Truncate(j.size); err != nil {
		return nil, fmt.Errorf("reading the answers of the model: %w", err)
	}
	return j, nil
}

// note takes over a line that begins at the end of those before it.
func (j *Journal) note(e entry, length int64) {
	delete(j.open, e.Key)
	switch {
	case e.Asked == nil:
		j.at[e.Key] = place{j.size, length}
	case e.Asked.Requests > 0:
		j.open[e.Key] = *e.Asked
	}
}

// read reads a line, and reports whether this run wrote it.
func (j *Journal) read(line []byte) (entry, bool) {
	var e entry
	if json.Unmarshal(line, &e, json.RejectUnknownMembers(true)) != nil {
		return e, false
	}
	if e.Asked != nil {
		return e, e.MAC == j.askedMAC(e.Key, *e.Asked)
	}
	answer, err := json.Marshal(e.Answer, json.Deterministic(true))
	return e, err == nil && e.MAC == j.mac(e.Key, answer)
}

// askedMAC authenticates what a question may have spent.
func (j *Journal) askedMAC(key string, s Spending) string {
	text, err := json.Marshal(s, json.Deterministic(true))
	if err != nil {
		return "" // never: it has only texts and numbers
	}
	return j.mac("asked "+key, text)
}

// asking notes that a request is about to be made, and what the question has spent at
// most afterwards; the zero Spending, that it has failed. It is there if this process is
// killed, which is enough: it need not be on disk.
func (j *Journal) asking(key string, s Spending) error {
	if j == nil || key == "" {
		return nil
	}
	line, err := json.Marshal(entry{Key: key, MAC: j.askedMAC(key, s), Asked: &s}, json.Deterministic(true))
	if err != nil {
		return err
	}
	line = append(line, '\n')
	j.mu.Lock()
	defer j.mu.Unlock()
	if _, err := j.file.WriteAt(line, j.size); err != nil {
		return err
	}
	j.size += int64(len(line))
	return nil
}

// cut returns, once, what a question had spent at most when an earlier process was
// killed.
func (j *Journal) cut(key string) Spending {
	if j == nil {
		return Spending{}
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	s := j.open[key]
	delete(j.open, key)
	return s
}

// find returns the answer to a question.
func (j *Journal) find(key string) (kept, bool) {
	if j == nil || key == "" {
		return kept{}, false
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	at, ok := j.at[key]
	if !ok {
		return kept{}, false
	}
	line := make([]byte, at.length)
	if _, err := j.file.ReadAt(line, at.offset); err != nil {
		return kept{}, false
	}
	e, ok := j.read(line)
	return e.Answer, ok && e.Key == key
}

// add keeps an answer, unless clean changes it: the key is never stored.
func (j *Journal) add(key string, a kept, clean func(string) string) error {
	if j == nil || key == "" || clean(a.Text) != a.Text || clean(a.Called) != a.Called || clean(a.Reasoning) != a.Reasoning {
		return nil
	}
	answer, err := json.Marshal(a, json.Deterministic(true))
	if err != nil {
		return err
	}
	line, err := json.Marshal(entry{Key: key, MAC: j.mac(key, answer), Answer: a}, json.Deterministic(true))
	if err != nil {
		return err
	}
	line = append(bytes.TrimSpace(line), '\n')
	j.mu.Lock()
	defer j.mu.Unlock()
	if _, err := j.file.WriteAt(line, j.size); err != nil {
		return err
	}
	if err := j.file.Sync(); err != nil {
		return err
	}
	j.at[key] = place{j.size, int64(len(line))}
	j.size += int64(len(line))
	return nil
}

// Close closes the file. It is idempotent.
func (j *Journal) Close() error {
	if j == nil {
		return nil
	}
	if err := j.file.Close(); !errors.Is(err, os.ErrClosed) {
		return err
	}
	return nil
}

// journalKey names a question by all that its answer depends on.
func (c *Client) journalKey(q Question) string {
	if c.journal == nil {
		return ""
	}
	s := c.set
	named := map[string]any{"api": s.API, "base_url": s.BaseURL, "model": s.Model, "temperature": s.Temperature,
		"max_tokens": s.MaxTokens, "reasoning_effort": s.Effort, "seed": s.Seed, "stop": s.Stop,
		"system": q.System, "user": q.User, "task": q.Task, "attempt": q.Attempt}
	if len(q.Tools) > 0 {
		named["tools"] = q.Tools
	}
	if len(q.Examples) > 0 {
		named["examples"] = q.Examples
	}
	if files := q.Files(); len(files) > 0 {
		named["files"] = files
	}
	if q.Context > 0 {
		named["context"] = q.Context
	}
	if q.Form != nil {
		named["form"], named["seed"] = q.Form, q.Seed
	}
	if c.who != "" {
		named["who"] = c.who
	}
	b, err := digest.Canonical(named)
	if err != nil {
		return "" // never: it has only texts and numbers
	}
	return digest.Bytes(b)
}
