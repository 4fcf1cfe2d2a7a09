package machine

import (
	"strings"
	"testing"

	"securebench/internal/sandbox/imagestore"
)

// TestMeter: in a file each layer is named once; on a terminal the line goes at
// the end.
func TestMeter(t *testing.T) {
	t.Parallel()
	events := []imagestore.Progress{
		{Layer: 1, Layers: 3, Done: 0, Total: 3 << 20},
		{Layer: 1, Layers: 3, Done: 2 << 20, Total: 3 << 20},
		{Layer: 2, Layers: 3, Shared: true},
		{Layer: 3, Layers: 3},
	}
	var out strings.Builder
	m := newMeter(&out)
	for _, e := range events {
		m.show(e)
	}
	m.end()
	want := "securebench: layer 1 of 3: 3 MiB\nsecurebench: layer 2 of 3: there already\nsecurebench: layer 3 of 3\n"
	if out.String() != want {
		t.Errorf("got %q", out.String())
	}
	out.Reset()
	m = &meter{out: &out, live: true}
	for _, e := range events {
		m.show(e)
	}
	m.end()
	if got := out.String(); !strings.Contains(got, "layer 1 of 3: 0 bytes of 3 MiB") || !strings.HasSuffix(got, "layer 3 of 3: 0 bytes\r\x1b[K") || strings.Contains(got, "\n") {
		t.Errorf("got %q", got)
	}
}
