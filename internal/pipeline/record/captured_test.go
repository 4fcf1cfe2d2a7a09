package record

import (
	"bytes"
	"strings"
	"testing"
	"testing/fstest"

	"securebench/internal/digest"
)

// captures renders lines of [CapturedName].
func captures(t testing.TB, salt digest.Salt, ids ...string) []byte {
	t.Helper()
	var out []byte
	at := link{prev: Genesis}
	for _, id := range ids {
		l := storedLine()
		l.TaskID = id
		b, next, err := l.captured(at, salt)
		if err != nil {
			t.Fatal(err)
		}
		out, at = append(out, b...), next
	}
	return out
}

// each reads lines of [CapturedName] and returns whose they are.
func each(content []byte, salt digest.Salt) (ids []string, err error) {
	err = EachCaptured(fstest.MapFS{CapturedName: {Data: content, Mode: 0o600}}, salt, func(e Entry) { ids = append(ids, e.TaskID) })
	return ids, err
}

// TestEachCaptured: lines count up to the first that this run did not write where
// it is.
func TestEachCaptured(t *testing.T) {
	salt := digest.Salt{1}
	all := captures(t, salt, "a", "b", "c")
	lines := bytes.SplitAfter(all, []byte("\n"))
	record, err := storedLine().marshal(link{prev: Genesis}, salt, recordField)
	if err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		content []byte
		want    string
		err     string
	}{
		"honest":          {all, "a b c", ""},
		"empty":           {nil, "", ""},
		"cut short":       {all[:len(all)-1], "a b", "cut short"},
		"of another run":  {captures(t, digest.Salt{2}, "a"), "", "line 1: its MAC is wrong"},
		"a record":        {append(record, '\n'), "", "line 1: its MAC is wrong"},
		"one is missing":  {append(bytes.Clone(lines[0]), lines[2]...), "a", "line 2: a line before it"},
		"turned round":    {append(bytes.Clone(lines[1]), lines[0]...), "", "line 1: a line before it"},
		"one twice":       {append(bytes.Clone(lines[0]), lines[0]...), "a", "line 2: a line before it"},
		"not a record":    {[]byte("{}\n"), "", "line 1: not a record"},
		"something below": {append(bytes.Clone(all), "x\n"...), "a b c", "line 4: not a record"},
	} {
		ids, err := each(tt.content, salt)
		if got := strings.Join(ids, " "); got != tt.want || (err == nil) != (tt.err == "") || err != nil && !strings.Contains(err.Error(), tt.err) {
			t.Errorf("%s: %q, %v; want %q, %q", name, got, err, tt.want, tt.err)
		}
	}
	if err := EachCaptured(fstest.MapFS{}, salt, nil); err != nil {
		t.Errorf("without the file: %v", err)
	}
}

// FuzzCaptured: no change of the file makes a line count that was not written.
func FuzzCaptured(f *testing.F) {
	salt := digest.Salt{1}
	all := captures(f, salt, "a", "b")
	f.Add(all)
	f.Add(bytes.Replace(all, []byte(`"b"`), []byte(`"c"`), 1))
	f.Fuzz(func(t *testing.T, content []byte) {
		ids, _ := each(content, salt)
		if got := strings.Join(ids, " "); !strings.HasPrefix("a b", got) {
			t.Errorf("lines of %q count", got)
		}
	})
}
