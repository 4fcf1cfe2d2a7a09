// Package preview says what a run would do: which tasks, with which images and
// sandboxes, how much of the machine, and about how long and at what cost, judging
// by earlier records.
package preview

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"securebench/internal/agent/harness"
	"securebench/internal/capacity"
	"securebench/internal/evidence"
	"securebench/internal/fault"
	"securebench/internal/pipeline/record"
	"securebench/internal/redact"
	"securebench/internal/run"
)

// Preview is what a run would do. Sizes are in bytes.
type Preview struct {
	RunID    string `json:"run_id"`
	Pack     string `json:"pack_id"`
	Version  int64  `json:"pack_version"`
	Agent    string `json:"agent"`
	Model    string `json:"model,omitzero"`
	Tasks    int    `json:"tasks"`
	Attempts int    `json:"attempts"` // at each task
	LeftOut  int    `json:"left_out"` // rows
	// Chosen says by which flags rows were chosen.
	Chosen string `json:"chosen,omitzero"`
	// Recorded is the number of attempts that a resume keeps, if their records pass
	// its checks, and Remaining the number of the others.
	Recorded  int            `json:"recorded"`
	Remaining int            `json:"remaining"`
	Families  map[string]int `json:"families"` // tasks
	Unscored  map[string]int `json:"unscored"` // tasks of families without a verifier, which stay pending
	Output    string         `json:"output"`
	Engine    string         `json:"engine,omitzero"`
	Images    []Image        `json:"images"`
	// Sandboxes is how many are made at most, besides those of retries.
	Sandboxes int `json:"sandboxes"`
	Workers   int `json:"workers"`
	// Why says how the number of workers was chosen.
	Why string `json:"workers_why"`
	// Hub is the address at which machines would connect that have the sandboxes; absent
	// if this one has. Then Workers counts attempts that are queued or on them. Each has
	// SandboxesKept more sandboxes for each verification that it makes at a time.
	Hub           string `json:"hub,omitzero"`
	SandboxesKept int    `json:"sandboxes_kept,omitzero"`
	Memory        int64  `json:"memory"`        // that the sandboxes may need at once
	Usable        int64  `json:"memory_usable"` // 0 if nobody knows
	// EngineDisk is what they may need of the engine's disk.
	EngineDisk int64     `json:"engine_disk"`
	UsableDisk int64     `json:"engine_disk_usable"`
	Disk       string    `json:"disk"`     // of this machine
	Estimate   *Estimate `json:"estimate"` // null without earlier records
	// Sizes are there where Estimate is not, if the agent has a provider.
	Sizes  *Sizes `json:"sizes,omitzero"`
	atOnce int    // attempts at the same time: workers that have to wait for memory do not count
	// Budget is the most that the remaining attempts may cost, in USD, by the budget
	// of each; absent without one.
	Budget float64 `json:"budget_usd,omitzero"`
	// Total is what all attempts may use together; absent without a bound.
	Total     harness.Budget `json:"budget_total,omitzero"`
	Judge     *Judge         `json:"judge,omitzero"` // absent if no task asks for one
	Obstacles []string       `json:"obstacles"`

	prevent error
}

// Image is an image that rows name.
type Image struct {
	Ref    string `json:"ref"`
	ID     string `json:"id,omitzero"`     // "" if it is missing
	Obtain string `json:"obtain,omitzero"` // what gets it then
	Fault  string `json:"fault,omitzero"`  // why nothing can run in it
}

// Options say where the preview looks.
type Options struct {
	// Past names the run by which time and cost are estimated; "" takes the one in
	// the output directory, if there is one.
	Past string
	// Trust says whose signature counts for it.
	Trust evidence.Trust
}

// Look examines what a run would do.
func Look(ctx context.Context, o run.Options, p Options) (*Preview, error) {
	own, err := readPast(ctx, o.Config.OutputDir, evidence.Trust{AnySigner: true, Getenv: p.Trust.Getenv})
	if err != nil {
		return nil, err
	}
	past := own
	if p.Past != "" {
		if past, err = readPast(ctx, p.Past, p.Trust); err == nil && past == nil {
			err = fault.As(fault.Usage, fmt.Errorf("--estimate-from %s holds no run", redact.Quote(p.Past)))
		}
		if err != nil {
			return nil, err
		}
	}
	recorded := 0
	if own != nil && (o.Mode == run.Resume || o.Mode == run.ResumeChanged) {
		recorded = own.final
	}
	look, err := run.Look(ctx, o, existing(o.Config.OutputDir), recorded)
	if err != nil {
		return nil, err
	}
	out := about(o, look)
	out.Recorded = min(recorded, out.Tasks*out.Attempts)
	out.Remaining = out.Tasks*out.Attempts - out.Recorded
	out.Judge = out.aboutJudge(o, look.Work, past)
	out.obstacles(o, own, look)
	return out, out.tasks(ctx, look, past)
}

