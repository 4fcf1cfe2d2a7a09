package agent

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"path"
	"slices"

	"securebench/internal/candidate"
	"securebench/internal/sandbox"
	"securebench/internal/task"
	"securebench/internal/workspace"
)

// inlines reports whether a text can be the file that a task asks for.
func inlines(v task.AgentView) bool {
	x := v.Extraction()
	return x.OrStdout && x.Mode == task.FromWorkspace && len(x.Files) == 1
}

// inline makes a production of a text whose candidate is the tree with the file that a
// task asks for.
func inline(g *given, v task.AgentView, owner sandbox.User, text []byte) *given {
	g.kind = task.Workspace
	g.data = text
	g.tree = func(context.Context) (candidate.Candidate, error) {
		return laid(g.sink, g.origin, v, owner, map[string][]byte{v.Extraction().Files[0]: text})
	}
	return g
}

// laid stores a tree that has some files of a task's workspace.
func laid(sink candidate.Sink, origin candidate.Origin, v task.AgentView, owner sandbox.User, files map[string][]byte) (candidate.Candidate, error) {
	return stream(sink, origin, func(w io.Writer) error {
		tw := candidate.NewTreePacker(w, candidate.Bounds{Bytes: candidate.MaxBytes, Files: int64(len(files))})
		for _, name := range slices.SortedFunc(maps.Keys(files), candidate.ComparePaths) {
			e := candidate.Entry{Path: path.Join(workspace.TargetOf(v.Environment()), name)[1:], Mode: 0o644,
				UID: owner.UID, GID: owner.GID, Size: int64(len(files[name]))}
			if err := tw.Add(e, bytes.NewReader(files[name])); err != nil {
				return err
			}
		}
		_, err := tw.Close()
		return err
	})
}

// owner returns whose files a solution makes.
func (r *Runner) owner(a Request) sandbox.User {
	if r == nil {
		return sandbox.User{}
	}
	return r.Users.Owner(a.View, a.Image)
}

// files makes a production of a solution that consists of files.
func (r *Runner) files(a Request, out Output) (Production, error) {
	if r == nil || r.Solutions == nil {
		return nil, errors.New("the row's solution has files, but nothing packs them")
	}
	return &given{agent: OracleName, kind: task.Workspace, origin: candidate.Given, sink: out.Sink, tree: func(context.Context) (candidate.Candidate, error) {
		files := map[string][]byte{}
		for name, from := range a.Solution.Files {
			archive, err := r.Solutions(from)
			if err == nil {
				files[name], err = only(archive)
			}
			if err != nil {
				return candidate.Candidate{}, fmt.Errorf("packing the row's solution: %w", err)
			}
		}
		return laid(out.Sink, candidate.Given, a.View, r.owner(a), files)
	}}, nil
}

// only returns the file that an archive consists of.
func only(archive []byte) ([]byte, error) {
	tr := tar.NewReader(bytes.NewReader(archive))
	h, err := tr.Next()
	if err != nil {
		return nil, err
	}
	if h.Typeflag != tar.TypeReg {
		return nil, fmt.Errorf("%q is no file", h.Name)
	}
	return io.ReadAll(tr)
}
