package codecompletion

import (
	"bytes"
	"strings"
	"testing"

	"securebench/internal/sandbox/link"
	"securebench/internal/value"
	"securebench/internal/verdict"
)

// TestProgramIsCompiledOnce gives later candidate boxes what the first has compiled,
// and that is what they run.
func TestProgramIsCompiledOnce(t *testing.T) {
	v := newTestVerifier(t, newLocalEngine(t))
	c := makeCase(t, add())
	if p, compiled := v.program(c.Image.ID); compiled || !bytes.Contains(p, []byte(candidateSource)) {
		t.Fatal("a verifier that has started no box has no source for one")
	}
	for _, row := range []struct {
		code string
		want verdict.Outcome
	}{{add().reference, verdict.Passed}, {addRight, verdict.Passed}, {addWrong, verdict.Failed}} {
		if got := verify(t, v, c, row.code); got.Outcome != row.want {
			t.Errorf("%s: %s", row.code, describe(got))
		}
		if p, compiled := v.program(c.Image.ID); !compiled || !bytes.HasPrefix(p, []byte(link.Compiled)) {
			t.Error("the program is not kept compiled")
		}
	}
	if _, compiled := v.program("another image"); compiled {
		t.Error("another image, which can have another Python, gets the compiled program")
	}
	v.programs[c.Image.ID] = []byte(link.Compiled + "nothing")
	if b, err := v.startCandidateBox(t.Context(), c, addPrompt); err == nil {
		t.Error("a box runs a program that was not compiled")
		if err := b.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}
}

// TestProgramThatIsNotCompiled: before a candidate is in it, a box that works wrongly
// is nobody's failure.
func TestProgramThatIsNotCompiled(t *testing.T) {
	for name, tt := range map[string]struct {
		program value.Value
		works   bool
	}{
		"bytes":   {anyProgram, true},
		"nothing": {value.Value{Kind: value.KindNone}, false},
		"text":    {value.Text("a program"), false},
	} {
		t.Run(name, func(t *testing.T) {
			e := &scriptedEngine{localEngine: newLocalEngine(t), role: roleCandidate}
			e.script = func(_ int64, w wire) { asCandidateBox(w, tt.program, func() {}) }
			v, c := newTestVerifier(t, e), makeCase(t, add())
			b, err := v.startCandidateBox(t.Context(), c, addPrompt)
			if (err == nil) != tt.works || isFailure(err) {
				t.Errorf("got %v", err)
			}
			if err != nil && strings.Contains(err.Error(), "the candidate broke") {
				t.Errorf("the error blames the candidate: %v", err)
			}
			if _, kept := v.program(c.Image.ID); kept != tt.works {
				t.Errorf("a program is kept: %v", kept)
			}
			if b != nil {
				if err := b.Close(t.Context()); err != nil {
					t.Error(err)
				}
			}
		})
	}
}
