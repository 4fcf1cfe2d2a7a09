package holder

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"syscall"

	"securebench/internal/bounded"
	"securebench/internal/sandbox"
	"securebench/internal/sandbox/wire"
)

// wanted asks for an archive.
type wanted struct {
	Path  string `json:"path"`
	Limit int64  `json:"limit"`
	// Skip are the paths that are left out, with all that is below them.
	Skip []string `json:"skip,omitzero"`
}

// Check leaves it to [get] to refuse paths: that is an error of the tree.
func (wanted) Check() error { return nil }

// Bounds of the list of skipped paths.
const (
	maxSkipped   = 64
	maxSkipBytes = 8 << 10
)

// checkSkip refuses lists that are too long and paths that are not inside the
// tree.
func checkSkip(skip []string) error {
	if len(skip) > maxSkipped {
		return fmt.Errorf("%d paths to skip, more than %d", len(skip), maxSkipped)
	}
	size := 0
	for _, path := range skip {
		if size += len(path); size > maxSkipBytes {
			return fmt.Errorf("the paths to skip have more than %d bytes", maxSkipBytes)
		}
		if !fs.ValidPath(path) || path == "." || strings.ContainsRune(path, 0) {
			return fmt.Errorf("%q is not a path inside the tree that can be skipped", path)
		}
	}
	return nil
}

// The codes of a result, for what callers distinguish.
const (
	codeOK       = ""
	codeError    = "error"
	codeNoSpace  = "no_space"
	codeTooLarge = "too_large"
)

// result is an answer, or the end of one with an archive.
type result struct {
	Code    string `json:"code,omitzero"`
	Message string `json:"message,omitzero"`
	Usage   *usage `json:"usage,omitzero"`
}

type usage struct {
	Bytes       int64 `json:"bytes"`
	BytesLimit  int64 `json:"bytes_limit"`
	Inodes      int64 `json:"inodes"`
	InodesLimit int64 `json:"inodes_limit"`
	// Of the root:
	UID  int   `json:"uid,omitzero"`
	GID  int   `json:"gid,omitzero"`
	Mode int64 `json:"mode,omitzero"` // as tar numbers it
}

// resultOf encodes how an operation ended.
func resultOf(err error) result {
	switch {
	case err == nil:
		return result{}
	case errors.Is(err, sandbox.ErrTooLarge):
		return result{Code: codeTooLarge}
	}
	said := bounded.Text(err.Error(), wire.MaxText)
	if errors.Is(err, syscall.ENOSPC) {
		return result{Code: codeNoSpace, Message: said}
	}
	return result{Code: codeError, Message: said}
}

// Check refuses what [resultOf] never makes.
func (r result) Check() error {
	if !slices.Contains([]string{codeOK, codeError, codeNoSpace, codeTooLarge}, r.Code) {
		return fmt.Errorf("result %.40q: %w", r.Code, wire.ErrInvalid)
	}
	return nil
}

// err is the inverse of resultOf.
func (r result) err() error {
	switch r.Code {
	case codeOK:
		return nil
	case codeTooLarge:
		return sandbox.ErrTooLarge
	case codeNoSpace:
		return &remoteError{r.Message, syscall.ENOSPC}
	}
	return &remoteError{r.Message, nil}
}

// remoteError is an error that the server reported; the stream can still be used. It
// is a [securebench/internal/sandbox.ErrTree].
type remoteError struct {
	message string
	cause   error
}

func (e *remoteError) Error() string { return e.message }
func (e *remoteError) Unwrap() error { return e.cause }

// Is makes it the error that callers distinguish.
func (e *remoteError) Is(target error) bool { return target == sandbox.ErrTree }
