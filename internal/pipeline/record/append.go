package record

import (
	"errors"
	"fmt"

	"securebench/internal/digest"
)

// Append writes lines at the end of the chain, with one flush for all, or none of them
// after an error. They are on disk when Append returns; report the attempts as finished
// only then. What a line refers to must be on disk before.
func (d *Dir) Append(lines ...*Line) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.broken != nil {
		return d.broken
	}
	if err := d.Whole(); err != nil {
		return err
	}
	text, next, err := d.chain(lines)
	if err != nil {
		return err
	}
	_, err = d.lines.Write(text)
	if err == nil {
		err = d.lines.Sync()
	}
	if err != nil {
		// A partial line, as a full disk leaves it, must not be continued.
		d.broken = fmt.Errorf("writing %s: %w", LinesName, errors.Join(err, d.lines.Truncate(d.size)))
		return d.broken
	}
	d.size += int64(len(text))
	d.link = next
	d.accounts.settle(lines)
	for _, l := range lines {
		if l.Produced != nil {
			d.waiting[l.Key()] = l
		}
	}
	return nil
}

// chain renders lines, and returns the place of the next.
func (d *Dir) chain(lines []*Line) (text []byte, at link, err error) {
	at = d.link
	for _, l := range lines {
		b, err := l.marshal(at, d.salt, recordField)
		if err == nil && len(b) > MaxLine {
			err = fmt.Errorf("the record of %q has %d bytes; the limit is %d", l.TaskID, len(b), MaxLine)
		}
		if err != nil {
			return nil, at, err
		}
		at = link{at.seq + 1, digest.Bytes(b)}
		text = append(append(text, b...), '\n')
	}
	return text, at, nil
}
