// Package site makes and removes what a verification has on the engine.
package site

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"

	"securebench/internal/family/steps"
	"securebench/internal/family/terminaltask/archive"
	"securebench/internal/sandbox"
	"securebench/internal/sandbox/initproc"
	"securebench/internal/workspace"
)

// Site is what one verification has on the engine.
type Site struct {
	Engine sandbox.Sandboxes
	Labels sandbox.Labels
	Limits sandbox.Limits

	Tree      sandbox.Workspace // where the agent worked
	Own       sandbox.Workspace // the same for the service alone; nil if there is none
	Evaluator sandbox.Workspace
	Part      sandbox.Workspace            // securebench's part of the workspace; nil if that has none
	Reward    sandbox.Workspace            // nil without a reward file
	Roots     map[string]sandbox.Workspace // captured folders, for an image of the checker's own

	Service *steps.Box // nil without a service
	Checker *steps.Box

	mu     sync.Mutex
	spaces []sandbox.Workspace // all of them
}

// Space makes a workspace. It may be called by several goroutines.
func (s *Site) Space(ctx context.Context, role string, owner sandbox.User, from *sandbox.ImageFolder) (sandbox.Workspace, error) {
	labels := s.Labels
	labels.Role = role
	w, err := s.Engine.Workspace(ctx, sandbox.WorkspaceSpec{Labels: labels, Owner: owner, Disk: s.Limits.Disk, Inodes: s.Limits.Files, From: from})
	if err != nil {
		return nil, fmt.Errorf("making the %s of a verification: %w", role, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.spaces = append(s.spaces, w)
	return w, nil
}

// Open makes a box and starts its init.
func (s *Site) Open(ctx context.Context, spec sandbox.Spec, role string, grants []sandbox.Capability) (*steps.Box, error) {
	spec.Labels, spec.WritableRoot = s.Labels, true
	spec.Labels.Role = role
	spec.Capabilities, spec.Grants = initproc.ApplyCapabilities(), grants
	for _, c := range grants {
		if !slices.Contains(spec.Capabilities, c) {
			spec.Capabilities = append(spec.Capabilities, c)
		}
	}
	return steps.Open(ctx, s.Engine, spec)
}

// Close removes everything: the checker's box before the one whose network it
// shares, and the workspaces after both.
func (s *Site) Close(ctx context.Context) error {
	errs := []error{s.Checker.Close(ctx), s.Service.Close(ctx)}
	for _, w := range s.spaces {
		errs = append(errs, w.Close(ctx))
	}
	s.Checker, s.Service, s.spaces = nil, nil, nil
	return errors.Join(errs...)
}

// Fill lays out files in a workspace: those below dir, without that part of
// their paths.
func Fill(ctx context.Context, w sandbox.Workspace, layout *workspace.Layout, dir string, owner sandbox.User) error {
	return archive.Pipe(func(dst io.Writer) error {
		return archive.Pipe(func(all io.Writer) error { return layout.WriteTar(all, owner.UID, owner.GID) }, func(src io.Reader) error {
			return archive.Rename(dst, src, func(h *tar.Header) (string, bool) {
				if dir == "" {
					return h.Name, true
				}
				name, ok := strings.CutPrefix(h.Name, dir+"/")
				return name, ok && name != ""
			})
		})
	}, func(r io.Reader) error { return w.Put(ctx, r) })
}
