package terminaltask

import (
	"context"
	"maps"
	"path"
	"slices"

	"securebench/internal/sandbox"
	"securebench/internal/workspace"
)

// makeBoxes makes the sandboxes of the service, if there is one, and of the
// checker. Nothing of the candidate's is in them, nor does any command run.
func (s *scorer) makeBoxes(ctx context.Context) (err error) {
	if s.row.start != nil {
		// No evaluation file is there, and nothing that only the checker may do.
		spec := sandbox.Spec{Image: s.c.Image, Workdir: s.row.workdir, Mounts: s.serviceMounts()}
		if s.site.service, err = s.site.open(ctx, "service", s.Limit(), spec, s.row.capabilities); err != nil {
			return err
		}
	}
	mounts := append(s.checkerMounts(), sandbox.Mount{Workspace: s.site.evaluator, Target: evaluatorDir, ReadOnly: !s.row.writable},
		sandbox.Mount{Workspace: s.site.evaluator, Target: formerDir, ReadOnly: !s.row.writable})
	if s.row.inWorkspace() {
		mounts = append(mounts, sandbox.Mount{Workspace: s.site.part, Target: s.row.ownPart(), ReadOnly: true})
	}
	if s.row.reward != "" {
		mounts = append(mounts, sandbox.Mount{Workspace: s.site.reward, Target: path.Dir(s.row.reward)})
	}
	spec := sandbox.Spec{Image: s.image, Workdir: s.row.workdir, Mounts: mounts}
	if s.site.service != nil {
		spec.Peer = s.site.service.Box
	}
	s.site.checker, err = s.site.open(ctx, "verifier", s.Limit(), spec, s.checkerGrants())
	return err
}

// checkerGrants are what the checker may keep of root's powers: what the row's
// agent had, and what its dangerous commands need.
func (s *scorer) checkerGrants() []sandbox.Capability {
	out := slices.Clone(s.row.capabilities)
	for _, c := range s.grants {
		if !slices.Contains(out, c) {
			out = append(out, c)
		}
	}
	return out
}

// checkerMounts are the workspace, and the captured folders that are mounted
// because the checker's image is not the row's.
func (s *scorer) checkerMounts() []sandbox.Mount {
	out := []sandbox.Mount{{Workspace: s.site.tree, Target: s.row.workdir}}
	for _, root := range slices.Sorted(maps.Keys(s.site.roots)) {
		target := root
		if workspace.SystemPath(root) {
			target = candidateDir + root
		}
		out = append(out, sandbox.Mount{Workspace: s.site.roots[root], Target: target})
	}
	return out
}

// serviceMounts are the service's workspace and, if the row asks for that, what it
// has in common with the checker beside that: its image has the program folders.
func (s *scorer) serviceMounts() []sandbox.Mount {
	out := []sandbox.Mount{{Workspace: s.serviceSpace(), Target: s.row.workdir}}
	for _, root := range slices.Sorted(maps.Keys(s.site.roots)) {
		if s.row.start.shared && !workspace.SystemPath(root) {
			out = append(out, sandbox.Mount{Workspace: s.site.roots[root], Target: root})
		}
	}
	return out
}

// moved are the captured program folders, which are not at their own paths in
// an image of the checker's own.
func (s *scorer) moved() (out []string) {
	for _, root := range s.row.roots() {
		if s.row.elsewhere(root) {
			out = append(out, root)
		}
	}
	return out
}

// ownFolders are the folders in which nothing of the candidate's may be.
func (s *scorer) ownFolders() []string {
	out := []string{ownDir, evaluatorDir, sandbox.HelperDir}
	if s.row.inWorkspace() {
		out = append(out, s.row.ownPart())
	}
	if s.row.reward != "" {
		out = append(out, path.Dir(s.row.reward))
	}
	return out
}
