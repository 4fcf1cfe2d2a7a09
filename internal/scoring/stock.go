package scoring

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"securebench/internal/config"
	"securebench/internal/fault"
	"securebench/internal/packlock"
	"securebench/internal/sandbox"
	"securebench/internal/sandbox/platform"
	"securebench/internal/workload"
)

// ImageStock is an image that rows name.
type ImageStock struct {
	Ref    string
	ID     string // content digest; "" if the engine does not have it
	Obtain string // what gets it then
	Fault  string // why nothing can run in it
}

// TakeStock connects to the engine if the used rows need one, and looks for their
// images there. It makes nothing, and what it returns scores nothing: the caller
// closes its engine.
func TakeStock(ctx context.Context, w *workload.Workload, open EngineOpener, cfg config.Sandbox, warn func(string)) (_ *Scorer, _ []ImageStock, err error) {
	s := &Scorer{}
	if len(w.Images) == 0 && !w.Engine {
		return s, nil, nil
	}
	lock, err := packlock.Read(packDir(w))
	if err != nil {
		return nil, nil, fault.As(fault.Pack, err)
	}
	if s.Engine, err = open(ctx, cfg, warn); err != nil {
		return nil, nil, err
	}
	var images []ImageStock
	known := map[string]sandbox.Image{}
	get := obtain(w, s.Engine.Info().Obtain)
	for _, ref := range slices.Sorted(maps.Keys(w.Images)) {
		img, err := s.Engine.Image(ctx, ref)
		switch {
		case errors.Is(err, sandbox.ErrImageMissing):
			images = append(images, ImageStock{Ref: ref, Obtain: get(ref)})
		case errors.Is(err, platform.ErrOther):
			images = append(images, ImageStock{Ref: ref, Obtain: err.Error()})
		case errors.Is(err, sandbox.ErrUnusable):
			images = append(images, ImageStock{Ref: ref, ID: img.ID, Fault: imageFault(ref, err).Error()})
		case err != nil:
			err = fault.As(fault.Engine, fmt.Errorf("looking up image %s: %w", ref, err))
			return nil, nil, errors.Join(err, s.CloseEngine())
		default:
			known[ref] = img
			stock := ImageStock{Ref: ref, ID: img.ID}
			if err := platformFault(w, s.Engine.Info(), img); err != nil {
				stock.Fault = err.Error()
			}
			images = append(images, stock)
		}
	}
	if err := locked(lock, w, known); err != nil {
		return nil, nil, errors.Join(err, s.CloseEngine())
	}
	return s, images, nil
}
