package compare

import (
	"strconv"
	"strings"

	"securebench/internal/family/textmatch"
	"securebench/internal/family/textmatch/answer"
	"securebench/internal/family/textmatch/vocabulary"
	"securebench/internal/lazyregexp"
)

// A date is a day.
type date struct {
	year, month, day int
	order            string // of digits, in which it is asked for
}

// maxMoment is the most bytes of a date or a time.
const maxMoment = 48

// order returns the order in which the question, or else an accepted answer, writes
// dates in digits: "mdy", "dmy", or "" where neither says.
func order(q *answer.Question, gold string) string {
	text := strings.ToLower(q.Text())
	switch {
	case strings.Contains(text, "mm/dd") || strings.Contains(text, "mm-dd"):
		return "mdy"
	case strings.Contains(text, "dd/mm") || strings.Contains(text, "dd.mm") || strings.Contains(text, "dd-mm"):
		return "dmy"
	}
	if m := digitDate.FindStringSubmatch(gold); m != nil {
		switch {
		case number(m[3]) > 12:
			return "mdy"
		case number(m[1]) > 12:
			return "dmy"
		}
	}
	return ""
}

var (
	digitDate = lazyregexp.New(`^([0-9]{1,2})([-/.])([0-9]{1,2})[-/.]([0-9]{4})$`)
	isoDate   = lazyregexp.New(`^([0-9]{4})(?:[-/.]| ?[年년] ?)([0-9]{1,2})(?:[-/.]| ?[月월] ?)([0-9]{1,2})(?: ?[日일号])?$`)
	clockTime = lazyregexp.New(`^([0-9]{1,2})(?:[:.h]([0-9]{2}))?(?::([0-9]{2}))? ?(?:([ap])\.? ?m\.?)?$`)
)

// parseDate reads a text that is a date as a whole, or returns none.
func parseDate(s, order string) date {
	if len(s) > maxMoment {
		return date{}
	}
	s = strings.TrimSpace(s)
	if m := digitDate.FindStringSubmatch(s); m != nil {
		a, b, y := number(m[1]), number(m[3]), number(m[4])
		if m[2] == "." || order == "dmy" || a > 12 {
			return dayOf(y, b, a, order)
		}
		if order == "mdy" || b > 12 {
			return dayOf(y, a, b, order)
		}
		return date{}
	}
	if m := isoDate.FindStringSubmatch(s); m != nil {
		return dayOf(number(m[1]), number(m[2]), number(m[3]), order)
	}
	return spelledDate(s, order)
}

// number is the value of some digits.
func number(s string) int {
	n, _ := strconv.Atoi(s)
	return n
}

func dayOf(year, month, day int, order string) date {
	if year == 0 || month < 1 || month > 12 || day < 1 || day > 31 {
		return date{}
	}
	return date{year, month, day, order}
}

// spelledDate reads a date with the name of its month: the 5th of March 2024, March 5,
// 2024.
func spelledDate(s, order string) date {
	d := date{order: order}
	for _, w := range answer.Words(s) {
		month, isMonth := w.Value(vocabulary.Month, vocabulary.Every)
		switch {
		case isMonth && d.month == 0:
			d.month = number(month)
		case w.Kind == vocabulary.Digits && len(w.Text) == 4 && d.year == 0:
			d.year = number(w.Text)
		case w.Kind == vocabulary.Digits && len(w.Text) <= 2 && d.day == 0:
			d.day = number(w.Text)
		case ofDates.Has(w.Text):
		case w.In(vocabulary.Ordinal) != 0 && d.day == 0 && w.Kind != vocabulary.Digits:
			v, _ := w.Value(vocabulary.Ordinal, vocabulary.Every)
			d.day = number(v)
		case w.In(vocabulary.Weekday) != 0:
		case w.OneOf(",."):
		default:
			return date{}
		}
	}
	return dayOf(d.year, d.month, d.day, order)
}

// ofDates are words within a date.
const ofDates textmatch.List = " st nd rd th of the de do le "

// A clock is a time of the day.
type clock struct{ hour, minute, second int }

// parseClock reads a text that is a time as a whole, or returns nil. Without am or pm
// the hours are those of 24.
func parseClock(s string) *clock {
	m := clockTime.FindStringSubmatch(strings.ToLower(strings.TrimSpace(s)))
	if m == nil || len(s) > maxMoment || m[2] == "" && m[4] == "" {
		return nil
	}
	c := clock{number(m[1]), number(m[2]), number(m[3])}
	switch {
	case m[4] != "" && (c.hour < 1 || c.hour > 12):
		return nil
	case m[4] == "p" && c.hour < 12:
		c.hour += 12
	case m[4] == "a" && c.hour == 12:
		c.hour = 0
	}
	if c.hour > 24 || c.minute > 59 || c.second > 59 {
		return nil
	}
	return &c
}
