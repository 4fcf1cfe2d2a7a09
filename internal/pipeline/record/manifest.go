package record

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"

	"securebench/internal/digest"
	"securebench/internal/rowset"
)

// ManifestFormat is the version of run.json.
const ManifestFormat = 1

// Manifest is run.json, written before the first task: what the run planned
// and what it depends on. It contains no hidden value and no plain digest of
// one.
type Manifest struct {
	Format  int      `json:"format"`
	RunID   string   `json:"run_id"`
	Started string   `json:"started"` // RFC 3339, UTC
	Agent   string   `json:"agent"`
	Pack    PackInfo `json:"pack"`
	Planned Planned  `json:"planned"`
	// Selection says which rows are planned, if flags other than --limit chose
	// them; otherwise they are the first of the pack.
	Selection *rowset.Selection `json:"selection,omitzero"`
	Digests   RunDigests        `json:"digests"`
	Limits    RunLimits         `json:"limits"`
	Engine    any               `json:"engine"` // null when nothing needed one
	Images    map[string]string `json:"images"` // reference, or [HiddenImage], → content digest
	Labels    []string          `json:"labels"`
	// Programs are those of the agents, and Model is what the provider is asked
	// for; a harness without them has none.
	Programs []Program `json:"programs,omitzero"`
	Model    string    `json:"model,omitzero"`
	// Judge is what decides rubrics in words; nil if no row of the run has any, or no
	// judge was configured.
	Judge *Judging `json:"judge,omitzero"`
	// Schedule is what ran at the same time, in the last part of the run.
	Schedule   *Schedule `json:"schedule,omitzero"`
	Version    string    `json:"version"`
	SaltDigest string    `json:"salt_sha256"`
	// FormerRuns is the number of earlier runs in the directory, so that
	// repeating a run until the score is good is visible.
	FormerRuns int `json:"former_runs"`
	// ResumedFrom describes what each resume found and kept.
	ResumedFrom []Resumption `json:"resumed_from"`
	// Steered are the changes of the run while it went on, in the order in which they came.
	Steered []Steered `json:"steered,omitzero"`
	// Shards says how the run is divided, nil if it is not, and Shard, in the folder of
	// a shard, which one it is.
	Shards *Shards `json:"shards,omitzero"`
	Shard  *Shard  `json:"shard,omitzero"`
	// Workers are those on other machines that the run let in, in the order in which it
	// did.
	Workers []Worker `json:"workers,omitzero"`
	// AgentsFailed says that its first agents, or all, failed: it is not signed.
	AgentsFailed bool `json:"agents_failed,omitzero"`
	// MAC authenticates the manifest to whoever holds the run's salt: HMAC-SHA-256,
	// field "run", over the canonical form with an empty mac.
	MAC string `json:"mac"`
}

// Program is a program of agents for one platform.
type Program struct {
	Name      string `json:"name"`
	Version   string `json:"version"`
	Platform  string `json:"platform"`
	Integrity string `json:"integrity"` // of the package, as its registry has it, or of all packages that are pinned
	Digest    string `json:"digest"`    // of its files
}

// Schedule says how many tasks ran at the same time, and why.
type Schedule struct {
	Workers int    `json:"workers"`
	Why     string `json:"why"`
	// Memory is how many bytes their sandboxes could need, and MemoryUsable how
	// many the machine had for them; 0 is unknown.
	Memory       int64 `json:"memory_bytes"`
	MemoryUsable int64 `json:"memory_usable_bytes"`
}

// HiddenImage names an image to whoever holds the run's salt: one whose
// reference is an evaluation input.
func HiddenImage(salt digest.Salt, ref string) string { return salt.Keyed("image", "", []byte(ref)) }

// The maximum size of a run, which bounds the check of an untrusted one.
const (
	maxTasks    = 1 << 31
	maxAttempts = 1 << 20
)

// sign sets the MAC.
func (m *Manifest) sign(salt digest.Salt) error {
	sum, err := m.mac(salt)
	m.MAC = sum
	return err
}

func (m Manifest) mac(salt digest.Salt) (string, error) {
	m.MAC = ""
	b, err := digest.Canonical(m)
	return salt.Keyed("run", "", b), err
}

// Authentic reports whether a holder of the salt wrote the manifest.
func (m Manifest) Authentic(salt digest.Salt) bool {
	sum, err := m.mac(salt)
	return err == nil && sum == m.MAC
}

// Rows are the positions of the planned rows.
func (m Manifest) Rows() rowset.Set {
	if m.Selection != nil {
		return m.Selection.Rows
	}
	return rowset.First(m.Planned.Tasks)
}

// Bound reports whether a state of the run had this pack digest and this pack
// manifest.
func (m Manifest) Bound(pack, manifest string) bool {
	if m.Digests.Pack == pack {
		return m.Digests.Manifest == manifest
	}
	for _, r := range m.ResumedFrom {
		if r.Digests.Pack == pack {
			return r.Digests.Manifest == manifest
		}
	}
	return false
}

