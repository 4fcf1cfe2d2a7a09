package wire

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"pgregory.net/rapid"

	"securebench/internal/redact"
)

// usualEvents are the data of events that need no decoder, and oddEvents that of
// others.
var (
	usualEvents = []string{
		`{"type":"response.output_text.delta","delta":" and so on"}`,
		`{"type":"response.output_text.delta","sequence_number":10,"item_id":"m","output_index":0,"content_index":0,"delta":"é\n\"","logprobs":[],"obfuscation":"x"}`,
		`{"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":"{\"a\":"}}`,
		`{"type": "ping"}`, ` { } `, `{"type":"a.delta","delta":{}}`, `{"index":"0","delta":1}`, `{"delta":{"text":1,"thinking":"a","signature":"b"}}`,
		`{"text":"a","delta":{"delta":"b","index":3}}`,
	}
	oddEvents = []string{
		``, `{`, `{}{}`, `[]`, `{"type":"a","type":"b"}`, `{"delta":{"text":"a","text":"b"}}`, `{"delta":"a","delta":{"text":"b"}}`, `{"delta":"\u0073"}`,
		`{"delta":"\x"}`, `{"delta":"` + "\xff" + `"}`, `{"delta":"a` + "\n" + `"}`, `{"delta":"a}`, `{"delta":"a\"}`, `{"type":1}`, `{"type":null}`, `{"\u0074ype":"a"}`,
		`{"other":1}`, `{"index":01}`, `{"index":1.5}`, `{"index":-1}`, `{"index":1e3}`, `{"index":}`, `{"index":1,}`, `{,"index":1}`, `{"index" 1}`, `{"index":[1]}`,
		`{"logprobs":[`, `{"delta":{"text":"a"}`, `{"delta":{"text":{"text":"a"}}}`, `{"index":1 2}`, `{"type":"a","delta":"b"} x`, "{\"type\":\"a\"}\x00",
	}
)

// sameRead fails a test in which the scanner reads an event otherwise than the
// decoder, and reports whether it read it.
func sameRead(t interface{ Fatalf(string, ...any) }, data []byte) bool {
	walkers := [2]walker{}
	for i := range walkers {
		walkers[i].dec = jsontext.NewDecoder(bytes.NewReader(nil))
	}
	fast, slow := &walkers[0], &walkers[1]
	if !fast.scan(data) {
		return false
	}
	tell := func(w *walker) string {
		return fmt.Sprintf("kind %q key %q field %q text %q from %d to %d", w.kind, w.key, w.field, w.text, w.start, w.end)
	}
	if !slow.decode(data) || tell(fast) != tell(slow) {
		t.Fatalf("%q is read as %s, want %s", data, tell(fast), tell(slow))
	}
	return true
}

func TestScan(t *testing.T) {
	for _, data := range usualEvents {
		if !sameRead(t, []byte(data)) {
			t.Errorf("%s needs a decoder", data)
		}
	}
	for _, data := range oddEvents {
		if sameRead(t, []byte(data)) {
			t.Errorf("%s needs no decoder", data)
		}
	}
}

// TestScanIsDecoder: events with some bytes changed are read as the decoder reads
// them, if at all.
func TestScanIsDecoder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		data := rapid.SampledFrom(append(usualEvents, oddEvents...)).Draw(t, "event")
		for range rapid.IntRange(0, 4).Draw(t, "changes") {
			from := rapid.IntRange(0, len(data)).Draw(t, "from")
			to := min(len(data), from+rapid.IntRange(0, 3).Draw(t, "removed"))
			data = data[:from] + rapid.StringMatching("([{}\\[\\]\",:0-9 \n\\\\tfa]|é|\"delta\":|\"text\":|\"type\":|\\\\u0073){0,3}").Draw(t, "added") + data[to:]
		}
		sameRead(t, []byte(data))
	})
}

// TestFastIsSlow: a redactor that scans whole events passes on what one does that
// decodes each, and reads it byte by byte.
func TestFastIsSlow(t *testing.T) {
	event := rapid.Custom(func(t *rapid.T) string {
		text, _ := jsontext.AppendQuote(nil, rapid.StringMatching(`([sk-]|sk-Zq4f1|c9a7e2d8b|X6035kPw|é|\n|"|.){0,4}`).Draw(t, "text"))
		data := rapid.SampledFrom(append([]string{
			`{"type":"a.delta","item_id":"m","delta":TEXT}`, `{"type":"a.delta","item_id":"n","delta":TEXT}`, `{"type":"a.delta","delta":TEXT,"other":{}}`,
			`{"type":"content_block_delta","index":0,"delta":{"type":"t","text":TEXT}}`, `{"type":"content_block_delta","index":1,"delta":{"partial_json":TEXT}}`,
		}, append(usualEvents, oddEvents...)...)).Draw(t, "data")
		end := rapid.SampledFrom([]string{"\n", "\r\n"}).Draw(t, "end")
		return rapid.SampledFrom([]string{"", "event: a" + end, "id: 1" + end, end, ": x" + end}).Draw(t, "head") +
			"data: " + strings.ReplaceAll(data, "TEXT", string(text)) + rapid.SampledFrom([]string{end + end, end + end, end + "id: 2" + end + end, "\n"}).Draw(t, "tail")
	})
	rapid.Check(t, func(t *rapid.T) {
		stream := strings.Join(rapid.SliceOf(event).Draw(t, "events"), "")
		size := rapid.IntRange(1, len(stream)+1).Draw(t, "size")
		if got, want := redacted(t, stream, size), redactedBy(t, stream, 1, true); got != want {
			t.Fatalf("%q became %q, want %q", stream, got, want)
		}
	})
}

func FuzzScan(f *testing.F) {
	for _, data := range append(usualEvents, oddEvents...) {
		f.Add([]byte(data))
	}
	f.Fuzz(func(t *testing.T, data []byte) { sameRead(t, data) })
}

// BenchmarkRedactor measures pieces of text without the key.
func BenchmarkRedactor(b *testing.B) {
	var secrets redact.Registry
	if err := secrets.Add("key", []byte(pieceKey)); err != nil {
		b.Fatal(err)
	}
	stream := []byte(strings.Repeat("event: a\ndata: "+usualEvents[0]+"\n\n", 200))
	for _, slow := range []bool{false, true} {
		b.Run(fmt.Sprintf("decoder=%v", slow), func(b *testing.B) {
			b.SetBytes(int64(len(stream)))
			b.ReportAllocs()
			for b.Loop() {
				r := newRedactor(&secrets, NewPool(1<<20), func([]byte) error { return nil })
				r.walker.slow = slow
				if _, err := r.Write(stream); err != nil || r.Close() != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
