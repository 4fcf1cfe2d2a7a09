package wire

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"securebench/internal/redact"
)

// spoken are the dialects, by the names of their APIs.
func spoken() map[string]*Dialect {
	return map[string]*Dialect{"responses": Responses(), "messages": Messages(), "chat": Chat(), "gemini": Gemini()}
}

const pieceKey = "sk-Zq4f1c9a7e2d8bX6035kPw"

// told is a stream of an API that brings texts in pieces, each in a block of its
// own.
func told(api string, texts [][]string) string {
	var b strings.Builder
	add := func(kind string, e map[string]any) {
		e["type"] = kind
		data, _ := json.Marshal(e)
		fmt.Fprintf(&b, "event: %s\ndata: %s\n\n", kind, data)
	}
	for n, pieces := range texts {
		switch api {
		case "messages":
			kind, field := "text_delta", "text"
			if n%2 == 1 {
				kind, field = "input_json_delta", "partial_json"
			}
			add("content_block_start", map[string]any{"index": n})
			for _, p := range pieces {
				add("content_block_delta", map[string]any{"index": n, "delta": map[string]any{"type": kind, field: p}})
				b.WriteString("event: ping\ndata: {\"type\": \"ping\"}\n\n: a comment\n\n")
			}
			add("content_block_stop", map[string]any{"index": n})
			add("message_delta", map[string]any{"delta": map[string]any{"stop_reason": "sk"}})
		case "gemini":
			for _, p := range pieces {
				data, _ := json.Marshal(map[string]any{"candidates": []any{map[string]any{"content": map[string]any{"parts": []any{
					map[string]any{"text": p, "thought": n%2 == 1}, map[string]any{"text": ""}}}, "index": n}}, "usageMetadata": map[string]any{"promptTokenCount": 1}})
				fmt.Fprintf(&b, "data: %s\r\n\r\n", data)
			}
		case "chat":
			for _, p := range pieces {
				delta := map[string]any{"content": p}
				if n%2 == 1 {
					delta = map[string]any{"tool_calls": []any{map[string]any{"function": map[string]any{"arguments": p}, "index": 0}}}
				}
				data, _ := json.Marshal(map[string]any{"usage": nil, "choices": []any{map[string]any{"delta": delta, "index": n, "finish_reason": nil}}})
				fmt.Fprintf(&b, "data: %s\n\n: a comment\n\n", data)
			}
			fmt.Fprintf(&b, "data: {\"choices\":[{\"delta\":{},\"index\":%d,\"finish_reason\":\"sk\"}]}\n\n", n)
		case "responses":
			for _, p := range pieces {
				add("response.output_text.delta", map[string]any{"item_id": fmt.Sprint(n), "delta": p})
			}
			add("response.output_item.done", map[string]any{"item": map[string]any{"id": fmt.Sprint(n)}})
		}
	}
	return b.String()
}

// texts reads what a stream tells.
func texts(t interface{ Fatalf(string, ...any) }, stream string) map[string]string {
	out := map[string]string{}
	for event := range strings.SplitSeq(strings.ReplaceAll(stream, "\r", ""), "\n\n") {
		_, data, ok := strings.Cut(event, "data: ")
		if !ok {
			continue
		}
		var e struct {
			Type       string
			Index      int
			Item       string `json:"item_id"`
			Delta      json.RawMessage
			Candidates []struct {
				Index   int
				Content struct{ Parts []struct{ Text string } }
			}
			Choices []struct {
				Index int
				Delta struct {
					Content string
					Calls   []struct{ Function struct{ Arguments string } } `json:"tool_calls"`
				}
			}
		}
		if err := json.Unmarshal([]byte(data), &e); err != nil {
			t.Fatalf("%v in %s", err, data)
		}
		for _, c := range e.Candidates {
			for _, p := range c.Content.Parts {
				if p.Text != "" {
					out[fmt.Sprint(c.Index)] += p.Text
				}
			}
		}
		for _, c := range e.Choices {
			for _, call := range c.Delta.Calls {
				c.Delta.Content += call.Function.Arguments
			}
			if c.Delta.Content != "" {
				out[fmt.Sprint(c.Index)] += c.Delta.Content
			}
		}
		var text string
		var fields map[string]string
		switch {
		case json.Unmarshal(e.Delta, &text) == nil:
			out[e.Item] += text
		case json.Unmarshal(e.Delta, &fields) == nil && e.Type == "content_block_delta":
			out[fmt.Sprint(e.Index)] += fields["text"] + fields["partial_json"]
		}
	}
	return out
}

