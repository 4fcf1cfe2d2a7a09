package enginetest

import (
	"context"
	"os"
	"testing"

	"securebench/internal/sandbox"
	"securebench/internal/wheels"
)

// envWheels says whether tests need Python's libraries: require makes it a failure
// that they are neither in the cache nor to be had from a registry, never skips.
const envWheels = "SECUREBENCH_TEST_WHEELS"

// MathVerify returns what [wheels.Store.Tree] does of an engine, for the library that
// compares mathematical expressions, or skips the test.
func MathVerify(t testing.TB, e sandbox.Engine) func(context.Context) (sandbox.Overlay, error) {
	t.Helper()
	mode := os.Getenv(envWheels)
	if mode == "never" {
		t.Skipf("SKIPPED: %s=never: nothing compares mathematical expressions", envWheels)
	}
	store := wheels.NewStore(e, os.Getenv, func(line string) { t.Log(line) })
	if _, err := store.Tree(t.Context(), wheels.MathVerify()); err != nil {
		if mode == "require" {
			t.Fatal(err)
		}
		t.Skipf("SKIPPED: nothing compares mathematical expressions: %v", err)
	}
	return func(ctx context.Context) (sandbox.Overlay, error) { return store.Tree(ctx, wheels.MathVerify()) }
}
