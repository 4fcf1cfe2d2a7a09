package produce

import (
	"maps"
	"time"

	"github.com/go-json-experiment/json"

	"securebench/internal/trajectory"
	"securebench/internal/verdict"
)

// Reached is what is known of an agent's requests when it has ended.
type Reached struct {
	Lines    []byte           // what the gateway decided about them
	Counts   map[string]int64 // of that
	Provider Provided         // nil without a provider
}

// Provided is what is known of an agent's provider.
type Provided interface {
	Usage() map[string]int64
	// Words says why the last request that was refused was, and why the last answer of
	// the model was cut off.
	Words() (refusal, cut string)
	Held() time.Duration
	// Trace returns the exchanges with it, and the agent's steps as they show there.
	Trace() (exchanges, steps []byte)
}

// RefusalKey is the metadata that says why the relay refused the last of those of the
// agent's requests that it refused.
const RefusalKey = "relay_refusal"

// networkKey is the metadata that counts the gateway's decisions.
const networkKey = "network"

// The files of the gateway in the restricted lane. The first has a part of each process that
// decided something.
const (
	NetworkFile   = "network.jsonl"   // every decision
	exchangesFile = "exchanges.jsonl" // with the provider
)

// Add adds what is known to the metadata and the files of a result, which may have a part
// of it already, and returns the usage with it.
func (r Reached) Add(m verdict.Metadata, raw map[string][]byte, usage map[string]int64) map[string]int64 {
	counts := map[string]int64{}
	if text, ok := m[networkKey]; ok {
		_ = json.Unmarshal(text, &counts) // a worker that writes something else has counted nothing
	}
	for name, n := range r.Counts {
		counts[name] += n
	}
	m.Set(networkKey, counts)
	raw[NetworkFile] = append(raw[NetworkFile], r.Lines...)
	if r.Provider == nil {
		return usage
	}
	raw[exchangesFile], raw[trajectory.File] = r.Provider.Trace()
	refusal, cut := r.Provider.Words()
	for key, word := range map[string]string{RefusalKey: refusal, verdict.StopKey: cut} {
		if word != "" {
			m.Set(key, word)
		}
	}
	if held := r.Provider.Held(); held > 0 {
		m.Set("held_seconds", held.Seconds())
	}
	used := r.Provider.Usage()
	if len(used) == 0 {
		return usage
	}
	used = maps.Clone(used)
	for name, n := range usage {
		used[name] += n
	}
	return used
}
