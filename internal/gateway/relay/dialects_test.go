package relay

import (
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
)

// hostileAnswer is an answer that no honest provider gives.
type hostileAnswer struct {
	name, header string
	status       int
	text         string
}

const jsonText = "Content-Type: application/json"

// hostileAnswers are those of a dialect.
func hostileAnswers(c spoken) []hostileAnswer {
	var out []hostileAnswer
	add := func(name, header string, status int, text string) {
		out = append(out, hostileAnswer{name, header, status, text})
	}
	for _, n := range []string{"-100", "1e300", "99999999999999999999", `"100"`, "null", "[]", "{}", "true", "1.5", "-0", "1e-9", strings.Repeat("9", 5000)} {
		add("usage "+n[:min(len(n), 20)], eventStream, 200, strings.ReplaceAll(c.stream, "100", n))
		add("whole usage "+n[:min(len(n), 20)], jsonText, 200, strings.ReplaceAll(c.told, "100", n))
	}
	for name, text := range map[string]string{
		"nothing": "", "blanks": strings.Repeat("\n", 5000), "only comments": strings.Repeat(": x\n\n", 5000), "no JSON": "data: x\n\n", "half": c.stream[:len(c.stream)/3],
		"lists": "data: []\n\ndata: 7\n\ndata: null\n\ndata: \"x\"\n\n", "NUL": "data: \x00\n\n" + c.stream, "BOM": "\ufeff" + c.stream, "CR": strings.ReplaceAll(c.stream, "\n", "\r\n"),
		"in lines": strings.ReplaceAll(c.stream, ",\"", ",\ndata: \""), "not UTF-8": strings.ReplaceAll(c.stream, "\"f\"", "\"\xff\xfe\""), "half a character": fmt.Sprintf(c.piece, "x") + strings.Replace(fmt.Sprintf(c.piece, "XX"), "XX", `\ud83d`, 1) + c.stream,
		"deep": "data: " + strings.Repeat(`{"a":`, 20_000) + strings.Repeat("}", 20_000) + "\n\n" + c.stream, "deep lists": "data: {\"choices\":" + strings.Repeat("[", 100_000) + "\n\n" + c.stream,
		"twice": c.stream + c.stream, "after its end": c.stream + strings.Repeat(fmt.Sprintf(c.piece, "more"), 1000), "names of events": strings.ReplaceAll(c.stream, "data:", "event: "+strings.Repeat("x", 5000)+"\ndata:"),
		"a field twice": strings.ReplaceAll(c.stream, "{\"", "{\"type\":\"ping\",\"type\":\"ping\",\""), "many texts": manyTexts(c.piece), "no list": strings.NewReplacer("[", "{\"0\":", "]", "}").Replace(c.stream), "done at once": "data: [DONE]\n\n" + c.stream,
		"an error": "data: {\"error\":{\"message\":\"" + key + "\"}}\n\n", "ids and times": strings.ReplaceAll(c.stream, "data:", "id: 1\nretry: 1\ndata:"), "no end of a line": strings.TrimRight(c.stream, "\n"),
	} {
		add(name, eventStream, 200, text)
	}
	reversed := []byte(key)
	slices.Reverse(reversed)
	for name, form := range map[string]string{"plain": key, "hex": hex.EncodeToString([]byte(key)), "base64": base64.StdEncoding.EncodeToString([]byte(key)), "reversed": string(reversed)} {
		for _, size := range []int{1, 5} {
			var text string
			for piece := range slices.Chunk([]byte("it is "+form+"!"), size) {
				text += fmt.Sprintf(c.piece, piece)
			}
			add(fmt.Sprintf("the key, %s, in pieces of %d", name, size), eventStream, 200, text+c.stream)
		}
		add("the key, "+name+", whole", jsonText, 200, strings.Replace(c.told, `"`, `"`+form+`":0,"`, 1))
		add("the key, "+name+", in an error", jsonText, 400, `{"error":{"message":"`+form+`"}}`)
	}
	for name, text := range map[string]string{"nothing": "", "a list": "[]", "a text": `"x"`, "half": c.told[:len(c.told)/2], "twice": c.told + c.told, "no answer": "{}", "deep": strings.Repeat(`{"a":`, 20_000) + strings.Repeat("}", 20_000)} {
		add("whole: "+name, jsonText, 200, text)
	}
	for _, status := range []int{201, 206, 301, 304, 400, 401, 402, 403, 404, 410, 413, 418, 422, 451, 500, 503, 529} {
		add(fmt.Sprint("status ", status), "Content-Type: text/html\nLocation: https://evil.example/"+key, status, "<html>"+key)
	}
	return out
}

// manyTexts begins more texts than are kept.
func manyTexts(piece string) string {
	var out strings.Builder
	for n := range 500 {
		out.WriteString(strings.Replace(fmt.Sprintf(piece, "sk-"), `"index":0`, fmt.Sprint(`"index":`, n), 1))
	}
	return out.String()
}

// TestHostileAnswers: at least 50 answers in each dialect that no honest provider gives. None
// shows the key, counts what cannot be right, keeps memory or ends the relay.
func TestHostileAnswers(t *testing.T) {
	for api, c := range apis {
		all := hostileAnswers(c)
		if len(all) < 50 {
			t.Errorf("%s has %d", api, len(all))
		}
		for _, h := range all {
			synctest.Test(t, func(t *testing.T) { testHostileAnswer(t, api, c, h) })
		}
	}
}

