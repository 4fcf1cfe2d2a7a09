package holder

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"syscall"

	"github.com/go-json-experiment/json"

	"securebench/internal/bounded"
	"securebench/internal/sandbox"
)

// The operations of a request.
const (
	opPut    = "put"
	opGet    = "get"
	opRemove = "remove"
	opUsage  = "usage"
)

// request asks for one operation.
type request struct {
	Op    string `json:"op"`
	Path  string `json:"path,omitzero"`
	Limit int64  `json:"limit,omitzero"`
	// Skip are the paths that a get leaves out, with all that is below them.
	Skip []string `json:"skip,omitzero"`
}

// Bounds of the list of skipped paths, which has to fit into a frame.
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

// result ends an answer, and the data of a put.
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
	said := bounded.Text(err.Error(), 4096) // well below the size of a frame
	if errors.Is(err, syscall.ENOSPC) {
		return result{Code: codeNoSpace, Message: said}
	}
	return result{Code: codeError, Message: said}
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

func encode(v any) ([]byte, error) {
	b, err := json.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("encoding a message: %w", err)
	}
	return b, nil
}

// decode reads a message strictly: one value, no unknown and no repeated names.
func decode(b []byte, v any) error {
	if err := json.Unmarshal(b, v, json.RejectUnknownMembers(true)); err != nil {
		return fmt.Errorf("decoding a message: %w", err)
	}
	return nil
}
