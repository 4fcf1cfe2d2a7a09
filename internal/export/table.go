package export

import (
	"cmp"
	"encoding/csv"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/parquet-go/parquet-go"

	"securebench/internal/report"
	"securebench/internal/verdict"
)

// Row is an attempt as a row of a table. docs/export.md describes its columns. Absent is nil.
type Row struct {
	RunID       string `json:"run_id" parquet:"run_id"`
	Pack        string `json:"pack" parquet:"pack"`
	PackVersion int64  `json:"pack_version" parquet:"pack_version"`
	Agent       string `json:"agent" parquet:"agent"`
	Model       string `json:"model" parquet:"model"`

	TaskID  string `json:"task_id" parquet:"task_id"`
	Family  string `json:"family" parquet:"family"`
	Index   int64  `json:"index" parquet:"index"`
	Attempt int64  `json:"attempt" parquet:"attempt"`

	Status         string   `json:"status" parquet:"status"`
	Passed         *bool    `json:"passed" parquet:"passed,optional"`
	Score          *float64 `json:"score" parquet:"score,optional"`
	Outcome        string   `json:"outcome" parquet:"outcome"`
	FailureReason  string   `json:"failure_reason" parquet:"failure_reason"`
	FailurePhase   string   `json:"failure_phase" parquet:"failure_phase"`
	FailureMessage string   `json:"failure_message" parquet:"failure_message"`
	Containment    string   `json:"containment" parquet:"containment"`
	Basis          string   `json:"basis" parquet:"basis"`
	Labels         []string `json:"labels" parquet:"labels,list"`
	Measure        string   `json:"measure" parquet:"measure"`
	MeasureValue   *float64 `json:"measure_value" parquet:"measure_value,optional"`
	Judge          string   `json:"judge" parquet:"judge"`
	JudgeVotes     *int64   `json:"judge_votes" parquet:"judge_votes,optional"`
	JudgePassed    *int64   `json:"judge_passed_votes" parquet:"judge_passed_votes,optional"`

	CandidateKind   string `json:"candidate_kind" parquet:"candidate_kind"`
	Candidate       string `json:"candidate" parquet:"candidate"`
	CandidateDigest string `json:"candidate_digest" parquet:"candidate_digest"`
	Output          string `json:"output" parquet:"output"`
	Public          string `json:"public" parquet:"public"`
	Image           string `json:"image" parquet:"image"`

	Requests     *int64   `json:"requests" parquet:"requests,optional"`
	InputTokens  *int64   `json:"input_tokens" parquet:"input_tokens,optional"`
	CachedTokens *int64   `json:"cached_input_tokens" parquet:"cached_input_tokens,optional"`
	OutputTokens *int64   `json:"output_tokens" parquet:"output_tokens,optional"`
	ToolCalls    *int64   `json:"tool_calls" parquet:"tool_calls,optional"`
	CostUSD      *float64 `json:"cost_usd" parquet:"cost_usd,optional"`
	Retries      int64    `json:"retries" parquet:"retries"`
	AgentMS      *int64   `json:"agent_ms" parquet:"agent_ms,optional"`
	VerifierMS   *int64   `json:"verifier_ms" parquet:"verifier_ms,optional"`
	TotalMS      *int64   `json:"total_ms" parquet:"total_ms,optional"`
}

// row returns an attempt as a row.
func (a *attempt) row() Row {
	m := a.run.Manifest
	r := Row{RunID: a.RunID, Pack: a.BenchmarkID, PackVersion: m.Pack.Version, Agent: a.Agent, Model: a.model(),
		TaskID: a.TaskID, Family: a.TaskType, Index: int64(a.Index), Attempt: int64(a.Attempt),
		Status: string(a.Status), Outcome: string(a.Outcome), FailureReason: string(a.FailureReason), FailurePhase: string(a.FailurePhase),
		FailureMessage: a.FailureMessage, Containment: string(a.Containment), Basis: a.Basis.String(), Labels: a.Labels,
		CandidateKind: string(a.Candidate.Kind), Candidate: a.shown(), CandidateDigest: a.Digests.Candidate, Output: a.ProducerStdout,
		Public: a.publicJSON(), Image: a.Digests.Image, Retries: int64(len(a.Retries)),
		AgentMS: of(a.Timings, verdict.PhaseProduce), VerifierMS: of(a.Timings, verdict.PhaseVerify), TotalMS: of(a.Timings, "total"),
		Requests: of(a.Usage, "requests"), InputTokens: of(a.Usage, "input_tokens"), CachedTokens: of(a.Usage, "cached_input_tokens"),
		OutputTokens: of(a.Usage, "output_tokens"), ToolCalls: of(a.Usage, "tool_calls")}
	if a.Status != verdict.StatusPending {
		score := a.Score()
		r.Passed, r.Score = &a.Passed, &score
	}
	if a.Measure != nil {
		r.Measure, r.MeasureValue = a.Measure.Name, &a.Measure.Value
	}
	if j := a.Judge; j != nil {
		votes, passed := int64(len(j.Votes)), int64(j.Passed)
		r.Judge, r.JudgeVotes, r.JudgePassed = j.Model, &votes, &passed
	}
	if micro := of(a.Usage, "cost_microusd"); micro != nil {
		usd := float64(*micro) / 1e6
		r.CostUSD = &usd
	}
	return r
}

