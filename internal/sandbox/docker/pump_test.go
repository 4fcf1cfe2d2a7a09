package docker

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/moby/moby/api/pkg/stdcopy"
	"pgregory.net/rapid"

	"securebench/internal/sandbox"
)

// frame is one frame of the engine's stream.
func frame(stream stdcopy.StdType, payload string) string {
	h := make([]byte, 8)
	h[0] = byte(stream)
	binary.BigEndian.PutUint32(h[4:], uint32(len(payload)))
	return string(h) + payload
}

func TestDemux(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var in, out, errs strings.Builder
		for range rapid.IntRange(0, 5).Draw(t, "frames") {
			payload := rapid.StringN(0, 50, 200).Draw(t, "payload")
			if rapid.Bool().Draw(t, "stderr") {
				in.WriteString(frame(stdcopy.Stderr, payload))
				errs.WriteString(payload)
			} else {
				in.WriteString(frame(stdcopy.Stdout, payload))
				out.WriteString(payload)
			}
		}
		gotOut, gotErr, err := split(iotest.HalfReader(strings.NewReader(in.String())))
		if err != nil || gotOut != out.String() || gotErr != errs.String() {
			t.Fatalf("got %q, %q, %v; want %q, %q", gotOut, gotErr, err, out.String(), errs.String())
		}
	})
	for name, in := range map[string]string{
		"cut header": frame(1, "x")[:5], "cut payload": frame(1, "hello")[:10], "bad stream": frame(4, "x"),
		"cut second frame": frame(1, "x") + frame(2, "hello")[:9], "engine error": frame(3, "driver broke"),
	} {
		if _, _, err := split(strings.NewReader(in)); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func split(r io.Reader) (stdout, stderr string, err error) {
	var out, errs strings.Builder
	err = demultiplex(&out, &errs, r)
	return out.String(), errs.String(), err
}

func FuzzDemux(f *testing.F) {
	f.Add([]byte(frame(1, "out") + frame(2, "err")))
	f.Add([]byte(frame(3, "broken")))
	f.Fuzz(func(t *testing.T, in []byte) {
		stdout, stderr, err := split(bytes.NewReader(in))
		if len(stdout)+len(stderr) > len(in) {
			t.Error("more came out than went in")
		}
		if err == nil && (len(in)-len(stdout)-len(stderr))%8 != 0 {
			t.Error("bytes were lost")
		}
	})
}

func TestPump(t *testing.T) {
	long := frame(stdcopy.Stdout, "12345") + frame(stdcopy.Stderr, "678") + frame(stdcopy.Stdout, "90")
	for _, c := range []struct {
		limit       int64
		out, err    string
		overflowing bool
	}{{10, "1234590", "678", false}, {11, "1234590", "678", false}, {9, "123459", "678", true}, {6, "12345", "6", true}, {0, "", "", true}} {
		var out, errs strings.Builder
		p := newPump(strings.NewReader(long), sandbox.Streams{Stdout: &out, Stderr: &errs}, c.limit)
		p.copy()
		stdout, stderr := p.Delivered()
		if out.String() != c.out || errs.String() != c.err || len(p.Overflow()) == 1 != c.overflowing || len(p.Failed()) > 0 ||
			stdout != int64(out.Len()) || stderr != int64(errs.Len()) {
			t.Errorf("limit %d: got %q and %q", c.limit, out.String(), errs.String())
		}
	}
	p := newPump(iotest.ErrReader(io.ErrClosedPipe), sandbox.Streams{}, 10)
	p.copy()
	if err := <-p.Failed(); !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("got %v", err)
	}
}