// redacted passes a stream through a redactor, in writes of some bytes.
func redacted(t interface{ Fatalf(string, ...any) }, api, stream string, size int) string {
	return redactedBy(t, spoken()[api], false, stream, size)
}

// redactedBy does so in a dialect, and may leave out the events that are to be hidden.
func redactedBy(t interface{ Fatalf(string, ...any) }, d *Dialect, hidden bool, stream string, size int) string {
	var secrets redact.Registry
	if err := secrets.Add("key", []byte(pieceKey)); err != nil {
		t.Fatalf("%v", err)
	}
	var out bytes.Buffer
	pool := NewPool(64 << 20)
	r := d.NewStream(&secrets, pool, hidden, func(event []byte) error { out.Write(event); return nil })
	for p := range slices.Chunk([]byte(stream), size) {
		if _, err := r.Write(p); err != nil {
			t.Fatalf("%v", err)
		}
	}
	if err := r.Close(); err != nil {
		t.Fatalf("%v", err)
	}
	if free := pool.free.Load(); free != 64<<20 {
		t.Fatalf("%d bytes of the pool are free", free)
	}
	return out.String()
}

// TestKeyInPieces: a key that events bring in pieces, in any encoding, is removed.
// Redaction of the stream's bytes alone would miss it. Texts without it stay.
func TestKeyInPieces(t *testing.T) {
	reversed := []byte(pieceKey)
	slices.Reverse(reversed)
	forms := map[string]string{"plain": pieceKey, "hex": hex.EncodeToString([]byte(pieceKey)),
		"base64": base64.StdEncoding.EncodeToString([]byte(pieceKey)), "reversed": string(reversed)}
	var secrets redact.Registry
	if err := secrets.Add("key", []byte(pieceKey)); err != nil {
		t.Fatal(err)
	}
	for api := range spoken() {
		for name, form := range forms {
			var all [][]string
			for range 2 {
				var pieces []string
				for p := range slices.Chunk([]byte("It is "+form+", sk"), 5) {
					pieces = append(pieces, string(p))
				}
				all = append(all, pieces)
			}
			stream := told(api, all)
			if weak := texts(t, string(secrets.Bytes([]byte(stream)))); !strings.Contains(weak["0"], form) {
				t.Errorf("%s, %s: the attack does not work: %q", api, name, weak)
			}
			for _, size := range []int{1, 7, len(stream)} {
				got := texts(t, redacted(t, api, stream, size))
				for n, text := range got {
					if !strings.HasPrefix(text, "It is [redacted:key]") || !strings.HasSuffix(text, ", sk") {
						t.Errorf("%s, %s: text %s is %q", api, name, n, text)
					}
				}
				if len(got) != 2 {
					t.Errorf("%s, %s: %d texts", api, name, len(got))
				}
			}
		}
	}
}

// TestPiecesStay: texts without the key are the same, however they are cut, and
// so are events that bring no text.
func TestPiecesStay(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		// Many of its characters begin the key or an encoding of it.
		all := rapid.SliceOfN(rapid.SliceOfN(rapid.StringMatching(`([sk-]|sk-Zq4f|7[36]|é|\n|.){0,6}`), 0, 6), 0, 4).Draw(t, "texts")
		api := rapid.SampledFrom(slices.Sorted(maps.Keys(spoken()))).Draw(t, "API")
		stream := told(api, all)
		got := redacted(t, api, stream, rapid.IntRange(1, len(stream)+1).Draw(t, "size"))
		if got != stream && !strings.Contains(got, "[redacted:") {
			t.Fatalf("%q became %q", stream, got)
		}
		want, have := texts(t, stream), texts(t, got)
		for n, text := range want {
			if have[n] != text && !strings.Contains(have[n], "[redacted:") {
				t.Fatalf("text %s is %q, want %q", n, have[n], text)
			}
		}
	})
}

