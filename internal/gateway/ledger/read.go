package ledger

import (
	"bytes"
	"errors"
	"fmt"
	"time"

	"github.com/go-json-experiment/json"
)

// Read reads the lines of one or several ledgers, one after the other. It returns how
// many entries these left out.
func Read(lines []byte) (entries []Entry, left int64, err error) {
	for n := 1; len(lines) > 0; n++ {
		line, rest, whole := bytes.Cut(lines, []byte("\n"))
		lines = rest
		if !whole || n > maxRead {
			return nil, 0, fmt.Errorf("line %d of the network decisions is cut, or one too many", n)
		}
		var e struct {
			Entry
			Nanoseconds int64 `json:"took_ns"`
			LeftOut     int64 `json:"left_out"`
		}
		if json.Unmarshal(line, &e, json.RejectUnknownMembers(true)) != nil || e.LeftOut < 0 {
			return nil, 0, fmt.Errorf("line %d of the network decisions: %w", n, errForm)
		}
		if e.LeftOut > 0 {
			left += e.LeftOut
			continue
		}
		e.Took = time.Duration(e.Nanoseconds)
		entries = append(entries, e.Entry)
	}
	return entries, left, nil
}

// maxRead bounds the lines that are read: those of some tries.
const maxRead = 100 * maxLines

var errForm = errors.New("it has another form")
