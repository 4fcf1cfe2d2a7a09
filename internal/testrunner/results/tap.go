package results

import (
	"fmt"
	"strconv"
	"strings"

	"securebench/internal/lazyregexp"
)

var (
	tapPlan = lazyregexp.New(`^1\.\.([0-9]{1,7})(\s*#.*)?$`)
	tapTest = lazyregexp.New(`^(not )?ok\b(?:\s+([0-9]{1,7})\b)?\s*(?:- )?(.*)$`)
	tapTodo = lazyregexp.New(`(?i)^todo\b`)
	tapSkip = lazyregexp.New(`(?i)^skip`)
)

// tap reads the Test Anything Protocol, versions 12 to 14. The id of a test is
// its description, or its number without one. Subtests count by their parent.
func tap(text []byte) (*Report, error) {
	b, planned, seen := newBuilder(), -1, 0
	err := lines(text, func(line string) string {
		if m := tapPlan.FindStringSubmatch(line); m != nil {
			if planned >= 0 {
				return "a second plan"
			}
			planned, _ = strconv.Atoi(m[1]) // at most seven digits
			return ""
		}
		if strings.HasPrefix(line, "Bail out!") {
			b.report.Broken = append(b.report.Broken, "Bail out!")
			return ""
		}
		m := tapTest.FindStringSubmatch(line)
		if m == nil { // a comment, a diagnosis, or what a test printed
			return ""
		}
		seen++
		if m[2] != "" && m[2] != strconv.Itoa(seen) {
			return "its number is out of order"
		}
		id, status := tapResult(m[1] == "", m[3])
		if id == "" {
			id = strconv.Itoa(seen)
		}
		return b.add(id, nil, status)
	})
	switch {
	case err != nil:
	case planned < 0:
		err = ErrUnfinished
	case planned != seen:
		err = fmt.Errorf("%w: it has not as many tests as planned", ErrForm)
	}
	return &b.report, err
}

// tapResult divides a description from its directive.
func tapResult(ok bool, text string) (string, Status) {
	status := Failed
	if ok {
		status = Passed
	}
	for i := range len(text) {
		if text[i] != '#' || i > 0 && text[i-1] != ' ' {
			continue
		}
		directive := strings.TrimSpace(text[i+1:])
		switch {
		case tapSkip.MatchString(directive) && ok:
			status = Skipped
		case tapTodo.MatchString(directive) && ok:
			status = XPassed
		case tapTodo.MatchString(directive):
			status = XFailed
		default:
			continue
		}
		text = text[:i]
		break
	}
	return strings.NewReplacer(`\\`, `\`, `\#`, `#`).Replace(strings.TrimSpace(text)), status
}
