package provider_test

import (
	"testing"

	"securebench/internal/judge/provider"
)

// TestRelated: a judge is related to an agent's model by their vendor's family.
func TestRelated(t *testing.T) {
	for _, tt := range []struct {
		a, b string
		want bool
	}{
		{"gpt-5.5", "gpt-5.4-mini", true}, {"o3-mini", "gpt-5.5", true}, {"claude-opus-5", "Claude-haiku-4-5", true}, {"Qwen/Qwen3-8B", "qwen2.5", true},
		{"123", "123", true}, {"123", "124", false}, {"gpt-5.5", "claude-opus-5", false}, {"gpt-5.5", "", false}, {"", "", false}, {"llama3.2:3b", "mistral", false},
	} {
		if got := provider.Related(tt.a, tt.b); got != tt.want {
			t.Errorf("%q and %q: %t", tt.a, tt.b, got)
		}
	}
}
