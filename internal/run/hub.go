package run

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"securebench/internal/pipeline"
	"securebench/internal/pipeline/record"
	"securebench/internal/remote/service"
	"securebench/internal/scoring"
)

// mostWriters is for how many attempts there must be room on the disk while workers make
// them.
const mostWriters = 16

// elsewhere refuses what cannot be made on other machines.
func (r *Run) elsewhere() error {
	if r.Hub == nil {
		return nil
	}
	return service.Refuse(r.scorer, r.agent.Facts())
}

// opener opens the engine. One that makes no sandbox need not have the images.
func (o *Options) opener() scoring.EngineOpener {
	if o.Hub == nil {
		return o.OpenEngine
	}
	return scoring.WithRegistries(o.OpenEngine)
}

// driveHub serves workers, which make the remaining attempts.
func (r *Run) driveHub(ctx context.Context, disk string, config pipeline.Config) (pipeline.Summary, error) {
	verifier, err := r.verifier()
	if err != nil {
		return pipeline.Summary{}, err
	}
	h, err := service.Open(ctx, *r.Hub, service.Run{Config: r.Config, Build: verifier, Work: r.work, Scorer: r.scorer, Facts: r.agent.Facts(),
		Dir: r.dir, Store: r.store, Secrets: &r.secrets, LookupEnv: r.LookupEnv, Images: r.imageNames(), Warn: r.warn, Met: r.met, Seen: r.seen,
		Progress: r.Progress}, &config)
	if err != nil {
		return pipeline.Summarise(r.Config.RunID, r.planned(), r.kept), classify(err)
	}
	r.reportStart(disk)
	if r.Hub.Serving != nil {
		r.Hub.Serving(h.Addr(), h.MetricsAddr())
	}
	end := r.steered(&config)
	sum, err := pipeline.Run(ctx, config)
	end()
	err = errors.Join(err, h.Close(ctx, err == nil))
	err = errors.Join(err, r.seen(h.Seen()))
	return r.driven(sum, err)
}

// met writes down that a worker is there, before any record names it.
func (r *Run) met(w record.Worker) error {
	r.writing.Lock()
	defer r.writing.Unlock()
	if slices.ContainsFunc(r.manifest.Workers, func(former record.Worker) bool { return former.ID == w.ID }) {
		return nil // it has come back
	}
	r.manifest.Workers = append(r.manifest.Workers, w)
	r.manifest.LabelZone()
	return r.dir.WriteManifest(&r.manifest)
}

// seen writes down what workers were given in all parts of the run, and when they were
// heard of if that was in this one.
func (r *Run) seen(workers []record.Worker) error {
	r.writing.Lock()
	defer r.writing.Unlock()
	for _, w := range workers {
		for i := range r.manifest.Workers {
			if former := &r.manifest.Workers[i]; former.ID == w.ID {
				former.Last, former.Jobs = cmp.Or(w.Last, former.Last), max(former.Jobs, w.Jobs)
			}
		}
	}
	return r.dir.WriteManifest(&r.manifest)
}