// EngineName returns the name of the engine and why it was taken, as far as a
// manifest that was read says so.
func (m Manifest) EngineName() (name, choice string) {
	engine, _ := m.Engine.(map[string]any)
	name, _ = engine["name"].(string)
	choice, _ = engine["choice"].(string)
	return name, choice
}

// check rejects values that no run can have.
func (m Manifest) check() error {
	p, s := m.Planned, m.Selection
	switch {
	case m.Format != ManifestFormat:
		return fmt.Errorf("its format is %d, but this build reads format %d", m.Format, ManifestFormat)
	case p.Tasks < 0 || p.Tasks > maxTasks || p.Attempts < 1 || p.Attempts > maxAttempts || p.LeftOut < 0 || p.LeftOut > maxTasks || p.Judged < 0 || p.Judged > p.Tasks:
		return fmt.Errorf("it plans %d tasks with %d attempts and leaves out %d", p.Tasks, p.Attempts, p.LeftOut)
	case s != nil && (!s.Rows.Valid(p.Tasks+p.LeftOut) || s.Rows.Len() != p.Tasks):
		return fmt.Errorf("it plans %d tasks, and lists other rows", p.Tasks)
	}
	if err := m.steered(); err != nil {
		return err
	}
	if err := m.checkWorkers(); err != nil {
		return err
	}
	return m.checkShards()
}

// RunLimits are those of every sandbox of the run. Sizes are in bytes.
type RunLimits struct {
	Memory    int64   `json:"memory"`
	CPUs      float64 `json:"cpus"`
	Pids      int64   `json:"pids"`
	Disk      int64   `json:"disk"`
	Files     int64   `json:"files,omitzero"` // 0 in runs from before this limit existed: the default
	Output    int64   `json:"output"`
	Candidate int64   `json:"candidate"`
	// ProduceSeconds is the agent's time limit; 0 means the limit of the row
	// or the harness, or else the default.
	ProduceSeconds        float64 `json:"produce_seconds,omitzero"`
	ProduceSecondsDefault float64 `json:"produce_seconds_default"`
	// VerifySeconds is the time limit of a verification, by family.
	VerifySeconds map[string]float64 `json:"verify_seconds"`
}

// Resumption is one resume of a run.
type Resumption struct {
	At      string `json:"at"`      // RFC 3339, UTC
	Records string `json:"records"` // digest of candidates.jsonl before the resume
	Kept    int    `json:"kept"`    // lines
	// Rerun counts the dropped lines and the gaps, by reason.
	Rerun map[string]int `json:"rerun"`
	// Digests are those of the run before the resume; the kept lines contain
	// them.
	Digests RunDigests `json:"digests"`
}

// ReadManifest reads run.json strictly: it must be in canonical form. raw
// holds its bytes.
func ReadManifest(fsys fs.FS) (m Manifest, raw []byte, err error) {
	raw, err = ReadFile(fsys, ManifestName, maxManifest)
	if err != nil {
		return m, nil, err
	}
	if err := readCanonical(raw, &m); err != nil {
		return m, raw, err
	}
	return m, raw, m.check()
}

// Bytes returns the manifest as it is written.
func (m Manifest) Bytes() ([]byte, error) {
	b, err := digest.Canonical(m)
	return append(b, '\n'), err
}

// PackDigests are plain digests, some of hidden data: they stay in the
// restricted folder.
type PackDigests struct {
	Pack         string `json:"pack"`
	Tasks        string `json:"tasks"`
	PublicAssets string `json:"public_assets"`
	EvalAssets   string `json:"eval_assets"`
}

// ReadPack reads the plain digests of the pack.
func ReadPack(fsys fs.FS) (p PackDigests, err error) {
	raw, err := ReadFile(fsys, PackName, maxSmall)
	if err != nil {
		return p, err
	}
	return p, readCanonical(raw, &p)
}

// readCanonical decodes one line of canonical JSON.
func readCanonical(raw []byte, v any) error {
	line, whole := bytes.CutSuffix(raw, []byte("\n"))
	if !whole {
		return errors.New("it does not end in a newline")
	}
	return digest.DecodeCanonical(line, v)
}

// PackInfo names the pack.
type PackInfo struct {
	ID      string `json:"id"`
	Version int64  `json:"version"`
}

// Planned is the amount of work that the run set out to do, and the number of
// rows that flags excluded.
type Planned struct {
	Tasks    int `json:"tasks"`
	Attempts int `json:"attempts"`
	LeftOut  int `json:"left_out,omitzero"`
	Judged   int `json:"judged,omitzero"` // of the tasks, those that ask for a judge
}

// RunDigests bind the run's inputs. Manifest, Public and Config are plain; the
// others cover hidden data and are keyed with the run's salt.
type RunDigests struct {
	Manifest string `json:"manifest"`
	Public   string `json:"public"`
	Config   string `json:"config"`
	Pack     string `json:"pack"`
	Assets   string `json:"assets"`
	Verifier string `json:"verifier"`
}
