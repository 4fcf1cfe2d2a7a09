package capture

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"

	"securebench/internal/candidate"
	"securebench/internal/digest"
	"securebench/internal/sandbox"
	"securebench/internal/sandbox/holder"
	"securebench/internal/verdict"
)

// tarOverhead is room for the headers around one captured file.
const tarOverhead = 16 << 10

// file reads the one file of the extraction out of the workspace.
func (j job) file(ctx context.Context) ([]byte, error) {
	var buf bytes.Buffer
	path := j.Extraction.Path
	err := j.space.Get(ctx, path, j.Limit+tarOverhead, &buf)
	if errors.Is(err, sandbox.ErrTooLarge) {
		return nil, candidate.Reject(verdict.CandidateTooLarge, "the candidate file is larger than %d bytes", j.Limit)
	}
	if err != nil {
		return nil, fmt.Errorf("reading the candidate from the workspace: %w", err)
	}
	data, err := onlyFile(&buf, path, j.Limit)
	if err != nil {
		return nil, err
	}
	if j.Public[path] == digest.Bytes(data) {
		return nil, candidate.Reject(verdict.CandidateMissing, "the agent did not change %s", path)
	}
	return data, nil
}

// onlyFile reads the archive of one path, which must be a regular file that
// nothing else in the workspace links to.
func onlyFile(archive io.Reader, path string, limit int64) ([]byte, error) {
	tr := tar.NewReader(archive)
	h, err := tr.Next()
	if errors.Is(err, io.EOF) {
		return nil, candidate.Reject(verdict.CandidateMissing, "the agent left no %s", path)
	}
	if err != nil {
		return nil, fmt.Errorf("reading the workspace's archive: %w", err)
	}
	switch {
	case h.Typeflag != tar.TypeReg:
		return nil, candidate.Reject(verdict.CandidateNotRegular, "%s is %s, not a regular file", path, typeName(h))
	case h.PAXRecords[holder.RecordLinks] != "":
		return nil, candidate.Reject(verdict.CandidateNotRegular, "%s has other names: hard links are not taken", path)
	case h.Size > limit:
		return nil, candidate.Reject(verdict.CandidateTooLarge, "the candidate has %d bytes, the limit is %d", h.Size, limit)
	}
	data, err := io.ReadAll(io.LimitReader(tr, limit+1))
	if err != nil {
		return nil, fmt.Errorf("reading the workspace's archive: %w", err)
	}
	return data, nil
}

// typeName names the type of an entry of a workspace's archive.
func typeName(h *tar.Header) string {
	switch h.PAXRecords[holder.RecordType] {
	case holder.Unreadable:
		return "unreadable"
	case holder.Socket:
		return "a socket"
	}
	return candidate.TypeName(h.Typeflag)
}
