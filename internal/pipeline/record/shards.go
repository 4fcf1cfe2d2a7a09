package record

import (
	"cmp"
	"errors"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"securebench/internal/digest"
	"securebench/internal/rowset"
)

// Shards says how a run is divided, and what came of its shards.
type Shards struct {
	Count int    `json:"count"`
	Unit  string `json:"unit"` // [UnitRow] or [UnitAttempt]
	// Rows are those that are divided; nil is all that are planned.
	Rows rowset.Set `json:"rows,omitzero"`
	// Records is the digest of candidates.jsonl at the time of the last merge or resume.
	Records string `json:"records,omitzero"`
	Parts   []Part `json:"parts,omitzero"` // that were merged
}

// The units that are dealt out to shards.
const (
	UnitRow     = "row"     // a row with all its attempts
	UnitAttempt = "attempt" // one attempt
)

// MaxShards bounds the number of shards of a run.
const MaxShards = 1 << 20

// rowsPerShard is how many rows a shard has at least if rows are the unit: then each
// image is needed by one shard, and all shards have about as much to do.
const rowsPerShard = 4

// UnitOf returns the unit in which so many rows are dealt out to shards.
func UnitOf(rows, shards int) string {
	if rows >= rowsPerShard*shards {
		return UnitRow
	}
	return UnitAttempt
}

// Shard names a shard of a run, and which runner of it this is.
type Shard struct {
	Index   int `json:"index"`
	Restart int `json:"restart"` // from 1
	// Ended is when all its attempts had a record, "" if it was cut short.
	Ended string `json:"ended,omitzero"`
}

// Path returns the shard's folder in the directory of its run.
func (s Shard) Path() string { return path.Join(ShardsName, s.String()) }

// String returns the name of the shard's folder.
func (s Shard) String() string { return fmt.Sprintf("%d.%d", s.Index, s.Restart) }

// InOrder compares shards by index, and then by restart.
func (s Shard) InOrder(o Shard) int {
	return cmp.Or(cmp.Compare(s.Index, o.Index), cmp.Compare(s.Restart, o.Restart))
}

// parseShard returns the shard with a folder of this name.
func parseShard(name string) (s Shard, ok bool) {
	index, restart, _ := strings.Cut(name, ".")
	var err, other error
	s.Index, err = strconv.Atoi(index)
	s.Restart, other = strconv.Atoi(restart)
	return s, err == nil && other == nil && s.String() == name && s.Index >= 0 && s.Restart > 0
}

// Part is a shard that was merged.
type Part struct {
	Index      int            `json:"index"`
	Restart    int            `json:"restart"`
	Lines      string         `json:"lines"` // digest of its candidates.jsonl
	Kept       int            `json:"kept"`
	Superseded int            `json:"superseded"` // records of attempts of which another was taken
	Dropped    map[string]int `json:"dropped"`    // by reason
	Engine     any            `json:"engine"`     // null when nothing needed one
	Started    string         `json:"started"`
	Ended      string         `json:"ended,omitzero"`
}

// Shard returns which shard the part was.
func (p Part) Shard() Shard { return Shard{Index: p.Index, Restart: p.Restart} }

// OneTrustZone labels runs of which shards ran, or workers with both roles: agents and
// verifiers worked for processes on several machines that have what both need.
const OneTrustZone = "one_trust_zone"

// LabelZone labels the run if [Manifest.OneZone] says so.
func (m *Manifest) LabelZone() {
	m.Labels = slices.DeleteFunc(m.Labels, func(l string) bool { return l == OneTrustZone })
	if m.OneZone() {
		m.Labels = append(m.Labels, OneTrustZone)
		slices.Sort(m.Labels)
	}
}

// Plan returns the digest of what a run and each of its shards must agree on: inputs,
// plan and division.
func (m Manifest) Plan() (string, error) {
	m.Started, m.Engine, m.Schedule, m.FormerRuns, m.ResumedFrom, m.AgentsFailed, m.Shard, m.Workers, m.MAC = "", nil, nil, 0, nil, false, nil, nil, ""
	if s := m.Shards; s != nil {
		m.Shards = &Shards{Count: s.Count, Unit: s.Unit, Rows: s.Rows}
	}
	m.Labels = slices.DeleteFunc(slices.Clone(m.Labels), func(l string) bool { return l == OneTrustZone })
	return digest.JSON(m)
}

// checkShards rejects a division that no run can have.
func (m Manifest) checkShards() error {
	s := m.Shards
	switch {
	case s == nil && m.Shard == nil:
		return nil
	case s == nil, s.Count < 1, s.Count > MaxShards, s.Unit != UnitRow && s.Unit != UnitAttempt, s.Rows != nil && !s.Rows.Valid(m.Planned.Tasks+m.Planned.LeftOut):
		return errors.New("it is divided as no run is")
	case m.Shard != nil && (m.Shard.Index < 0 || m.Shard.Index >= s.Count || m.Shard.Restart < 1):
		return fmt.Errorf("it is of shard %s of %d", m.Shard, s.Count)
	}
	return nil
}

// Division says which shard has which attempt: units are dealt out in the order of rows
// and attempts.
type Division struct {
	rows  []int // in order
	of    *Shards
	tries int // attempts per row
}

// Division returns that of a run with shards.
func (m Manifest) Division() Division {
	rows := m.Rows()
	if m.Shards.Rows != nil {
		rows = m.Shards.Rows
	}
	return Division{slices.Collect(rows.All()), m.Shards, m.Planned.Attempts}
}

// Count is how many shards there are.
func (d Division) Count() int { return d.of.Count }

// Of returns the shard of an attempt; false if none has it.
func (d Division) Of(row, attempt int) (shard int, ok bool) {
	unit, ok := slices.BinarySearch(d.rows, row)
	if d.of.Unit == UnitAttempt {
		unit = unit*d.tries + attempt - 1
	}
	return unit % d.of.Count, ok && attempt >= 1 && attempt <= d.tries
}
