package terminaltask

import (
	"archive/tar"
	"context"
	"io"
	"slices"
	"strings"
	"time"

	"securebench/internal/family/sandboxed"
	"securebench/internal/piped"
	"securebench/internal/sandbox"
	"securebench/internal/sandbox/initproc"
	"securebench/internal/workspace"
)

// site is what one verification has on the engine.
type site struct {
	*sandboxed.Site

	tree      sandbox.Workspace // where the agent worked
	own       sandbox.Workspace // the same for the service alone; nil if there is none
	evaluator sandbox.Workspace
	part      sandbox.Workspace            // securebench's part of the workspace; nil if that has none
	reward    sandbox.Workspace            // nil without a reward file
	roots     map[string]sandbox.Workspace // captured folders, for an image of the checker's own

	service *sandboxed.Box // nil without a service
	checker *sandboxed.Box
}

// open makes a box in which a candidate's changes can be made.
func (s *site) open(ctx context.Context, role string, life time.Duration, spec sandbox.Spec, grants []sandbox.Capability) (*sandboxed.Box, error) {
	spec.WritableRoot, spec.Capabilities, spec.Grants = true, initproc.ApplyCapabilities(), grants
	for _, c := range grants {
		if !slices.Contains(spec.Capabilities, c) {
			spec.Capabilities = append(spec.Capabilities, c)
		}
	}
	return s.Open(ctx, role, life, spec)
}

// fill lays out files in a workspace: those below dir, without that part of
// their paths.
func fill(ctx context.Context, w sandbox.Workspace, layout *workspace.Layout, dir string, owner sandbox.User) error {
	return piped.Run(func(dst io.Writer) error {
		return piped.Run(func(all io.Writer) error { return layout.WriteTar(all, owner.UID, owner.GID) }, func(src io.Reader) error {
			return copyRenamed(dst, src, func(h *tar.Header) (string, bool) {
				if dir == "" {
					return h.Name, true
				}
				name, ok := strings.CutPrefix(h.Name, dir+"/")
				return name, ok && name != ""
			})
		})
	}, func(r io.Reader) error { return w.Put(ctx, r) })
}
