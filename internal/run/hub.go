package run

import (
	"context"
	"errors"

	"securebench/internal/pipeline"
	"securebench/internal/progress"
	"securebench/internal/remote/service"
)

// mostWriters is for how many attempts there must be room on the disk while workers make
// them.
const mostWriters = 64

// elsewhere refuses what cannot be made on other machines.
func (r *Run) elsewhere() error {
	if r.Hub == nil {
		return nil
	}
	return service.Refuse(r.work, r.agent.Facts())
}

// driveHub serves workers, which make the remaining attempts.
func (r *Run) driveHub(ctx context.Context, disk string, config pipeline.Config) (pipeline.Summary, error) {
	verifier, err := r.verifier()
	if err != nil {
		return pipeline.Summary{}, err
	}
	h, err := service.Open(ctx, *r.Hub, service.Run{Config: r.Config, Build: verifier, Work: r.work, Scorer: r.scorer, Facts: r.agent.Facts(),
		Dir: r.dir, Store: r.store, Secrets: &r.secrets, LookupEnv: r.LookupEnv, Images: r.imageNames(), Warn: r.warn,
		Begins: func(id string, attempt int) { r.Progress.Event(progress.ProducerStart{TaskID: id, Attempt: attempt}) }}, &config)
	if err != nil {
		return pipeline.Summarise(r.Config.RunID, r.planned(), r.kept), classify(err)
	}
	r.reportStart(disk)
	if r.Hub.Serving != nil {
		r.Hub.Serving(h.Addr())
	}
	sum, err := pipeline.Run(ctx, config)
	err = errors.Join(err, h.Close(ctx, err == nil))
	return r.driven(sum, err)
}
