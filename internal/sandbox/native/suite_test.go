package native_test

import (
	"testing"

	"securebench/internal/sandbox/enginetest"
	"securebench/internal/sandbox/mountns"
	"securebench/internal/sandbox/native"
	"securebench/internal/sandbox/sandboxtest/contract"
)

func TestSuite(t *testing.T) { t.Parallel(); suite(t, enginetest.Native(t), false) }

// TestSuiteOnOtherRuntime holds both runtimes to the same behaviour, where both are
// installed.
func TestSuiteOnOtherRuntime(t *testing.T) { t.Parallel(); suite(t, enginetest.Other(t), true) }

func suite(t *testing.T, e *native.Engine, second bool) {
	t.Helper()
	t.Cleanup(func() { diffOwned(t, e) })
	img := enginetest.DeriveLayer(t, e, enginetest.Image(t, e), contract.RootArchive(t), nil)
	contract.Suite(t, e, contract.Caps{Image: img, Isolation: true, SharedDevices: mountns.Rootless(), Second: second})
}