// about describes what was found.
func about(o run.Options, look *run.Outlook) *Preview {
	w, plan := look.Work, look.Plan
	dir, err := filepath.Abs(o.Config.OutputDir)
	if err != nil {
		dir = o.Config.OutputDir
	}
	out := &Preview{
		RunID: o.Config.RunID, Pack: w.Manifest.ID, Version: w.Manifest.Version, Agent: look.Agent, Model: look.Model,
		Tasks: len(w.Rows), Attempts: o.Config.Attempts, LeftOut: w.LeftOut(), Chosen: look.Chosen,
		Families: map[string]int{}, Unscored: map[string]int{}, Output: dir, Engine: look.Engine, Images: []Image{},
		Workers: plan.Workers, atOnce: int(max(1, min(int64(plan.Workers), plan.Slots))), Why: plan.Why, Memory: plan.Most.Memory, Usable: plan.Usable.Memory,
		EngineDisk: plan.Most.Disk, UsableDisk: plan.Usable.Disk,
		Disk: look.Disk, Budget: look.Budget, Total: look.Total, Obstacles: []string{},
	}
	if o.Hub != nil {
		out.Hub = o.Hub.Addr
	}
	for _, img := range look.Images {
		out.Images = append(out.Images, Image(img))
	}
	return out
}

// obstacles finds what would prevent the run.
func (p *Preview) obstacles(o run.Options, own *past, look *run.Outlook) {
	add := func(kind fault.Kind, format string, args ...any) {
		err := fault.Errorf(kind, format, args...)
		p.Obstacles = append(p.Obstacles, err.Error())
		if p.prevent == nil {
			p.prevent = err
		}
	}
	if o.Hub != nil {
		if err := o.Hub.Check(); err != nil {
			add(fault.KindOf(err), "%w", err)
		}
	}
	if own != nil && o.Mode == run.Fresh {
		add(fault.Refused, "%w", run.ExistsError(o.Config.OutputDir))
	}
	for _, img := range p.Images {
		if img.ID == "" {
			add(fault.Engine, "image %s is not on the engine: %s", img.Ref, img.Obtain)
		}
	}
	if look.Full != nil {
		add(fault.Infrastructure, "%w", look.Full)
	}
}

// Prevented returns why the run could not begin, or nil.
func (p *Preview) Prevented() error { return p.prevent }

// tasks goes through the tasks: their families, sandboxes, and the time and cost
// that attempts at them took.
func (p *Preview) tasks(ctx context.Context, look *run.Outlook, before *past) error {
	w, guess := look.Work, before.guesser()
	sizes := &sizer{asking: look.Asking}
	kept, boxes := map[capacity.Footprint]bool{}, 0
	for t, err := range w.Tasks(ctx, nil) {
		if err != nil {
			return err
		}
		fam := t.Family()
		p.Families[fam]++
		if w.Families[fam].NewVerifier == nil {
			p.Unscored[fam]++
			continue
		}
		load := w.Load(t)
		boxes += load.Agent.Boxes + load.Agent.Roots + load.Verify.Boxes + load.Verify.Roots
		kept[load.Kept] = true
		guess.add(t.ID(), fam)
		sizes.add(t.Agent())
	}
	p.Sandboxes = boxes * p.Attempts
	if all := p.Tasks * p.Attempts; all > 0 {
		p.Sandboxes = p.Sandboxes * p.Remaining / all
	}
	for f := range maps.Keys(kept) {
		if p.Hub != "" {
			p.SandboxesKept += f.Boxes + f.Roots
		} else {
			p.Sandboxes += (f.Boxes + f.Roots) * look.Plan.Verifications
		}
	}
	p.Estimate = guess.estimate(p)
	p.Sizes = sizes.sizes(p)
	return nil
}

// readPast reads the records of a run; there may be none yet. One that
// does not verify is read as far as that is possible.
func readPast(ctx context.Context, name string, trust evidence.Trust) (*past, error) {
	if _, err := os.Stat(filepath.Join(name, record.ManifestName)); errors.Is(err, fs.ErrNotExist) {
		if info, err := os.Stat(name); err != nil || info.IsDir() {
			return nil, nil
		}
	}
	p := &past{name: name, tasks: map[string]*sum{}, families: map[string]*sum{}}
	dir, res, signer, err := evidence.OpenVerified(ctx, name, trust, evidence.Options{Each: p.add})
	if err != nil {
		return nil, err
	}
	p.verified = signer.Judge(res) == nil
	return p, dir.Close()
}

// existing returns the nearest folder of a path that is there.
func existing(path string) string {
	for {
		if _, err := os.Stat(path); err == nil || filepath.Dir(path) == path {
			return path
		}
		path = filepath.Dir(path)
	}
}

// names returns the keys of counts in alphabetical order.
func names(counts map[string]int) []string { return slices.Sorted(maps.Keys(counts)) }
