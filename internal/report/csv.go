package report

import (
	"encoding/csv"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"securebench/internal/redact"
	"securebench/internal/verdict"
)

// WriteCSV writes a header and one row per record in row order, as in RFC 4180,
// with CRLF. Passed, score and outcome are as counted: a record that contradicts
// itself or repeats another is not a pass. Attempts without a record have no
// row. run_verified and rows_left_out are about the run and the same in every row; a run
// without records that is not verified or left rows out has one row with these
// two only. Columns that came later follow. No cell contains a control character or a spreadsheet formula.
func (r *Report) WriteCSV(w io.Writer) error {
	out := csv.NewWriter(w)
	out.UseCRLF = true
	rows := [][]string{{"task_id", "index", "attempt", "family", "status", "passed", "score", "outcome",
		"reason", "containment", "labels", "total_ms", "candidate", "requests", "input_tokens", "output_tokens", "cost_microusd", "run_verified", "rows_left_out",
		"unanswered", "relay_refused", "truncated", "empty", "refused", "usage_estimated", "measure", "measure_value",
		"basis", "judge", "judge_votes", "judge_passed_votes", "judge_canaries"}}
	run := []string{strconv.FormatBool(r.Run.Verified), strconv.Itoa(r.Run.LeftOut)}
	for _, a := range r.attempts {
		rows = append(rows, slices.Concat(csvRow(a), run, csvAnswers(a.Answers), csvMeasure(a), r.csvBasis(a)))
	}
	if len(r.attempts) == 0 && (!r.Run.Verified || r.Run.LeftOut > 0) {
		later := len(csvAnswers(verdict.Answers{})) + len(csvMeasure(Attempt{})) + len(r.csvBasis(Attempt{}))
		rows = append(rows, slices.Concat(make([]string, len(rows[0])-len(run)-later), run, make([]string, later)))
	}
	if err := out.WriteAll(rows); err != nil {
		return fmt.Errorf("writing the report: %w", err)
	}
	return nil
}

func csvRow(a Attempt) []string {
	score := "0.0"
	if a.Passed {
		score = "1.0"
	}
	row := []string{CSVText(a.TaskID), strconv.Itoa(a.Index), strconv.Itoa(a.Attempt), CSVText(a.Family),
		CSVText(a.Status), strconv.FormatBool(a.Passed), score, CSVText(a.Outcome), CSVText(a.Reason),
		CSVText(a.Containment), CSVText(strings.Join(a.Labels, " ")), strconv.FormatInt(a.TotalMS, 10), CSVText(a.Candidate)}
	return append(row, csvUsage(a.Usage)...)
}

// csvUsage returns what an attempt asked of its provider, empty cells for one that
// asked none.
func csvUsage(u Usage) []string {
	if u.Attempts == 0 {
		return make([]string, 4)
	}
	cost := ""
	if u.MicroUSD != nil {
		cost = strconv.FormatInt(*u.MicroUSD, 10)
	}
	return []string{strconv.FormatInt(u.Requests, 10), strconv.FormatInt(u.InputTokens, 10), strconv.FormatInt(u.OutputTokens, 10), cost}
}

// csvAnswers says with true or false what came of an attempt's requests, empty cells
// where the record does not say.
func csvAnswers(a verdict.Answers) (row []string) {
	for _, n := range []int{a.Unanswered, a.Blocked, a.Truncated, a.Empty, a.Refused, a.Estimated} {
		cell := ""
		if a.Asked > 0 {
			cell = strconv.FormatBool(n > 0)
		}
		row = append(row, cell)
	}
	return row
}

// csvMeasure returns the measure of a pass, which records show: a table for others must
// not tell how near a candidate came to a hidden value.
func csvMeasure(a Attempt) []string {
	if !a.Passed || a.Measure == nil {
		return []string{"", ""}
	}
	return []string{CSVText(a.Measure.Name), strconv.FormatFloat(a.Measure.Value, 'g', -1, 64)}
}

// csvBasis says what decided, and of a judge its name, votes and canaries.
func (r *Report) csvBasis(a Attempt) []string {
	row := []string{a.Basis.String(), "", "", "", ""}
	if v := a.Judge; v.Votes > 0 {
		copy(row[1:], []string{CSVText(v.Model), strconv.Itoa(v.Votes), strconv.Itoa(v.Passed)})
	}
	if a.Basis == verdict.Judged || a.read != "" {
		row[4] = CSVText(r.Run.Canaries)
	}
	return row
}

// CSVText makes text from outside safe for a cell, by the rules of OWASP's "CSV
// injection": an apostrophe before a formula, and no semicolon, because locales
// with a decimal comma separate cells with it.
func CSVText[T ~string](text T) string {
	s := string(text)
	safe := strings.ReplaceAll(redact.Escape(s), ";", `\x3b`)
	if formula(s) {
		return "'" + safe
	}
	return safe
}

// formula reports whether a spreadsheet might read s as a formula. Some accept
// the full-width forms of the signs.
func formula(s string) bool {
	rest := strings.TrimLeftFunc(s, func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) })
	first, _ := utf8.DecodeRuneInString(rest)
	return strings.ContainsAny(s[:len(s)-len(rest)], "\t\r\n") || strings.ContainsRune("=+-@＝＋－＠", first)
}
