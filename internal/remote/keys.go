package remote

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/nats-io/nkeys"

	"securebench/internal/durable"
	"securebench/internal/source"
)

// The certificates of a hub begin this long before they are made, because the clocks of
// machines differ, and hold this long after.
const (
	backdated = 48 * time.Hour
	lasting   = 10 * 365 * 24 * time.Hour
)

// The files of a hub.
const (
	authorityFile   = "ca.pem"
	certificateFile = "server.pem"
	keyFile         = "server.key"
	operatorFile    = "operator.key"
	workersFolder   = "workers"
)

// maxKeyFile bounds each file of a hub, in bytes.
const maxKeyFile = 64 << 10

// Keys is a folder with the hub's certificate and the workers that are invited.
type Keys struct{ Dir string }

// DefaultKeys returns the folder in the user's configuration directory.
func DefaultKeys() (Keys, error) {
	dir, err := os.UserConfigDir()
	if err != nil {
		return Keys{}, fmt.Errorf("finding the folder of the hub: %w", err)
	}
	return Keys{filepath.Join(dir, "securebench", "hub")}, nil
}

// ErrNoHub is wrapped by errors of a folder in which no hub was made.
var ErrNoHub = errors.New("there is no hub: run securebench hub init first")

// ErrHub is returned by [Keys.Init] if there is a hub already.
var ErrHub = errors.New("there is a hub already")

// Init makes the authority, which signs the certificate of the server and is not kept:
// workers believe nobody else.
func (k Keys) Init() error {
	if err := os.MkdirAll(filepath.Join(k.Dir, workersFolder), 0o700); err != nil {
		return fmt.Errorf("making the folder of the hub: %w", err)
	}
	root, err := os.OpenRoot(k.Dir)
	if err != nil {
		return fmt.Errorf("opening the folder of the hub: %w", err)
	}
	defer root.Close()
	if _, err := root.Lstat(keyFile); err == nil {
		return fmt.Errorf("%s: %w", k.Dir, ErrHub)
	}
	ca, certificate, key, err := certify(time.Now())
	if err != nil {
		return err
	}
	operator, err := newSeed()
	if err != nil {
		return err
	}
	return errors.Join(durable.WriteFile(root, operatorFile, operator, 0o600), durable.WriteFile(root, authorityFile, ca, 0o600), durable.WriteFile(root, certificateFile, certificate, 0o600),
		durable.WriteFile(root, keyFile, key, 0o600)) // the key comes last: with it the hub is whole
}

// certify makes an authority and, signed by it, a server.
func certify(now time.Time) (ca, certificate, key []byte, err error) {
	authority, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, nil, fmt.Errorf("making a key: %w", err)
	}
	server, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, nil, fmt.Errorf("making a key: %w", err)
	}
	from, to := now.Add(-backdated), now.Add(lasting)
	above := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "securebench hub authority"}, NotBefore: from, NotAfter: to,
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	below := &x509.Certificate{SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: ServerName}, NotBefore: from, NotAfter: to,
		DNSNames: []string{ServerName}, KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}
	a, err := x509.CreateCertificate(rand.Reader, above, above, &authority.PublicKey, authority)
	if err != nil {
		return nil, nil, nil, fmt.Errorf("making the authority: %w", err)
	}
	b, err := x509.CreateCertificate(rand.Reader, below, above, &server.PublicKey, authority)
	if err != nil {
		return nil, nil, nil, fmt.Errorf("making the certificate: %w", err)
	}
	k, err := x509.MarshalPKCS8PrivateKey(server)
	if err != nil {
		return nil, nil, nil, fmt.Errorf("making the key: %w", err)
	}
	block := func(kind string, der []byte) []byte { return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}) }
	return block("CERTIFICATE", a), block("CERTIFICATE", b), block("PRIVATE KEY", k), nil
}

// Server returns the server's side of TLS.
func (k Keys) Server() (*tls.Config, error) {
	var parts [2][]byte
	for i, name := range []string{certificateFile, keyFile} {
		b, err := source.ReadFile(filepath.Join(k.Dir, name), maxKeyFile)
		if errors.Is(err, fs.ErrNotExist) {
			return nil, ErrNoHub
		}
		if err != nil {
			return nil, fmt.Errorf("reading the hub's key: %w", err)
		}
		parts[i] = b
	}
	pair, err := tls.X509KeyPair(parts[0], parts[1])
	if err != nil {
		return nil, fmt.Errorf("reading the hub's key: %w", err)
	}
	return &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS13}, nil
}

// Worker is a worker that was invited.
type Worker struct {
	Name    string `json:"name"`
	Roles   []Role `json:"roles"`
	Key     string `json:"key"`     // public
	Invited string `json:"invited"` // RFC 3339, UTC
}

// Credential is what a worker has. It can be encoded, and is secret.
type Credential struct {
	Name  string `json:"name"`
	Roles []Role `json:"roles"`
	CA    string `json:"ca"`
	Seed  string `json:"seed"`
}

