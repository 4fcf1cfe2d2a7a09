package terminaltask

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"testing"

	"securebench/internal/awaittest"
	"securebench/internal/sandbox"
	"securebench/internal/sandbox/enginetest"
	"securebench/internal/verdict"
)

// TestDisturbedSandbox: a sandbox that is killed from outside while the checker
// runs gives no verdict, whether it is the checker's or that of its service.
func TestDisturbedSandbox(t *testing.T) {
	enginetest.Sampled(t, func(t *testing.T, e enginetest.Engine) {
		b := benchOf(t, e, enginetest.Image(t, e), nil)
		changes := map[string]change{"app/start.sh": file("echo up > note; exec sleep 1000\n")}
		for role, words := range map[string]string{"verifier": checks, "service": "sleep 1000"} {
			b.run = strings.ToLower(rand.Text())
			killed := make(chan error, 1)
			go func() { killed <- killWhenChecked(e, b.run, role, words) }()
			eval := withService(object{"command": checks}, object{"command": "test -s note"})
			got, err := b.try(t, eval, app(), sandbox.Limits{}, tree(t, changes))
			if err := <-killed; err != nil {
				t.Error(err)
			}
			if !errors.Is(err, sandbox.ErrDisturbed) {
				t.Errorf("%s: got %v and %s; want that it was disturbed", role, err, describe(got))
			}
		}
	})
}

// checks is a checker that takes long.
const checks = "sleep 15"

// killWhenChecked kills one of a run's sandboxes, the one in which words run, once
// the checker sleeps.
func killWhenChecked(e sandbox.Engine, run, role, words string) error {
	ctx, cancel := context.WithTimeout(context.Background(), awaittest.Hung)
	defer cancel()
	if _, err := enginetest.Await(ctx, e, run, "verifier", checks); err != nil {
		return err
	}
	kill, err := enginetest.Await(ctx, e, run, role, words)
	if err != nil {
		return err
	}
	return kill()
}

// dying is a candidate whose service does something of Python's when it is asked.
func dying(deed string) map[string]change {
	changes := serving("echo yes")
	text := strings.Replace(server, "        self.send_response", "        import os\n        "+deed+"\n        self.send_response", 1)
	changes["app/server.py"] = file(text)
	return changes
}

// TestServiceDies: what the end of a service means is the checker's to say,
// whatever ended it. A limit of the service's sandbox is noted, and is not that
// of the checker's.
func TestServiceDies(t *testing.T) {
	b := newBench(t, nil)
	limits := sandbox.Limits{Memory: 128 << 20, Output: 1 << 20}
	asked := asks("yes")["command"].(string)
	for name, tt := range map[string]struct {
		deed string
		end  sandbox.End // of the service's sandbox
	}{
		"it ends":                  {"os._exit(7)", ""},
		"it is out of memory":      {"x = [bytearray(b'x' * (1 << 20)) for _ in range(1 << 10)]", sandbox.OutOfMemory},
		"it prints without an end": {"[os.write(1, b'x' * (1 << 20)) for _ in range(16)]; os._exit(7)", ""},
	} {
		for command, passes := range map[string]bool{asked: false, "! " + asked: true} {
			want, reason := verdict.Failed, verdict.TestsFailed
			if passes {
				want, reason = verdict.Passed, ""
			}
			eval := withService(object{"command": command}, object{"port": 8080})
			got, err := b.try(t, eval, app(), limits, tree(t, dying(tt.deed)))
			if err != nil {
				t.Errorf("%s: %v", name, err)
				continue
			}
			expect(t, name, got, want, reason)
			if noted := fmt.Sprint(got.Metadata["service_limits"]); tt.end != "" && !strings.Contains(noted, string(tt.end)) {
				t.Errorf("%s: the limits of the service are %s, want %s", name, noted, tt.end)
			}
		}
	}
}
