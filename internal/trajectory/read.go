package trajectory

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/go-json-experiment/json"
)

// maxLine bounds a line: a text of which each byte is escaped, and names.
const maxLine = 6*MaxText + 16<<10

// Read reads the lines of one or several recorders, one after the other. It returns how
// many steps these left out.
func Read(lines []byte) (steps []Step, left int64, err error) {
	for n := 1; len(lines) > 0; n++ {
		line, rest, whole := bytes.Cut(lines, []byte("\n"))
		lines = rest
		if !whole || len(line) > maxLine {
			return nil, 0, fmt.Errorf("line %d of the steps is cut or too long", n)
		}
		if bytes.HasPrefix(line, []byte(`{"omitted":`)) {
			var o omitted
			if err := strictly(line, &o); err != nil || o.N <= 0 {
				return nil, 0, fmt.Errorf("line %d of the steps cannot be read", n)
			}
			left += o.N
			continue
		}
		var s Step
		if err := strictly(line, &s); err != nil {
			return nil, 0, fmt.Errorf("line %d of the steps cannot be read: %w", n, err)
		}
		steps = append(steps, s)
	}
	return steps, left, nil
}

// strictly decodes a line of a recorder's.
func strictly(line []byte, to any) error {
	if err := json.Unmarshal(line, to, json.RejectUnknownMembers(true)); err != nil {
		return errors.New("it has another form")
	}
	return nil
}
