// Package bench measures what securebench costs on this machine: sandboxes of
// each engine beside the bare runtime, tasks beside their bare processes, the
// parent's memory, and how many rows a second are read, scored and verified.
package bench

import (
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"securebench/internal/bounded"
	"securebench/internal/redact"
	"securebench/internal/sandbox"
)

// Schema names the format of a [Result]. It changes with every change of a field.
const Schema = "securebench.bench/1"

// maxResult bounds a file with a result.
const maxResult = 4 << 20

// Result is what a benchmark measured. docs/bench/README.md describes it.
type Result struct {
	Schema  string    `json:"schema"`
	Version string    `json:"version"` // of securebench
	Quick   bool      `json:"quick"`   // few samples: for a first look
	Started time.Time `json:"started"` // UTC, to the second
	Seconds float64   `json:"seconds"` // how long it took
	Machine Machine   `json:"machine"`
	Engines []Engine  `json:"engines"`
	Rows    []Rows    `json:"rows"`
}

// Machine describes where it was measured. Nothing in it identifies the host.
type Machine struct {
	CPU        string     `json:"cpu"`
	Cores      int        `json:"cores"`
	Memory     int64      `json:"memory_bytes"`
	OS         string     `json:"os"`
	Kernel     string     `json:"kernel"`
	Arch       string     `json:"arch"`
	Go         string     `json:"go"`
	LoadBefore [3]float64 `json:"load_before"` // averages over 1, 5 and 15 minutes
	LoadAfter  [3]float64 `json:"load_after"`
}

// Engine is what was measured on one engine.
type Engine struct {
	Name string `json:"name"`
	// Missing says why nothing was measured; "" if the engine is there.
	Missing string        `json:"missing"`
	Info    *sandbox.Info `json:"info"` // null if it is missing
	Image   string        `json:"image"`
	ImageID string        `json:"image_id"`
	Steps   []Timing      `json:"steps"`
	Cycle   *Cycle        `json:"cycle"`
	Tasks   []Tasks       `json:"tasks"`
	Memory  []Memory      `json:"memory"`
}

// Timing is how long something took.
type Timing struct {
	Name    string  `json:"name"`
	Samples int     `json:"samples"`
	Min     float64 `json:"min_ms"`
	P50     float64 `json:"p50_ms"`
	P99     float64 `json:"p99_ms"`
	Max     float64 `json:"max_ms"`
}

// Cycle is a whole sandbox, from opening to closing, beside the same made with
// the bare runtime, in turns.
type Cycle struct {
	Bare     string  `json:"bare"` // what the floor is
	Box      Timing  `json:"box"`
	Floor    Timing  `json:"floor"`
	RatioP50 float64 `json:"ratio_p50"`
	RatioP99 float64 `json:"ratio_p99"`
}

// Tasks is a run of the program over tasks like those of HumanEval, beside the
// same sandboxes and processes made with the bare runtime.
type Tasks struct {
	Workers      int     `json:"workers"`
	Tasks        int     `json:"tasks"`   // of a run
	Rounds       int     `json:"rounds"`  // runs, in turns with the floor
	Seconds      float64 `json:"seconds"` // of the program, from start to end, on average
	PerSecond    float64 `json:"per_second"`
	FloorSeconds float64 `json:"floor_seconds"` // 0 without a floor
	FloorRate    float64 `json:"floor_per_second"`
	// Share is PerSecond divided by FloorRate.
	Share float64 `json:"share_of_floor"`
}

// Memory is what the parent holds while agents run.
type Memory struct {
	Queued   int   `json:"queued"` // tasks of the run
	Running  int   `json:"running"`
	Resident int64 `json:"resident_bytes"`
	Peak     int64 `json:"peak_bytes"`
}

// Rows is how fast rows are handled without an engine.
type Rows struct {
	Name      string  `json:"name"` // load, score or verify
	Rows      int     `json:"rows"`
	Seconds   float64 `json:"seconds"`
	PerSecond float64 `json:"per_second"`
}

// Write writes the result as one JSON object.
func (r *Result) Write(w io.Writer) error {
	b, err := json.Marshal(r, json.FormatNilSliceAsNull(false), jsontext.WithIndent("  "))
	if err != nil {
		return fmt.Errorf("encoding the result: %w", err)
	}
	if _, err := w.Write(append(redact.ASCII(b), '\n')); err != nil {
		return fmt.Errorf("writing the result: %w", err)
	}
	return nil
}

// Read reads a result. Unknown members and other versions are errors.
func Read(r io.Reader) (*Result, error) {
	data, err := bounded.ReadAll(r, maxResult)
	if err != nil {
		return nil, fmt.Errorf("reading the result: %w", err)
	}
	var head struct {
		Schema string `json:"schema"`
	}
	if err := json.Unmarshal(data, &head); err != nil {
		return nil, fmt.Errorf("reading the result: %w", err)
	}
	if head.Schema != Schema {
		return nil, fmt.Errorf("the result has the schema %q, want %q", head.Schema, Schema)
	}
	out := &Result{}
	if err := json.Unmarshal(data, out, json.RejectUnknownMembers(true)); err != nil {
		return nil, fmt.Errorf("reading the result: %w", err)
	}
	return out, out.check()
}

// check refuses what cannot be drawn.
func (r *Result) check() error {
	for _, e := range r.Engines {
		if e.Name == "" {
			return errors.New("an engine of the result has no name")
		}
		if (e.Missing == "") != (e.Info != nil) {
			return fmt.Errorf("the engine %q is neither measured nor missing", e.Name)
		}
	}
	return nil
}