// of returns a value that a map has, or nil.
func of[K ~string](from map[K]int64, key K) *int64 {
	if n, ok := from[key]; ok {
		return &n
	}
	return nil
}

// rowsAtOnce is how many rows are kept before they are written.
const rowsAtOnce = 1000

// Parquet writes the run as one table.
func (r *Run) Parquet(to io.Writer) error {
	w := parquet.NewGenericWriter[Row](to, parquet.Compression(&parquet.Zstd), parquet.CreatedBy("securebench", "", ""))
	var rows []Row
	flush := func() error {
		_, err := w.Write(rows)
		rows = rows[:0]
		return err
	}
	for a, err := range r.attempts() {
		if err != nil {
			return err
		}
		if rows = append(rows, a.row()); len(rows) == rowsAtOnce {
			if err := flush(); err != nil {
				return fmt.Errorf("writing Parquet: %w", err)
			}
		}
	}
	if err := cmp.Or(flush(), w.Close()); err != nil {
		return fmt.Errorf("writing Parquet: %w", err)
	}
	return nil
}

// JSONLines writes an object for each attempt.
func (r *Run) JSONLines(to io.Writer) error {
	for a, err := range r.attempts() {
		if err != nil {
			return err
		}
		line, err := encode(a.row())
		if err == nil {
			_, err = to.Write(append(line, '\n'))
		}
		if err != nil {
			return fmt.Errorf("writing JSON lines: %w", err)
		}
	}
	return nil
}

// CSV writes a header and a row for each attempt, in the order of the columns. No cell
// contains a control character or a spreadsheet's formula.
func (r *Run) CSV(to io.Writer) error {
	out := csv.NewWriter(to)
	out.UseCRLF = true
	schema := parquet.SchemaOf(Row{}).Fields()
	header := make([]string, len(schema))
	for i, f := range schema {
		header[i] = f.Name()
	}
	if err := out.Write(header); err != nil {
		return fmt.Errorf("writing CSV: %w", err)
	}
	for a, err := range r.attempts() {
		if err != nil {
			return err
		}
		if err := out.Write(a.row().cells()); err != nil {
			return fmt.Errorf("writing CSV: %w", err)
		}
	}
	out.Flush()
	if err := out.Error(); err != nil {
		return fmt.Errorf("writing CSV: %w", err)
	}
	return nil
}

// cells are the columns as texts.
func (r Row) cells() []string {
	text := report.CSVText[string]
	number := func(n *int64) string {
		if n == nil {
			return ""
		}
		return strconv.FormatInt(*n, 10)
	}
	float := func(f *float64) string {
		if f == nil {
			return ""
		}
		return strconv.FormatFloat(*f, 'f', -1, 64)
	}
	passed := ""
	if r.Passed != nil {
		passed = strconv.FormatBool(*r.Passed)
	}
	return []string{text(r.RunID), text(r.Pack), strconv.FormatInt(r.PackVersion, 10), text(r.Agent), text(r.Model),
		text(r.TaskID), text(r.Family), strconv.FormatInt(r.Index, 10), strconv.FormatInt(r.Attempt, 10),
		text(r.Status), passed, float(r.Score), text(r.Outcome), text(r.FailureReason), text(r.FailurePhase), text(r.FailureMessage),
		text(r.Containment), text(r.Basis), text(strings.Join(r.Labels, " ")), text(r.Measure), float(r.MeasureValue),
		text(r.Judge), number(r.JudgeVotes), number(r.JudgePassed),
		text(r.CandidateKind), text(r.Candidate), text(r.CandidateDigest), text(r.Output), text(r.Public), text(r.Image),
		number(r.Requests), number(r.InputTokens), number(r.CachedTokens), number(r.OutputTokens), number(r.ToolCalls), float(r.CostUSD),
		strconv.FormatInt(r.Retries, 10), number(r.AgentMS), number(r.VerifierMS), number(r.TotalMS)}
}

// encode renders JSON that is the same each time.
func encode(v any) ([]byte, error) {
	return json.Marshal(v, json.Deterministic(true), json.FormatNilSliceAsNull(false), jsontext.EscapeForHTML(true), jsontext.EscapeForJS(true))
}
