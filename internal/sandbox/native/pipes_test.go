package native

import (
	"io"
	"io/fs"
	"os"
	"testing"
)

// TestEmptyInput: a command without an input gets the null device that is given, or a
// pipe. Either ends at once.
func TestEmptyInput(t *testing.T) {
	t.Parallel()
	for _, piped := range []bool{false, true} {
		null, err := os.Open(os.DevNull)
		if piped {
			null = nil
		}
		if err != nil {
			t.Fatal(err)
		}
		p, err := newPipes(false, null, os.Getuid(), os.Getgid())
		if err != nil {
			t.Fatal(err)
		}
		info, err := p.Theirs[0].Stat()
		if err != nil {
			t.Fatal(err)
		}
		if device := info.Mode()&fs.ModeDevice != 0; device == piped {
			t.Errorf("piped %v: the input is a device: %v", piped, device)
		}
		if content, err := io.ReadAll(p.Theirs[0]); err != nil || len(content) > 0 {
			t.Errorf("piped %v: read %q, %v", piped, content, err)
		}
		p.Close()
	}
}
