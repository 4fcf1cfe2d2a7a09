package viewer

import (
	"fmt"
	"io"

	"securebench/internal/digest"
	"securebench/internal/evidence"
	"securebench/internal/pipeline/record"
)

// records is a file of records that was checked before, in which single ones are read.
type records struct{ io.ReadSeekCloser }

func openRecords(run *evidence.Run) (*records, error) {
	f, err := run.Records()
	if err != nil {
		return nil, fmt.Errorf("reading the records again: %w", err)
	}
	return &records{f}, nil
}

// read reads the bytes of a record. It must be what was checked.
func (r *records) read(l line) ([]byte, error) {
	raw := make([]byte, l.size)
	_, err := r.Seek(l.offset, io.SeekStart)
	if err == nil {
		_, err = io.ReadFull(r, raw)
	}
	if err != nil {
		return nil, fmt.Errorf("reading the records again: %w", err)
	}
	if digest.Bytes(raw) != l.digest {
		return nil, fmt.Errorf("%s changed while it was shown", record.LinesName)
	}
	return raw, nil
}
