package trajectory

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"pgregory.net/rapid"

	"securebench/internal/redact"
)

// request adds the steps of one request.
func (r *Recorder) request(steps ...Step) {
	r.Asked(time.Unix(1, 0), func(add func(Step) bool) {
		for _, s := range steps {
			if !add(s) {
				return
			}
		}
	})
}

func says(role, text string) Step { return Step{Kind: Message, Role: role, Text: text} }

// told is what a recorder's lines say, in short.
func told(t *testing.T, r *Recorder) (out []string, left int64) {
	t.Helper()
	steps, left, err := Read(r.Lines())
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range steps {
		out = append(out, strings.Join(strings.Fields(fmt.Sprint(s.By, " ", s.Kind, " ", s.Role, " ", s.Call, " ", s.Text)), " "))
	}
	return out, left
}

// TestWhatIsNew: a request repeats the conversation. Only what is new in it is a step,
// and what an agent makes up is not taken for its model's.
func TestWhatIsNew(t *testing.T) {
	end := Step{By: Model, Kind: Answer}
	call := Step{Kind: Call, Call: "c1", Name: "sh", Text: `{"a": 1, "b": 2}`}
	r := NewRecorder(nil)
	r.request(says("user", "go on"))
	r.Answered([]Step{{Kind: Message, Text: "I look. "}, call}, end)
	// As programs repeat it: without blanks at the end, with keys in another order.
	again := Step{Kind: Call, Call: "c1", Name: "sh", Text: `{"b":2,"a":1}`}
	history := []Step{says("user", "go on"), says("assistant", "I look."), again, {Kind: Result, Call: "c1", Text: "out"}}
	r.request(history...)
	r.Answered([]Step{{Kind: Message, Text: "I look. "}}, end)
	history = append(history, says("assistant", "I look."), says("user", "go on"))
	r.request(history...)
	r.request(history...) // a request that failed is made again
	r.Answered(nil, Step{By: Relay, Kind: Error, Text: "refused"})
	// Calls and a text that the model never made.
	forged := again
	forged.Call, forged.Text = "c2", `{"b":2,"a":9}`
	r.request(Step{Kind: Call, Name: "sh", Text: "{}"})
	r.Answered([]Step{{Kind: Call, Name: "sh", Text: `{"a": 1, "b": 2}`}}, end) // in an API without names of calls
	r.request(Step{Kind: Call, Name: "sh"}, Step{Kind: Call, Name: "sh", Text: `{"b":2,"a":1}`}, Step{Kind: Call, Name: "sh", Text: `{"b":2}`})
	r.request(says("user", "go on"), says("assistant", "It is solved."), forged)
	got, left := told(t, r)
	want := []string{"agent message user go on", "model message I look.", `model call c1 {"a": 1, "b": 2}`, "model answer", "agent result c1 out",
		"model message I look.", "model answer", "agent message user go on", "relay error refused",
		"agent call {}", `model call {"a": 1, "b": 2}`, "model answer", `agent call {"b":2}`,
		"agent message assistant It is solved.", `agent call c2 {"b":2,"a":9}`}
	if !slices.Equal(got, want) || left != 0 {
		t.Errorf("%d left out:\n%s", left, strings.Join(got, "\n"))
	}
}

// part is a part of a request with some steps, which counts how often it is read.
func part(place, raw string, read *int, steps ...Step) Part {
	return Part{Place: place, Raw: []byte(raw), Steps: func(add func(Step) bool) bool {
		*read++
		return !slices.ContainsFunc(steps, func(s Step) bool { return !add(s) })
	}}
}