// FuzzRedactor: whatever a provider sends comes out as it is, except texts.
func FuzzRedactor(f *testing.F) {
	f.Add(told("messages", [][]string{{"sk-", "Zq"}, {}}), 3)
	f.Add(told("responses", [][]string{{"a", "7", "3"}}), 1)
	f.Add(told("chat", [][]string{{"sk-", "Zq4f1c9a7e2d8bX6035kPw"}, {"s", "k", "-"}}), 7)
	f.Add(told("gemini", [][]string{{"sk-", "Zq4f1c9a7e2d8bX6035kPw"}, {"s", "k", "-"}}), 7)
	f.Add("data: {\"type\":\"content_block_delta\",\"delta\":{\"text\":\"s\"},\"delta\":{}}\r\n\r\ndata: x", 2)
	f.Add("event: a\ndata: {\"type\": \"a.delta\",\ndata: \"delta\": \"s\"}\nid: 1\n\n", 5)
	f.Fuzz(func(t *testing.T, stream string, size int) {
		for api := range spoken() {
			got := redacted(t, api, stream, max(size, 1))
			if !strings.Contains(got, "[redacted:") && got != stream {
				t.Errorf("%s: %q became %q", api, stream, got)
			}
			if strings.Contains(got, pieceKey) && !strings.Contains(stream, pieceKey) {
				t.Errorf("%s: %q holds the key", api, got)
			}
			if want := redacted(t, api, stream, 1); got != want {
				t.Errorf("%s: %q became %q, want %q", api, stream, got, want)
			}
		}
	})
}

// TestTextsWait: an event whose text ends as the key begins waits for the next piece of
// that text, for [maxWaiting] events at most, and those behind it with it.
func TestTextsWait(t *testing.T) {
	var secrets redact.Registry
	if err := secrets.Add("key", []byte(pieceKey)); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	r := Responses().NewStream(&secrets, NewPool(1<<20), false, func(event []byte) error { out.Write(event); return nil })
	defer r.Release()
	event := func(id, text string) string {
		return fmt.Sprintf("data: {\"type\":\"a.delta\",\"item_id\":%q,\"delta\":%q}\n\n", id, text)
	}
	write := func(event string) {
		if _, err := r.Write([]byte(event)); err != nil {
			t.Fatal(err)
		}
	}
	write(event("a", "it is sk-"))
	write(event("b", "."))
	if out.Len() > 0 {
		t.Errorf("%s did not wait", out.String())
	}
	all := event("a", "it is sk-") + event("b", ".") + event("a", ", sk-")
	write(event("a", ", sk-"))
	if want := event("a", "it is sk-") + event("b", "."); out.String() != want {
		t.Errorf("%q, want %q", out.String(), want)
	}
	for range maxWaiting {
		write(event("b", "."))
		all += event("b", ".")
	}
	if out.String() != all {
		t.Errorf("%q, want %q", out.String(), all)
	}
}

// BenchmarkRedactor measures pieces of text without the key.
func BenchmarkRedactor(b *testing.B) {
	var secrets redact.Registry
	if err := secrets.Add("key", []byte(pieceKey)); err != nil {
		b.Fatal(err)
	}
	for api, dialect := range spoken() {
		stream := []byte(told(api, [][]string{slices.Repeat([]string{" and so on"}, 200)}))
		b.Run(api, func(b *testing.B) {
			b.SetBytes(int64(len(stream)))
			b.ReportAllocs()
			for b.Loop() {
				r := dialect.NewStream(&secrets, NewPool(1<<20), false, func([]byte) error { return nil })
				if _, err := r.Write(stream); err != nil || r.Close() != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
