package verdict

import "github.com/go-json-experiment/json"

// BiasesKey is the key of the verifier's metadata that says, by name, whether a verdict
// went as something that should not decide it: true if it went that way, and false if it
// went another. Reports count both.
const BiasesKey = "biases"

// The bounds of what is read of biases, which anyone may have written.
const (
	maxBiases   = 8
	maxBiasName = 64
)

// BiasesOf reads the biases in a verifier's metadata; nil if there are none, or if they
// are no biases.
func BiasesOf(m Metadata) map[string]bool {
	var out map[string]bool
	if json.Unmarshal(m[BiasesKey], &out) != nil || len(out) > maxBiases {
		return nil
	}
	for name := range out {
		if len(name) > maxBiasName {
			return nil
		}
	}
	return out
}
