package scoring

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"securebench/internal/capacity"
	"securebench/internal/config"
	"securebench/internal/fault"
	"securebench/internal/sandbox"
	"securebench/internal/workload"
)

// Stock is what there is of what the used rows need.
type Stock struct {
	Engine string // its name and why it was taken; "" if none is needed
	Images []ImageStock
	Plan   *capacity.Plan
}

// ImageStock is an image that rows name.
type ImageStock struct {
	Ref    string
	ID     string // content digest; "" if the engine does not have it
	Obtain string // what gets it then
}

// TakeStock looks up what the used rows need, and makes nothing.
func TakeStock(ctx context.Context, w *workload.Workload, open EngineOpener, cfg *config.Tester, warn func(string)) (_ *Stock, err error) {
	s, out := &Scorer{}, &Stock{}
	if len(w.Images) > 0 {
		if s.Engine, err = open(ctx, cfg.Sandbox, warn); err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, s.Engine.Close()) }()
		info := s.Engine.Info()
		if out.Engine = info.Name; info.Choice != "" {
			out.Engine += " (" + info.Choice + ")"
		}
		get := obtain(w, info.Obtain)
		for _, ref := range slices.Sorted(maps.Keys(w.Images)) {
			img, err := s.Engine.Image(ctx, ref)
			if err != nil && !errors.Is(err, sandbox.ErrImageMissing) {
				return nil, fault.As(fault.Engine, fmt.Errorf("looking up image %s: %w", ref, err))
			}
			one := ImageStock{Ref: ref, ID: img.ID}
			if err != nil {
				one = ImageStock{Ref: ref, Obtain: get(ref)}
			}
			out.Images = append(out.Images, one)
		}
	}
	out.Plan, err = s.Plan(ctx, w, cfg)
	return out, err
}
