package scoring

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"syscall"

	"securebench/internal/redact"
	"securebench/internal/source"
)

// OpenLog returns the logger of an engine. It appends to a file, one line of
// ASCII JSON per event, because engines quote foreign names and errors. Without
// a name, it discards everything. The file stays open until the process ends.
func OpenLog(name string) (*slog.Logger, error) {
	if name == "" {
		return slog.New(slog.DiscardHandler), nil
	}
	// With O_NONBLOCK, opening a named pipe without a reader fails instead of
	// blocking.
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_APPEND|os.O_CREATE|syscall.O_NONBLOCK|syscall.O_NOCTTY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("opening the engine log: %w", err)
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s is %s, %w", redact.Quote(name), source.FileType(info.Mode()), source.ErrNotRegular)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("opening the engine log: %w", err), f.Close())
	}
	return slog.New(slog.NewJSONHandler(asciiWriter{f}, &slog.HandlerOptions{Level: slog.LevelDebug})), nil
}

// asciiWriter escapes non-ASCII characters in the JSON that passes through it.
type asciiWriter struct{ w io.Writer }

func (a asciiWriter) Write(p []byte) (int, error) {
	if _, err := a.w.Write(redact.ASCII(p)); err != nil {
		return 0, err
	}
	return len(p), nil
}