// Invite adds a worker and returns its credential.
func (k Keys) Invite(name string, roles []Role) (Credential, error) {
	if !ValidName(name) {
		return Credential{}, errors.New("the name of a worker must be of lower-case letters, digits and hyphens, at most 63")
	}
	ca, err := source.ReadFile(filepath.Join(k.Dir, authorityFile), maxKeyFile)
	if errors.Is(err, fs.ErrNotExist) {
		return Credential{}, ErrNoHub
	}
	if err != nil {
		return Credential{}, fmt.Errorf("reading the hub's authority: %w", err)
	}
	seed, err := newSeed()
	if err != nil {
		return Credential{}, err
	}
	made := Credential{Name: name, Roles: roles, CA: string(ca), Seed: string(seed)}
	public, err := made.Public()
	if err != nil {
		return Credential{}, err
	}
	w := Worker{Name: name, Roles: roles, Key: public, Invited: time.Now().UTC().Format(time.RFC3339)}
	b, err := json.Marshal(w, json.Deterministic(true))
	if err != nil {
		return Credential{}, fmt.Errorf("encoding a worker: %w", err)
	}
	root, err := os.OpenRoot(filepath.Join(k.Dir, workersFolder))
	if err != nil {
		return Credential{}, fmt.Errorf("opening the folder of the hub: %w", err)
	}
	defer root.Close()
	f, err := root.OpenFile(name+".json", os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return Credential{}, fmt.Errorf("there is a worker %s already: take another name, or revoke it first", name)
	}
	if err == nil {
		_, err = f.Write(append(b, '\n'))
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		return Credential{}, fmt.Errorf("adding the worker: %w", err)
	}
	return made, nil
}

// newSeed makes a key that answers challenges.
func newSeed() ([]byte, error) {
	pair, err := nkeys.CreateUser()
	if err != nil {
		return nil, fmt.Errorf("making a key: %w", err)
	}
	defer pair.Wipe()
	seed, err := pair.Seed()
	if err != nil {
		return nil, fmt.Errorf("making a key: %w", err)
	}
	return slices.Clone(seed), nil // Wipe overwrites it
}

// Operator returns the credential of whoever the hub is of, who may ask a run how it is.
func (k Keys) Operator() (Credential, error) {
	var parts [2][]byte
	for i, name := range []string{authorityFile, operatorFile} {
		b, err := source.ReadFile(filepath.Join(k.Dir, name), maxKeyFile)
		if errors.Is(err, fs.ErrNotExist) {
			return Credential{}, ErrNoHub
		}
		if err != nil {
			return Credential{}, fmt.Errorf("reading the operator's key: %w", err)
		}
		parts[i] = b
	}
	return Credential{Name: OperatorName, CA: string(parts[0]), Seed: string(parts[1])}, nil
}

// Revoke removes a worker: it is disconnected, and what it has goes to others.
func (k Keys) Revoke(name string) error {
	if !ValidName(name) {
		return errors.New("there is no worker of that name")
	}
	err := os.Remove(filepath.Join(k.Dir, workersFolder, name+".json"))
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("there is no worker %s", name)
	}
	if err != nil {
		return fmt.Errorf("revoking the worker: %w", err)
	}
	return nil
}

// Workers lists the invited workers by name.
func (k Keys) Workers() ([]Worker, error) {
	entries, err := os.ReadDir(filepath.Join(k.Dir, workersFolder))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, ErrNoHub
	}
	if err != nil {
		return nil, fmt.Errorf("reading the folder of the hub: %w", err)
	}
	var out []Worker
	for _, e := range entries {
		name, ok := strings.CutSuffix(e.Name(), ".json")
		if !ok || !ValidName(name) {
			continue
		}
		b, err := source.ReadFile(filepath.Join(k.Dir, workersFolder, e.Name()), maxKeyFile)
		if errors.Is(err, fs.ErrNotExist) {
			continue // it was revoked a moment ago
		}
		var w Worker
		if err == nil {
			err = json.Unmarshal(b, &w, json.RejectUnknownMembers(true))
		}
		if err == nil && (w.Name != name || !nkeys.IsValidPublicUserKey(w.Key)) {
			err = errors.New("it is not the file of that worker")
		}
		if err != nil {
			return nil, fmt.Errorf("reading the worker %s: %w", name, err)
		}
		out = append(out, w)
	}
	slices.SortFunc(out, func(a, b Worker) int { return strings.Compare(a.Name, b.Name) })
	return out, nil
}

// Bytes returns the credential as it is written to a file.
func (c Credential) Bytes() ([]byte, error) {
	b, err := json.Marshal(c, json.Deterministic(true), jsontext.WithIndent("  "))
	if err != nil {
		return nil, fmt.Errorf("encoding the credential: %w", err)
	}
	return append(b, '\n'), nil
}

// ReadCredential reads the file of a credential.
func ReadCredential(name string) (c Credential, err error) {
	b, err := source.ReadFile(name, maxKeyFile)
	if err != nil {
		return c, fmt.Errorf("reading the credential: %w", err)
	}
	if err := json.Unmarshal(b, &c, json.RejectUnknownMembers(true)); err != nil {
		return c, fmt.Errorf("reading the credential %s: it is not one that securebench hub invite wrote", name)
	}
	_, err = c.Client()
	if _, bad := c.Public(); err != nil || bad != nil || !ValidName(c.Name) || len(c.Roles) == 0 {
		return c, fmt.Errorf("reading the credential %s: it is damaged", name)
	}
	return c, nil
}

// Client returns the worker's side of TLS.
func (c Credential) Client() (*tls.Config, error) {
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM([]byte(c.CA)) {
		return nil, errors.New("the credential has no certificate of an authority")
	}
	return &tls.Config{RootCAs: pool, ServerName: ServerName, MinVersion: tls.VersionTLS13}, nil
}

// Sign answers the hub's challenge.
func (c Credential) Sign(challenge []byte) ([]byte, error) {
	pair, err := nkeys.FromSeed([]byte(c.Seed))
	if err != nil {
		return nil, fmt.Errorf("reading the credential's key: %w", err)
	}
	defer pair.Wipe()
	return pair.Sign(challenge)
}

// Public returns the worker's public key.
func (c Credential) Public() (string, error) {
	pair, err := nkeys.FromSeed([]byte(c.Seed))
	if err != nil {
		return "", fmt.Errorf("reading the credential's key: %w", err)
	}
	defer pair.Wipe()
	return pair.PublicKey()
}