// TestPartsAreReadOnce: a part that an earlier request had is not read again, unless a
// request has it more often or elsewhere.
func TestPartsAreReadOnce(t *testing.T) {
	r, read := NewRecorder(nil), 0
	x, y := part("", "x", &read, says("user", "x"), says("user", "x")), part("", "y", &read, says("user", "y"))
	elsewhere := part("system", "x", &read, says("system", "x"))
	for i, c := range []struct {
		parts []Part
		reads int
	}{{[]Part{x}, 1}, {[]Part{x, y}, 1}, {[]Part{x, y}, 0}, {[]Part{x, x, y}, 1}, {[]Part{y, x, x}, 0}, {[]Part{elsewhere, x}, 1}} {
		read = 0
		if r.AskedParts(time.Unix(1, 0), slices.Values(c.parts)); read != c.reads {
			t.Errorf("request %d: %d parts are read, not %d", i, read, c.reads)
		}
	}
	got, left := told(t, r)
	want := []string{"agent message user x", "agent message user x", "agent message user y", "agent message user x", "agent message user x", "agent message system x"}
	if !slices.Equal(got, want) || left != 0 {
		t.Errorf("%d left out: %q", left, got)
	}
}

// TestPartsAsWhole: a request in parts has the steps that it has as a whole, whatever was
// asked and answered before.
func TestPartsAsWhole(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		whole, parted, read := NewRecorder(nil), NewRecorder(nil), 0
		names := rapid.SliceOfN(rapid.StringMatching("[abc]{0,3}"), 0, 6)
		for range rapid.IntRange(1, 6).Draw(t, "requests") {
			var all []Step
			var parts []Part
			for _, raw := range names.Draw(t, "parts") {
				var steps []Step
				for _, c := range raw {
					steps = append(steps, says("assistant", string(c)))
				}
				all, parts = append(all, steps...), append(parts, part("", raw, &read, steps...))
			}
			whole.request(all...)
			parted.AskedParts(time.Unix(1, 0), slices.Values(parts))
			for _, r := range []*Recorder{whole, parted} {
				r.Answered([]Step{says("", string("abc"[len(all)%3]))}, Step{By: Model, Kind: Answer})
			}
		}
		if a, b := whole.Lines(), parted.Lines(); !bytes.Equal(a, b) {
			t.Errorf("%s\nin parts:\n%s", a, b)
		}
	})
}

// TestManyParts: what is known of parts is bounded, and a refused step ends a request in
// parts as well.
func TestManyParts(t *testing.T) {
	r, read := NewRecorder(nil), 0
	r.AskedParts(time.Unix(1, 0), func(yield func(Part) bool) {
		for i := range 2*maxKnown + 10 {
			if !yield(part("", fmt.Sprint(i), &read)) {
				return
			}
		}
	})
	if len(r.known) > maxKnown || r.size != len(r.known) || read != 2*maxKnown+10 {
		t.Errorf("%d parts are known, as %d, of %d", len(r.known), r.size, read)
	}
	read = 0
	r.AskedParts(time.Unix(1, 0), func(yield func(Part) bool) {
		for i := 0; yield(part("more", fmt.Sprint(i), &read, says("user", fmt.Sprint(i)))); i++ {
		}
	})
	if _, left := told(t, r); read != maxSteps+1 || left != 1 {
		t.Errorf("%d parts are read, %d steps left out", read, left)
	}
}

// TestFlood: an agent that fills its steps keeps none of its model's from being told.
func TestFlood(t *testing.T) {
	for name, long := range map[string]string{"many": "", "long": strings.Repeat("\x01", MaxText)} {
		r := NewRecorder(nil)
		asked := 0
		r.Asked(time.Unix(1, 0), func(add func(Step) bool) {
			for asked = range 3 * maxSteps {
				if !add(says("user", fmt.Sprint(asked)+long)) {
					break
				}
			}
		})
		r.Answered([]Step{{Kind: Call, Name: "sh", Text: "rm -rf /"}}, Step{By: Model, Kind: Answer})
		got, left := told(t, r)
		if n := len(got); left != 1 || asked > maxSteps || !slices.Equal(got[n-2:], []string{"model call rm -rf /", "model answer"}) {
			t.Errorf("%s: %d steps of %d, %d left out, at last %.100q", name, n, asked, left, got[n-2:])
		}
		if size := len(r.Lines()); size > 2*maxBytes+100 {
			t.Errorf("%s: %d bytes", name, size)
		}
	}
}

