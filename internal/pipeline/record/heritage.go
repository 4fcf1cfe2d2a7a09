package record

import (
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"io/fs"
	"os"

	"github.com/go-json-experiment/json"

	"securebench/internal/source"
)

// Heritage adds to [AnswersName] or [SpentName] of a run what its shards noted there, so
// that nothing is paid twice. Each line counts once, however often that is repeated: what
// there is of an attempt, or of a question, ends with the lines with which that of the
// shard begins, which an interrupted merge has taken over, or the shard from the run.
type Heritage struct {
	dir  *Dir
	name string
	out  *os.File // nil as long as the run has none
	seed maphash.Seed
	have map[uint64][]uint64 // lines, in order, by what they are of
}

// Heritage opens a file of the run that is [AnswersName] or [SpentName].
func (d *Dir) Heritage(name string) (*Heritage, error) {
	h := &Heritage{dir: d, name: name, seed: maphash.MakeSeed(), have: map[uint64][]uint64{}}
	out, err := source.OpenIn(d.root, name, os.O_APPEND|os.O_RDWR, 0o600)
	if errors.Is(err, fs.ErrNotExist) {
		return h, nil
	}
	if err != nil {
		return nil, fmt.Errorf("opening %s: %w", name, err)
	}
	h.out = out
	var end int64
	if h.have, end, err = h.read(out); err == nil {
		err = out.Truncate(end) // a line that is cut short
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("reading %s: %w", name, err), out.Close())
	}
	return h, nil
}

// Add takes over what the latest runner of a shard that has the file noted there: each
// took over what the one before it had.
func (h *Heritage) Add(latestFirst ...ShardFolder) error {
	for _, from := range latestFirst {
		in, err := from.Open(h.name)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err == nil {
			err = errors.Join(h.add(in), in.Close())
		}
		if err != nil {
			return fmt.Errorf("taking over %s: %w", h.name, err)
		}
		return nil
	}
	return nil
}

// Close flushes the file.
func (h *Heritage) Close() error {
	if h.out == nil {
		return nil
	}
	return errors.Join(h.out.Sync(), h.out.Close())
}

// add appends the lines of a file that are not there.
func (h *Heritage) add(in *os.File) error {
	all, _, err := h.read(in)
	if err == nil && h.out == nil {
		h.out, err = source.OpenIn(h.dir.root, h.name, os.O_CREATE|os.O_APPEND|os.O_RDWR, 0o600)
	}
	if err != nil {
		return err
	}
	skip := map[uint64]int{}
	for of, lines := range all {
		skip[of] = overlap(h.have[of], lines)
	}
	if _, err := in.Seek(0, io.SeekStart); err != nil {
		return err
	}
	for raw, err := range Lines(in) {
		if err != nil {
			return err
		}
		of, ok := h.of(raw.Bytes)
		if raw.Torn || !ok {
			continue
		}
		if skip[of]--; skip[of] >= 0 {
			continue
		}
		if _, err := h.out.Write(append(raw.Bytes, '\n')); err != nil {
			return err
		}
		h.have[of] = append(h.have[of], maphash.Bytes(h.seed, raw.Bytes))
	}
	return nil
}

// read returns the whole lines of a file, and where they end.
func (h *Heritage) read(f *os.File) (lines map[uint64][]uint64, end int64, err error) {
	lines = map[uint64][]uint64{}
	for raw, err := range Lines(f) {
		if err != nil {
			return nil, 0, err
		}
		if raw.Torn {
			break
		}
		end = raw.Offset + int64(len(raw.Bytes)) + 1
		if of, ok := h.of(raw.Bytes); ok {
			lines[of] = append(lines[of], maphash.Bytes(h.seed, raw.Bytes))
		}
	}
	return lines, end, nil
}

// of says which attempt or question a line is of, and false for one of none: what the run
// had used before, of which each shard has noted its share.
func (h *Heritage) of(line []byte) (uint64, bool) {
	var l struct {
		Task    string `json:"task"`
		Attempt int    `json:"attempt"`
		Key     string `json:"key"` // of a question
	}
	if json.Unmarshal(line, &l) != nil || l.Task == "" && l.Key == "" {
		return 0, false
	}
	return maphash.Comparable(h.seed, l), true
}

// overlap is how many lines there end with lines that begin others, at most.
func overlap(there, others []uint64) int {
next:
	for n := min(len(there), len(others)); n > 0; n-- {
		for i, line := range there[len(there)-n:] {
			if others[i] != line {
				continue next
			}
		}
		return n
	}
	return 0
}