func testHostileAnswer(t *testing.T, api API, c spoken, h hostileAnswer) {
	hostile := true
	r := with(t, api, func(*http.Request) (*http.Response, error) {
		if hostile {
			return respond(h.status, h.header, h.text), nil
		}
		return respond(200, eventStream, c.stream), nil
	})
	g := start(t, r)
	w := g.call(t.Context(), c.body)
	seen := w.Body.String() + fmt.Sprint(w.Header()) + string(g.kept())
	if err := g.Err(); err != nil {
		seen += err.Error()
	}
	if found := leaks(joined(seen)); len(found) > 0 {
		t.Errorf("%s, %s: %v can be seen: %.500s", api, h.name, found, seen)
	}
	for name, n := range g.Usage() {
		if n < 0 || n > 1<<32 {
			t.Errorf("%s, %s: %s is %d", api, h.name, name, n)
		}
	}
	var held int64
	if !g.pool.Resize(&held, maxResponses) || g.room.free != maxBodies {
		t.Errorf("%s, %s: memory is not given back", api, h.name)
	}
	hostile = false
	if w := start(t, r).call(t.Context(), c.body); !errors.Is(r.rejected, ErrRejected) && w.Body.String() != c.stream {
		t.Errorf("%s, %s: an honest answer is %d %s", api, h.name, w.Code, w.Body)
	}
}

// joined is what an agent sees and what it puts together from the pieces of a stream.
func joined(seen string) string {
	var out strings.Builder
	for line := range strings.Lines(seen) {
		for _, before := range []string{`"delta":"`, `"text":"`, `"content":"`} {
			if _, rest, ok := strings.Cut(line, before); ok {
				text, _, _ := strings.Cut(rest, `"`)
				out.WriteString(text)
			}
		}
	}
	return seen + "\n\n\n" + out.String()
}

// TestTwoDialects: one relay serves those of a provider that are configured, with one
// budget, and no others.
func TestTwoDialects(t *testing.T) {
	base := provider(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		for _, c := range apis {
			if c.path == r.RequestURI {
				io.WriteString(w, c.stream)
			}
		}
	})
	cfg := config(Responses, base)
	cfg.Also, cfg.Budget.Requests = []API{Chat}, 2
	g := start(t, newRelay(t, cfg)).listen()
	for _, api := range []API{Responses, Chat} {
		if status, text := g.post(apis[api].path, apis[api].body); status != 200 || text != apis[api].stream {
			t.Errorf("%s: %d %s", api, status, text)
		}
	}
	if status, text := g.post(pathMessages, claudeBody); status != 403 || !strings.Contains(text, "only POST /v1/responses and POST /v1/chat/completions is served here, because harness.config says api: openai_responses, openai_chat; an agent that speaks the Messages API needs api: anthropic_messages\"") {
		t.Errorf("%d %s", status, text)
	}
	if status, text := g.post(pathChat, chatBody); status != 403 || !strings.Contains(text, "budget") || g.Usage()["output_tokens"] != 20 {
		t.Errorf("%d %s, %v", status, text, g.Usage())
	}
}

// TestUsageRefused: a server that does not know how to be asked for the usage of a stream is
// asked without, once it has said so, and others are asked once.
func TestUsageRefused(t *testing.T) {
	body := strings.Replace(chatBody, `"stream_options":{"include_usage":true},`, "", 1)
	for name, c := range map[string]struct {
		status int
		says   string
		asked  []bool // for the usage
	}{
		"refuses":       {400, `{"error":{"message":"Unrecognized request argument supplied: stream_options"}}`, []bool{true, false, false}},
		"fastapi":       {422, `{"detail":[{"type":"extra_forbidden","loc":["body","stream_options"]}]}`, []bool{true, false, false}},
		"another error": {400, `{"error":{"message":"too long"}}`, []bool{true, true}},
		"answers":       {200, "", []bool{true, true}},
	} {
		var asked []bool
		r := with(t, Chat, func(r *http.Request) (*http.Response, error) {
			sent, _ := io.ReadAll(r.Body)
			usage := strings.Contains(string(sent), `"stream_options":{"include_usage":true}`)
			if asked = append(asked, usage); usage && c.status != 200 {
				return respond(c.status, jsonText, c.says), nil
			}
			return respond(200, eventStream, chatStream), nil
		})
		g := start(t, r)
		var last *httptest.ResponseRecorder
		for range 2 {
			last = g.call(t.Context(), body)
		}
		if !slices.Equal(asked, c.asked) || g.Usage()["requests"] != 2 {
			t.Errorf("%s: %v, %v", name, asked, g.Usage())
		}
		if honest := last.Code == 200; honest && strings.Contains(last.Body.String(), "prompt_tokens") || !honest && last.Body.String() != c.says {
			t.Errorf("%s: the agent gets %d %s", name, last.Code, last.Body)
		}
	}
}

// TestEveryDialectTellsSteps: the steps of an agent can be read in every dialect that it
// may speak.
func TestEveryDialectTellsSteps(t *testing.T) {
	for _, d := range dialects() {
		if d.steps == nil {
			t.Errorf("nothing reads the steps of an agent that speaks %s", d.name)
		}
	}
}