// TestCut: of a long text both ends are kept, and no half of a character or of a secret.
func TestCut(t *testing.T) {
	const secret = "secret-value-0123456789"
	var secrets redact.Registry
	if err := secrets.Add("KEY", []byte(secret)); err != nil {
		t.Fatal(err)
	}
	for n := range 2 * (len(secret) + 4) {
		shift, middle := n/2, []int{MaxText, 4 * searched}[n%2]
		text := strings.Repeat("é", (MaxText*3/4-shift)/2-6) + secret + strings.Repeat("x", middle) + secret + strings.Repeat("é", MaxText/8-shift/2)
		r := NewRecorder(&secrets)
		r.request(Step{Kind: Result, Call: strings.Repeat("c", 1000), Text: text})
		steps, _, err := Read(r.Lines())
		if err != nil || len(steps) != 1 {
			t.Fatal(steps, err)
		}
		s := steps[0]
		if len(s.Text) > MaxText || !utf8.ValidString(s.Text) || s.Bytes < int64(len(text))-100 || len(s.Call) != maxName || strings.Contains(s.Text, "\ufffd") {
			t.Errorf("%d: %d bytes of %d", shift, len(s.Text), s.Bytes)
		}
		for i := range len(secret) - 5 {
			if strings.Contains(s.Text, secret[i:i+6]) {
				t.Errorf("%d: a part of the secret is there", shift)
			}
		}
	}
}

// TestInert: lines are ASCII without control characters, whatever the texts are.
func TestInert(t *testing.T) {
	r := NewRecorder(nil)
	hostile := "\x1b[2J\n{\"omitted\":9}\n\u202e\x00\xff\u2028"
	r.request(Step{Kind: Result, Call: hostile, Name: hostile, Role: hostile, Text: hostile})
	lines := r.Lines()
	if bytes.ContainsFunc(bytes.TrimSuffix(lines, []byte("\n")), func(c rune) bool { return c < ' ' || c > '~' }) {
		t.Errorf("%q", lines)
	}
	steps, left, err := Read(lines)
	if want := strings.ToValidUTF8(hostile, "\ufffd"); err != nil || left != 0 || len(steps) != 1 || steps[0].Text != want || steps[0].Name != want {
		t.Errorf("%+v, %d, %v", steps, left, err)
	}
}

// TestRead: what no recorder wrote is not read.
func TestRead(t *testing.T) {
	r := NewRecorder(nil)
	r.request(says("user", "a"))
	good := string(r.Lines())
	for _, bad := range []string{strings.TrimSuffix(good, "\n"), "\n", good + "{}{}\n", strings.Replace(good, "user", `user","role":"system`, 1),
		strings.Replace(good, `"by"`, `"BY"`, 1), `{"omitted":-1}` + "\n", `{"omitted":1,"x":2}` + "\n", "[]\n", strings.Repeat(" ", maxLine) + good,
		strings.Replace(good, "user", "us\xffer", 1)} {
		if steps, _, err := Read([]byte(bad)); err == nil {
			t.Errorf("%.100q: %v", bad, steps)
		}
	}
	if steps, left, err := Read([]byte(good + "{\"omitted\":3}\n" + good + "{\"omitted\":4}\n")); err != nil || left != 7 || len(steps) != 2 {
		t.Errorf("%v, %d, %v", steps, left, err)
	}
}

// FuzzRead: reading ends, and what is read is within the bounds.
func FuzzRead(f *testing.F) {
	r := NewRecorder(nil)
	r.request(says("user", "a"), Step{Kind: Result, Text: strings.Repeat("\x01", 2*MaxText)})
	f.Add(r.Lines())
	f.Add([]byte("{\"omitted\":1}\n"))
	f.Fuzz(func(t *testing.T, lines []byte) {
		steps, left, err := Read(lines)
		if err != nil && (steps != nil || left != 0) || len(steps) > bytes.Count(lines, []byte("\n")) {
			t.Errorf("%d steps, %d left out, %v", len(steps), left, err)
		}
	})
}
