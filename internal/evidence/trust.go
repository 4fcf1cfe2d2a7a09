package evidence

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"securebench/internal/attest"
	"securebench/internal/fault"
	"securebench/internal/pipeline/record"
	"securebench/internal/redact"
)

// Trust says whose signature counts: that of Key, or else of a key in the
// keyring, or with AnySigner of any key.
type Trust struct {
	Key       *attest.PublicKey
	AnySigner bool
	Getenv    func(string) string // finds the keyring
}

// Signer is whoever signed a run, and whether that counts.
type Signer struct {
	Entry attest.Entry
	Known bool // in the keyring, or the key that was asked for
	trust Trust
}

// String names the signer for whoever has the keyring.
func (s Signer) String() string {
	switch {
	case !s.Known:
		return "unknown key " + s.Entry.Key.ID
	case s.Entry.Role == attest.RoleSigning, s.Entry.Role == attest.RoleRetired:
		return "your own key " + s.Entry.Key.ID
	case s.Entry.Name != "":
		return redact.Escape(s.Entry.Name) + ", " + s.Entry.Key.ID
	}
	return s.Entry.Key.ID
}

// Public names the signer in what others may read, to whom the key is not their own.
func (s Signer) Public() string {
	if s.Entry.Role == attest.RoleSigning || s.Entry.Role == attest.RoleRetired {
		return s.Entry.Key.ID
	}
	return s.String()
}

// UntrustedError says that a run is intact but its signer is not trusted.
type UntrustedError struct {
	ID       string
	OtherKey bool // another key than the one that was asked for
}

// Error names the signer.
func (e *UntrustedError) Error() string {
	if e.OtherKey {
		return fmt.Sprintf("the run is intact, but signed by %s, not by the key of --key", e.ID)
	}
	return "the run is intact, but signed by a key that is not trusted: " + e.ID
}

// UnfinishedError says that nothing is wrong with a run but that it has no end.
type UnfinishedError struct{ Progress string }

// Error counts the records.
func (e *UnfinishedError) Error() string {
	return fmt.Sprintf("the run is not finished: %s attempts have a record, and nothing is signed", e.Progress)
}

// Judge returns why the run cannot be trusted, or nil.
func (s Signer) Judge(res *Result) error {
	var err error
	switch {
	case res.Unfinished && len(res.Problems) == 0:
		err = &UnfinishedError{res.Progress()}
	case !res.OK():
		err = fmt.Errorf("the run does not verify: problems found: %d", len(res.Problems)+res.More)
	case !s.Known && (s.trust.Key != nil || !s.trust.AnySigner):
		err = &UntrustedError{s.Entry.Key.ID, s.trust.Key != nil}
	}
	return fault.As(fault.Integrity, err)
}

// OpenVerified opens a run and verifies it. What is wrong with it is in the
// result and in the signer's judgement. The caller closes the run.
func OpenVerified(ctx context.Context, name string, t Trust, opts Options) (*Run, *Result, Signer, error) {
	run, err := openRun(name)
	if err != nil {
		return nil, nil, Signer{}, err
	}
	var signer Signer
	res, err := run.Verify(ctx, opts)
	if err == nil && res.Sealed {
		signer, err = t.signer(res.Signer)
	}
	if ctx.Err() != nil {
		err = fault.As(fault.Interrupted, errors.New("interrupted"))
	}
	if err != nil {
		return nil, nil, signer, errors.Join(err, run.Close())
	}
	return run, res, signer, nil
}

// openRun opens a run. A name that is not that of a run is a usage error.
func openRun(name string) (*Run, error) {
	run, err := OpenRun(name)
	if errors.Is(err, errBroken) {
		return nil, fault.As(fault.Integrity, err)
	}
	if err != nil {
		return nil, fault.As(fault.Usage, err)
	}
	for _, name := range []string{record.LinesName, record.ManifestName, record.StatementName} {
		if _, err := fs.Stat(run, name); err == nil {
			return run, nil
		}
	}
	kind := fault.Usage
	if run.Bundle() {
		kind = fault.Integrity
	}
	err = fault.As(kind, fmt.Errorf("%s holds no run: no %s, no %s", redact.Quote(name), record.ManifestName, record.LinesName))
	return nil, errors.Join(err, run.Close())
}

// signer looks the signer up.
func (t Trust) signer(key attest.PublicKey) (Signer, error) {
	s := Signer{Entry: attest.Entry{Key: key}, trust: t}
	if t.Key != nil {
		s.Known = key == *t.Key
		return s, nil
	}
	ring, err := OpenKeyring(t.Getenv)
	if err != nil && t.AnySigner {
		return s, nil // without a home directory no key is known
	}
	if err != nil {
		return s, err
	}
	e, ok, err := ring.Lookup(key.ID)
	if err != nil {
		return s, KeyringError(err)
	}
	if ok && e.Key == key {
		s.Entry, s.Known = e, true
	}
	return s, nil
}
