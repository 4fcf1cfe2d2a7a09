package record

// ManifestFormat is the version of run.json.
const ManifestFormat = 1

// Manifest is run.json: what a run was made of, written before its first
// task. It holds no hidden value and no plain digest of one.
type Manifest struct {
	Format      int               `json:"format"`
	RunID       string            `json:"run_id"`
	Started     string            `json:"started"` // RFC 3339, UTC
	Agent       string            `json:"agent"`
	Pack        PackInfo          `json:"pack"`
	Planned     Planned           `json:"planned"`
	Digests     RunDigests        `json:"digests"`
	Limits      map[string]any    `json:"limits"`
	Engine      any               `json:"engine"` // null when nothing needed one
	Images      map[string]string `json:"images"` // reference → content digest
	Labels      []string          `json:"labels"`
	Version     string            `json:"version"`
	SaltDigest  string            `json:"salt_sha256"`
	ResumedFrom []string          `json:"resumed_from"` // digests of former records
}

// PackInfo names the pack.
type PackInfo struct {
	ID      string `json:"id"`
	Version int64  `json:"version"`
}

// Planned is how much work the run set out to do.
type Planned struct {
	Tasks    int `json:"tasks"`
	Attempts int `json:"attempts"`
}

// RunDigests bind the run's inputs. Manifest, Public and Config are plain;
// the others cover hidden data and are keyed by the run's salt.
type RunDigests struct {
	Manifest string `json:"manifest"`
	Public   string `json:"public"`
	Config   string `json:"config"`
	Pack     string `json:"pack"`
	Assets   string `json:"assets"`
	Verifier string `json:"verifier"`
}
