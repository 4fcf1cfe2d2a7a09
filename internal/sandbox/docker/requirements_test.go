package docker_test

import (
	"os"
	"strings"
	"testing"
	"time"

	"securebench/internal/sandbox/docker"
	"securebench/internal/sandbox/enginetest"
)

// TestRequirements: an engine that answers and one that does not.
func TestRequirements(t *testing.T) {
	enginetest.Docker(t)
	for _, r := range docker.Requirements(t.Context(), docker.Config{Getenv: os.Getenv, Patience: time.Minute}) {
		if r.Name == "" || r.Found == "" || r.Holds != (r.Fix == "") || !r.Holds && !r.Optional {
			t.Errorf("got %+v", r)
		}
	}
	got := docker.Requirements(t.Context(), docker.Config{Host: "unix:///nonexistent/docker.sock", Patience: time.Minute})
	if len(got) != 1 || got[0].Holds || got[0].Fix == "" || !strings.Contains(got[0].Found, "/nonexistent/docker.sock") {
		t.Errorf("without an engine: %+v", got)
	}
	for _, r := range docker.Requirements(t.Context(), docker.Config{Getenv: os.Getenv, Runtime: "no-such-runtime", Patience: time.Minute}) {
		if strings.Contains(r.Name, "no-such-runtime") && (r.Holds || r.Fix == "") {
			t.Errorf("a runtime that is not there: %+v", r)
		}
	}
}
