package upstream_test

import (
	"testing"
	"time"

	"securebench/internal/gateway/upstream"
)

// TestRetryDelay: what Google's errors say is understood, within the limit, and nothing else
// is.
func TestRetryDelay(t *testing.T) {
	for body, want := range map[string]time.Duration{
		`{"error":{"code":429,"details":[{"@type":"type.googleapis.com/google.rpc.Help","links":[]},{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"34.5s"}]}}`: 34500 * time.Millisecond,
		`{"error":{"details":[{"retryDelay":"9000s"}]}}`: time.Minute, `{"error":{"details":[{"retryDelay":"-3s"}]}}`: 0, `{"error":{"details":[{"retryDelay":7}]}}`: 0,
		`{"error":{"details":[{"retryDelay":"soon"}]}}`: 0, `{"error":{"details":"9s"}}`: 0, `{"error":"x"}`: 0, `[]`: 0, ``: 0,
	} {
		if got := upstream.RetryDelay([]byte(body), time.Minute); got != want {
			t.Errorf("%s: %v, want %v", body, got, want)
		}
	}
}
