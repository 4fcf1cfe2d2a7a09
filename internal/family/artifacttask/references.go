package artifacttask

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"

	"securebench/internal/artifact"
	"securebench/internal/digest"
	"securebench/internal/family"
	"securebench/internal/family/readbox"
	"securebench/internal/family/sandboxed"
	"securebench/internal/verdict"
)

// references are the rows' own files, each read once.
type references struct {
	known sandboxed.Known[*artifact.File]
}

// maxKept is how many models of references are kept.
const maxKept = 64

// read returns what the references of a row say. Those that are not known are read in a
// sandbox of their own, which no candidate's file was in.
func (s *scorer) read(ctx context.Context) error {
	var box *readbox.Box
	defer func() {
		if box != nil {
			_ = box.Close(context.WithoutCancel(ctx)) // what is left is reaped
		}
	}()
	s.wanted = make([][]*artifact.File, len(s.row.outputs))
	for i, refs := range s.row.references {
		t := s.row.outputs[i].Type
		for _, ref := range refs {
			f, err := s.verifier.references.known.Once(map[string]any{"type": t, "path": ref.path, "digest": s.sumOf(ref), "converter": s.converter.imageID()}, func() (f *artifact.File, err error) {
				content, err := s.contentOf(ref)
				if err != nil {
					return nil, err
				}
				if box == nil {
					if box, err = readbox.Open(ctx, s.verifier.resources.Engine, s.labels()); err != nil {
						return nil, err
					}
				}
				return s.readFile(ctx, box, "the reference", false, t, int64(len(content)), bytes.NewReader(content))
			})
			if err != nil {
				return ofRow(err, ref)
			}
			s.wanted[i] = append(s.wanted[i], f)
		}
	}
	return nil
}

// ofRow is the failure of a row whose reference cannot be read.
func ofRow(err error, ref reference) error {
	name := ref.path
	if name == "" {
		name = "the inline reference"
	}
	var failed *family.Failure
	if u, ok := errors.AsType[*readbox.Unreadable](err); ok {
		return family.Fail(verdict.PackFault, "eval.%s: %s: %v", keyReference, name, u)
	}
	if errors.As(err, &failed) {
		return family.Fail(verdict.PackFault, "eval.%s: %s: %s", keyReference, name, failed.Message)
	}
	return err
}

// sumOf returns what tells a reference from an earlier one.
func (s *scorer) sumOf(ref reference) string {
	if ref.path == "" {
		return digest.Bytes(ref.content)
	}
	return s.verifier.resources.Files.EvalDigests[ref.path]
}

// contentOf returns the content of a reference.
func (s *scorer) contentOf(ref reference) ([]byte, error) {
	if ref.path == "" {
		return ref.content, nil
	}
	archive, err := s.verifier.resources.Files.Solution(ref.path)
	if err != nil {
		return nil, fmt.Errorf("reading eval.%s: %w", keyReference, err)
	}
	tr := tar.NewReader(bytes.NewReader(archive))
	h, err := tr.Next()
	switch {
	case err != nil:
		return nil, family.Fail(verdict.PackFault, "there is no such file")
	case h.Typeflag != tar.TypeReg:
		return nil, family.Fail(verdict.PackFault, "it is no file")
	case h.Size > readbox.MaxBytes:
		return nil, family.Fail(verdict.PackFault, "it has more than %d bytes", readbox.MaxBytes)
	}
	return io.ReadAll(tr)
}
