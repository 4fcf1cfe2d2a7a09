package native_test

import (
	"testing"

	"securebench/internal/sandbox/nativetest"
	"securebench/internal/sandbox/sandboxtest/contract"
)

func TestSuite(t *testing.T) {
	e := nativetest.Native(t)
	t.Cleanup(func() { diffOwned(t, e) })
	img := nativetest.Derive(t, e, nativetest.Image(t, e), contract.RootArchive(t), nil)
	contract.Suite(t, e, contract.Caps{Image: img, Isolation: true})
}
