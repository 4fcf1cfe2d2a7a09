package docker

import (
	"strings"
	"testing"
)

func TestFollow(t *testing.T) {
	for in, want := range map[string]string{
		"": "", `{"stream":"Step 1\n"}{"aux":{"ID":"x"}}` + "\n" + `{"status":"Pulling","id":"a","progressDetail":{}}`: "Step 1\nPulling\n",
	} {
		var log strings.Builder
		if err := follow(strings.NewReader(in), &log); err != nil || log.String() != want {
			t.Errorf("follow(%q): got %q and %v", in, log.String(), err)
		}
	}
	for in, want := range map[string]string{
		`{"stream":"x"}{"error":"no such image","errorDetail":{"message":"no such image"}}`: "the engine reports: no such image",
		`{"stream":"cut`: "reading the engine's messages",
	} {
		if err := follow(strings.NewReader(in), new(strings.Builder)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("follow(%q): got %v, want %q", in, err, want)
		}
	}
}

// TestConfigOf: the names of a configuration in archives of old and new engines.
func TestConfigOf(t *testing.T) {
	sum := strings.Repeat("0a", 32)
	for _, name := range []string{sum + ".json", "blobs/sha256/" + sum} {
		if got, err := configOf([]byte(`[{"Config":"` + name + `","RepoTags":null,"Layers":["x"]}]`)); err != nil || got != "sha256:"+sum {
			t.Errorf("%s: got %q, %v", name, got, err)
		}
	}
	for _, text := range []string{"", "[]", `[{"Config":"x.json"}]`, `[{"Config":"` + sum + `0a"}]`, `[{"Config":"` + sum + `"},{"Config":"` + sum + `"}]`, `{"Config":1}`} {
		if got, err := configOf([]byte(text)); err == nil {
			t.Errorf("%s: got %q", text, got)
		}
	}
}

// TestSaysBusy: what engines say of a registry that is asked too much or out of order.
func TestSaysBusy(t *testing.T) {
	for text, want := range map[string]bool{
		"toomanyrequests: You have reached your pull rate limit. You may increase the limit by authenticating and upgrading":                    true,
		"error parsing HTTP 429 response body: invalid character 'T' looking for beginning of value: \"Too Many Requests\"":                     true,
		"unexpected status from HEAD request to https://reg.example/v2/a/manifests/sha256:1: 429 Too Many Requests":                             true,
		"received unexpected HTTP status: 503 Service Unavailable":                                                                              true,
		"failed to copy: httpReadSeeker: failed open: unexpected status code https://reg.example/v2/a/blobs/sha256:1: 502 Bad Gateway":          true,
		"manifest for reg.example/a:1 not found: manifest unknown: manifest unknown":                                                            false,
		"pull access denied for a, repository does not exist or may require 'docker login': denied: requested access to the resource is denied": false,
		"unexpected status from HEAD request to https://reg.example/v2/a/manifests/sha256:1: 403 Forbidden":                                     false,
		"dial tcp: lookup reg503.example on 10.0.0.1:53: no such host":                                                                          false,
	} {
		if got := saysBusy.MatchString(text); got != want {
			t.Errorf("%q: %t", text, got)
		}
	}
}
