package attest

import (
	"bytes"
	"context"
	"crypto"
	"encoding/base64"
	"errors"
	"fmt"

	"github.com/secure-systems-lab/go-securesystemslib/dsse"

	"securebench/internal/digest"
)

// The types of a signed statement: https://in-toto.io/Statement/v1 in a DSSE
// envelope, with our own predicate.
const (
	payloadType   = "application/vnd.in-toto+json"
	statementType = "https://in-toto.io/Statement/v1"
	predicateType = "urn:securebench:run:v1"
)

// MaxEnvelope bounds an envelope that is read, in bytes.
const MaxEnvelope = 1 << 20

// Statement says what a run recorded, and how much.
type Statement struct {
	Type          string    `json:"_type"`
	Subject       []Subject `json:"subject"`
	PredicateType string    `json:"predicateType"`
	Predicate     Predicate `json:"predicate"`
}

// Subject is a file of the run.
type Subject struct {
	Name   string            `json:"name"`
	Digest map[string]string `json:"digest"` // "sha256" → hex
}

// Predicate is what the statement says about its subjects.
type Predicate struct {
	RunID   string  `json:"run_id"`
	Ended   string  `json:"ended"` // RFC 3339, UTC
	Planned Planned `json:"planned"`
	Counts  Counts  `json:"counts"` // of what was computed
	// Judged are those of attempts at rows that ask for a judge.
	Judged Counts `json:"judged_counts,omitzero"`
	// Records is the number of lines, and MerkleRoot the root of the tree over
	// them (RFC 6962), so that missing records are noticed.
	Records    int64  `json:"records"`
	MerkleRoot string `json:"merkle_root"`
	// TraceBytes is the size of agent-trace.log, 0 if there is none.
	TraceBytes int64 `json:"trace_bytes"`
	// History is the keyed digest of the list of former files, "" if there are
	// none.
	History string `json:"history"`
	// PublicKey is the signer's, in PEM. It lets anybody check that the run is
	// complete; whether to trust the key is the reader's decision.
	PublicKey string `json:"public_key"`
}

// Planned is how much the run planned to do.
type Planned struct {
	Tasks    int `json:"tasks"`
	Attempts int `json:"attempts"`          // of each task
	LeftOut  int `json:"left_out,omitzero"` // rows of the pack that a flag excluded
	Judged   int `json:"judged,omitzero"`   // of the tasks, those that ask for a judge
}

// Counts are the numbers of records by status. Infrastructure counts the pending
// ones that ended in an infrastructure error.
type Counts struct {
	Passed         int `json:"passed"`
	Failed         int `json:"failed"`
	Pending        int `json:"pending"`
	Infrastructure int `json:"infrastructure"`
}

// Sign returns the statement in a signed envelope: one line of canonical JSON.
// It sets the statement's types and public key.
func Sign(s Statement, key PrivateKey) ([]byte, error) {
	s.Type, s.PredicateType = statementType, predicateType
	s.Predicate.PublicKey = string(key.Public().PEM())
	payload, err := digest.Canonical(s)
	if err != nil {
		return nil, err
	}
	signer, err := dsse.NewEnvelopeSigner(signer{key})
	if err != nil {
		return nil, fmt.Errorf("signing the statement: %w", err)
	}
	env, err := signer.SignPayload(context.Background(), payloadType, payload)
	if err != nil {
		return nil, fmt.Errorf("signing the statement: %w", err)
	}
	b, err := digest.Canonical(env)
	return append(b, '\n'), err
}

// Signed is a statement with a valid signature by Signer. It does not say
// whether Signer is trusted.
type Signed struct {
	Statement
	Signer PublicKey
}

// Open reads an envelope strictly and checks its signature with the key that it
// contains. The envelope and the statement in it must be in canonical form, so
// every byte counts.
func Open(raw []byte) (Signed, error) {
	var s Signed
	if len(raw) > MaxEnvelope {
		return s, fmt.Errorf("the envelope is longer than %d bytes", MaxEnvelope)
	}
	var env dsse.Envelope
	if err := digest.DecodeCanonical(bytes.TrimSuffix(raw, []byte("\n")), &env); err != nil {
		return s, fmt.Errorf("reading the envelope: %w", err)
	}
	if !bytes.HasSuffix(raw, []byte("\n")) {
		return s, errors.New("reading the envelope: it does not end in a newline")
	}
	if env.PayloadType != payloadType {
		return s, fmt.Errorf("the envelope contains %q, want %q", env.PayloadType, payloadType)
	}
	payload, err := strictBase64(env.Payload)
	if err != nil {
		return s, fmt.Errorf("reading the envelope's payload: %w", err)
	}
	if err := digest.DecodeCanonical(payload, &s.Statement); err != nil {
		return s, fmt.Errorf("reading the statement: %w", err)
	}
	if s.Type != statementType || s.PredicateType != predicateType {
		return s, fmt.Errorf("the statement has types %q and %q, want %q and %q", s.Type, s.PredicateType, statementType, predicateType)
	}
	s.Signer, err = signatory(env, s.Predicate.PublicKey)
	return s, err
}

// signatory checks the one signature.
func signatory(env dsse.Envelope, publicPEM string) (PublicKey, error) {
	key, err := ParsePublicKey([]byte(publicPEM))
	if err != nil {
		return key, fmt.Errorf("reading the signer's public key: %w", err)
	}
	if string(key.PEM()) != publicPEM {
		return key, errors.New("the signer's public key is not in canonical form")
	}
	if len(env.Signatures) != 1 {
		return key, fmt.Errorf("the envelope has %d signatures, want 1", len(env.Signatures))
	}
	if env.Signatures[0].KeyID != key.ID {
		return key, fmt.Errorf("the signature names key %q, the statement %s", env.Signatures[0].KeyID, key.ID)
	}
	if _, err := strictBase64(env.Signatures[0].Sig); err != nil {
		return key, fmt.Errorf("reading the signature: %w", err)
	}
	v, err := dsse.NewEnvelopeVerifier(checker{key})
	if err != nil {
		return key, fmt.Errorf("checking the signature: %w", err)
	}
	if _, err := v.Verify(context.Background(), &env); err != nil {
		return key, fmt.Errorf("the signature is not that of key %s over this statement", key.ID)
	}
	return key, nil
}

// strictBase64 decodes standard base64 with padding and refuses every other
// encoding of the same bytes.
func strictBase64(s string) ([]byte, error) {
	b, err := base64.StdEncoding.Strict().DecodeString(s)
	if err != nil {
		return nil, err
	}
	if base64.StdEncoding.EncodeToString(b) != s {
		return nil, errors.New("it is not in canonical form")
	}
	return b, nil
}

// signer and checker adapt the keys to the envelope library.
type (
	signer  struct{ key PrivateKey }
	checker struct{ key PublicKey }
)

func (s signer) Sign(_ context.Context, data []byte) ([]byte, error) { return s.key.Sign(data), nil }
func (s signer) KeyID() (string, error)                              { return s.key.Public().ID, nil }

func (c checker) KeyID() (string, error) { return c.key.ID, nil }

// Public returns nil: the library uses it only to compute its own key id.
func (c checker) Public() crypto.PublicKey { return nil }

func (c checker) Verify(_ context.Context, data, sig []byte) error {
	if !c.key.Verify(data, sig) {
		return errors.New("wrong signature")
	}
	return nil
}
