package steps

import (
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"securebench/internal/gateway/relay/wire"
	"securebench/internal/trajectory"
)

// dialects are all, with one conversation in each: two requests, and an answer to each
// that comes as a stream or whole.
var dialects = map[string]struct {
	dialect        *Dialect
	asked          [2]string
	stream, answer [2]string
}{
	"responses": {Responses(), [2]string{
		`{"model":"m","instructions":"Be short.","input":[{"role":"user","content":[{"type":"input_text","text":"List it."}]}]}`,
		`{"model":"m","instructions":"Be short.","input":[{"role":"user","content":[{"type":"input_text","text":"List it."}]},
			{"type":"reasoning","summary":[{"type":"summary_text","text":"Hm."}],"encrypted_content":"abc"},
			{"type":"message","role":"assistant","id":"msg_1","content":[{"type":"output_text","text":"I look."}]},
			{"type":"function_call","call_id":"c1","name":"sh","arguments":"{\"cmd\":\"ls\"}"},
			{"type":"function_call_output","call_id":"c1","output":"a\nb"}]}`},
		[2]string{
			"event: response.created\ndata: {\"type\":\"response.created\",\"response\":{\"output\":[]}}\n\n" +
				event(`{"type":"response.output_item.done","item":{"type":"reasoning","summary":[{"type":"summary_text","text":"Hm."}]}}`) +
				"event: response.output_text.delta\ndata: {\"type\":\"response.output_text.delta\",\"delta\":\"I look.\"}\n\n" +
				event(`{"type":"response.output_item.done","item":{"type":"message","role":"assistant","content":[{"type":"output_text","text":"I look."}]}}`) +
				event(`{"type":"response.output_item.done","item":{"type":"function_call","call_id":"c1","name":"sh","arguments":"{\"cmd\":\"ls\"}"}}`) +
				event(`{"type":"response.completed","response":{"output":[{"type":"message","content":[{"type":"output_text","text":"I look."}]}]}}`),
			event(`{"type":"response.completed","response":{"output":[{"type":"message","role":"assistant","content":[{"type":"output_text","text":"Two."}]}]}}`)},
		[2]string{
			`{"output":[{"type":"reasoning","summary":[{"type":"summary_text","text":"Hm."}]},{"type":"message","role":"assistant","content":[{"type":"output_text","text":"I look."}]},
				{"type":"function_call","call_id":"c1","name":"sh","arguments":"{\"cmd\":\"ls\"}"}]}`,
			`{"output":[{"type":"message","content":[{"type":"output_text","text":"Two."}]}]}`}},
	"messages": {Messages(), [2]string{
		`{"model":"m","system":[{"type":"text","text":"Be short."}],"messages":[{"role":"user","content":"List it."}]}`,
		`{"model":"m","system":"Be short.","messages":[{"role":"user","content":[{"type":"text","text":"List it.","cache_control":{"type":"ephemeral"}}]},
			{"role":"assistant","content":[{"type":"thinking","thinking":"Hm.","signature":"abc"},{"type":"text","text":"I look."},{"type":"tool_use","id":"c1","name":"sh","input":{"cmd": "ls"}}]},
			{"role":"user","content":[{"type":"tool_result","tool_use_id":"c1","content":[{"type":"text","text":"a\nb"}]}]}]}`},
		[2]string{
			event(`{"type":"message_start","message":{"content":[]}}`) +
				event(`{"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":""}}`) +
				event(`{"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"Hm"}}`) +
				event(`{"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"."}}`) +
				event(`{"type":"content_block_delta","index":0,"delta":{"type":"signature_delta","signature":"abc"}}`) +
				event(`{"type":"content_block_stop","index":0}`) +
				event(`{"type":"content_block_start","index":1,"content_block":{"type":"text","text":""}}`) +
				event(`{"type":"content_block_delta","index":1,"delta":{"type":"text_delta","text":"I lo"}}`) +
				event(`{"type":"content_block_delta","index":1,"delta":{"type":"text_delta","text":"ok."}}`) +
				event(`{"type":"content_block_start","index":2,"content_block":{"type":"tool_use","id":"c1","name":"sh","input":{}}}`) +
				event(`{"type":"content_block_delta","index":2,"delta":{"type":"input_json_delta","partial_json":"{\"cmd\":"}}`) +
				event(`{"type":"content_block_delta","index":2,"delta":{"type":"input_json_delta","partial_json":"\"ls\"}"}}`),
			event(`{"type":"content_block_start","index":0,"content_block":{"type":"text","text":"Two."}}`) + event(`{"type":"message_stop"}`)},
		[2]string{
			`{"content":[{"type":"thinking","thinking":"Hm."},{"type":"text","text":"I look."},{"type":"tool_use","id":"c1","name":"sh","input":{"cmd":"ls"}}]}`,
			`{"content":[{"type":"text","text":"Two."}]}`}},
	"chat": {Chat(), [2]string{
		`{"model":"m","messages":[{"role":"system","content":"Be short."},{"role":"user","content":[{"type":"text","text":"List it."}]}]}`,
		`{"model":"m","messages":[{"role":"system","content":"Be short."},{"role":"user","content":"List it."},
			{"role":"assistant","reasoning_content":"Hm.","content":"I look.","tool_calls":[{"id":"c1","type":"function","function":{"name":"sh","arguments":"{\"cmd\": \"ls\"}"}}]},
			{"role":"tool","tool_call_id":"c1","content":"a\nb"}]}`},
		[2]string{
			event(`{"choices":[{"index":0,"delta":{"role":"assistant","content":""}}]}`) +
				event(`{"choices":[{"index":0,"delta":{"reasoning_content":"H"}}]}`) + event(`{"choices":[{"index":0,"delta":{"reasoning_content":"m."}}]}`) +
				event(`{"choices":[{"index":0,"delta":{"content":"I lo"}}]}`) + event(`{"choices":[{"index":0,"delta":{"content":"ok."}}]}`) +
				event(`{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"c1","type":"function","function":{"name":"sh","arguments":""}}]}}]}`) +
				event(`{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"{\"cmd\":"}}]}}]}`) +
				event(`{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"c1","function":{"arguments":"\"ls\"}"}}]},"finish_reason":"tool_calls"}]}`) +
				event(`{"choices":[],"usage":{"prompt_tokens":1}}`) + event(`[DONE]`),
			event(`{"choices":[{"delta":{"content":"Two."},"finish_reason":"stop"}]}`) + event(`[DONE]`)},
		[2]string{
			`{"choices":[{"message":{"role":"assistant","reasoning_content":"Hm.","content":"I look.","tool_calls":[{"id":"c1","type":"function","function":{"name":"sh","arguments":"{\"cmd\":\"ls\"}"}}]}}]}`,
			`{"choices":[{"message":{"role":"assistant","content":"Two."}}]}`}},
	"gemini": {Gemini(), [2]string{
		`{"systemInstruction":{"parts":[{"text":"Be short."}]},"contents":[{"role":"user","parts":[{"text":"List it."}]}]}`,
		`{"system_instruction":{"parts":[{"text":"Be short."}]},"contents":[{"parts":[{"text":"List it."}]},
			{"role":"model","parts":[{"text":"Hm.","thought":true},{"text":"I look."},{"functionCall":{"id":"c1","name":"sh","args":{"cmd": "ls"}},"thoughtSignature":"abc"}]},
			{"role":"user","parts":[{"functionResponse":{"id":"c1","name":"sh","response":{"output":"a"}}}]}]}`},
		[2]string{
			event(`{"candidates":[{"content":{"role":"model","parts":[{"text":"H","thought":true}]}}]}`) +
				event(`{"candidates":[{"content":{"role":"model","parts":[{"text":"m.","thought":true},{"text":"I lo"}]},"index":0}]}`) +
				event(`{"candidates":[{"content":{"parts":[{"text":"ok."}]}}]}`) +
				event(`{"candidates":[{"content":{"parts":[{"functionCall":{"id":"c1","name":"sh","args":{"cmd":"ls"}}}]},"finishReason":"STOP"}],"usageMetadata":{}}`),
			event(`{"candidates":[{"content":{"parts":[{"text":"Two."}]}}]}`)},
		[2]string{
			`{"candidates":[{"content":{"role":"model","parts":[{"text":"Hm.","thought":true},{"text":"I look."},{"functionCall":{"id":"c1","name":"sh","args":{"cmd":"ls"}}}]}}]}`,
			`{"candidates":[{"content":{"parts":[{"text":"Two."}]}}]}`}},
}

func event(data string) string { return "data: " + data + "\n\n" }

// heard are the steps of an answer that comes as a stream or whole.
func heard(d *Dialect, stream, whole string) []trajectory.Step {
	a := d.Answer(wire.NewPool(64 << 20))
	defer a.Close()
	if whole != "" {
		a.Whole([]byte(whole))
	}
	for piece := range strings.SplitAfterSeq(stream, "\n\n") {
		a.Events([]byte(piece))
	}
	return a.Steps()
}

// TestOneForm: a conversation has the same steps in every dialect, and what a request
// repeats of it is known again.
func TestOneForm(t *testing.T) {
	want := []string{"agent message system Be short.", "agent message user List it.", "model reasoning Hm.", "model message I look.",
		`model call c1 sh {"cmd":"ls"}`, "model answer", "agent result c1 a\nb", "model message Two.", "model answer"}
	// A result has the name of its call in this dialect, and is JSON.
	ofGemini := slices.Clone(want)
	ofGemini[6] = `agent result c1 sh {"output":"a"}`
	for name, c := range dialects {
		for _, way := range []string{"stream", "whole"} {
			r := trajectory.NewRecorder(nil)
			for i := range c.asked {
				r.AskedParts(time.Unix(1, 0), c.dialect.Asked([]byte(c.asked[i])))
				said := heard(c.dialect, c.stream[i], "")
				if way == "whole" {
					said = heard(c.dialect, "", c.answer[i])
				}
				r.Answered(said, trajectory.Step{By: trajectory.Model, Kind: trajectory.Answer})
			}
			if got := recorded(t, r); !slices.Equal(got, map[bool][]string{false: want, true: ofGemini}[name == "gemini"]) {
				t.Errorf("%s, %s:\n%s", name, way, strings.Join(got, "\n"))
			}
		}
	}
}

func recorded(t *testing.T, r *trajectory.Recorder) (out []string) {
	t.Helper()
	steps, left, err := trajectory.Read(r.Lines())
	if err != nil || left > 0 {
		t.Fatal(left, err)
	}
	for _, s := range steps {
		text := string(s.By) + " " + string(s.Kind)
		for _, part := range []string{s.Role, s.Call, s.Name, s.Text} {
			if part != "" {
				text += " " + part
			}
		}
		if s.Failed {
			text += " (failed)"
		}
		out = append(out, text)
	}
	return out
}

// TestForms: further forms of requests.
func TestForms(t *testing.T) {
	for _, c := range []struct{ dialect, body, want string }{
		{"responses", `{"input":"hi"}`, "agent message user hi"},
		{"responses", `{"instructions":[{"role":"developer","content":"x"}],"input":[]}`, "agent message developer x"},
		{"responses", `{"input":[{"type":"custom_tool_call","call_id":"c","name":"apply_patch","input":"*** Begin"}]}`, "agent call c apply_patch *** Begin"},
		{"responses", `{"input":[{"type":"local_shell_call","call_id":"c","action":{"command": ["ls"]}}]}`, `agent call c local_shell {"command":["ls"]}`},
		{"responses", `{"input":[{"type":"shell_call_output","call_id":"c","status":"incomplete","output":[{"stdout":"x","stderr":""}]}]}`,
			`agent result c [{"stdout":"x","stderr":""}] (failed)`},
		{"responses", `{"input":[{"role":"user","content":[{"type":"input_image","image_url":"data:image/png;base64,AAAA"}]}]}`, "agent message user [input_image]"},
		{"responses", `{"input":[{"role":"assistant","content":[{"type":"refusal","refusal":"No."}]}]}`, "agent message assistant No."},
		{"responses", `{"input":[{"type":"reasoning","encrypted_content":"x"},{"type":"compaction"},7,"x",{"type":7}]}`, ""},
		{"messages", `{"messages":[{"role":"user","content":[{"type":"tool_result","tool_use_id":"c","is_error":true,"content":"boom"}]}]}`, "agent result c boom (failed)"},
		{"messages", `{"messages":[{"role":"user","content":[{"type":"image","source":{}},{"type":"redacted_thinking","data":"x"}]}]}`, "agent message user [image]"},
		{"messages", `{"messages":[{"role":"assistant","content":[{"type":"tool_use","id":"c","name":"sh"}]}]}`, "agent call c sh"},
		{"chat", `{"messages":[{"role":"function","name":"f","content":"out"},{"role":"assistant","content":null,"function_call":{"name":"f","arguments":"{}"}}]}`, "agent result f out\nagent call f {}"},
		{"chat", `{"messages":[{"role":"assistant","refusal":"No.","tool_calls":[{"id":"c","custom":{"name":"p","input":"x"}}]}]}`, "agent message assistant No.\nagent call c p x"},
		{"chat", `{"messages":[{"role":"tool","tool_call_id":"c","content":[{"type":"text","text":"a"},{"type":"image_url"}]},7,{"role":"user","content":7}]}`, "agent result c a\n[image_url]"},
		{"gemini", `{"contents":[{"role":"user","parts":[{"inline_data":{"mime_type":"image/png","data":"AAAA"}}]},{"role":"model","parts":[{"function_call":{"name":"f"}}]}]}`, "agent message user [image/png]\nagent call f {}"},
		{"gemini", `{"contents":[{"role":"user","parts":[{"function_response":{"name":"f","response":{"error":"x"}}},7,{}]},7]}`, `agent result f {"error":"x"}`},
		{"gemini", `{"system_instruction":{"parts":{"text":"be"}},"contents":{"parts":{"text":"hi"}}}`, "agent message system be\nagent message user hi"},
		{"messages", `{"messages":[7,{"role":7},{"role":"user","content":7},{"role":"user","content":[7,[],{}]}]}`, ""},
	} {
		r := trajectory.NewRecorder(nil)
		r.AskedParts(time.Unix(1, 0), dialects[c.dialect].dialect.Asked([]byte(c.body)))
		if got := strings.Join(recorded(t, r), "\n"); got != c.want {
			t.Errorf("%s: %q", c.body, got)
		}
	}
}

// decoded are the steps of a stream of which every event is decoded.
func decoded(d *Dialect, stream string) []trajectory.Step {
	a := d.Answer(wire.NewPool(64 << 20))
	defer a.Close()
	a.events.Each = func(name, data []byte) error {
		a.shape = shape{}
		a.read(name, data)
		return nil
	}
	for piece := range strings.SplitAfterSeq(stream, "\n\n") {
		a.Events([]byte(piece))
	}
	return a.Steps()
}

// TestAlike: events that differ in a string have the steps that they have when they are
// decoded, whichever string that is.
func TestAlike(t *testing.T) {
	literal := regexp.MustCompile(`"[^"\\]*"`)
	known := 0
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.SampledFrom(slices.Sorted(maps.Keys(dialects))).Draw(t, "dialect")
		c := dialects[name]
		events := strings.SplitAfter(strings.Trim(c.stream[0]+c.stream[1], "\n"), "\n\n")
		stream := ""
		for range rapid.IntRange(1, 4).Draw(t, "events") {
			like := rapid.SampledFrom(events).Draw(t, "event")
			at := rapid.SampledFrom(literal.FindAllStringIndex(like+`""`, -1)).Draw(t, "string")
			for range rapid.IntRange(1, 6).Draw(t, "times") {
				other := rapid.SampledFrom([]string{`"x"`, `" y\n"`, `"\u00e9\ud83d"`, "\"\xc3\"", `""`, `"text"`, `"index"`, `"x","y":"z"`, `7`, `"\q"`, `"`, `{}`, like[at[0]:min(at[1], len(like))]}).Draw(t, "other")
				stream += like[:at[0]] + other + like[min(at[1], len(like)):] + "\n\n"
			}
		}
		a := c.dialect.Answer(wire.NewPool(64 << 20))
		defer a.Close()
		for piece := range strings.SplitAfterSeq(stream, "\n\n") {
			a.Events([]byte(piece))
			if a.shape.sure && len(a.shape.before) > 0 {
				known++
			}
		}
		if got, want := a.Steps(), decoded(c.dialect, stream); !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %+v, decoded %+v, of\n%q", name, got, want, stream)
		}
	})
	if known == 0 {
		t.Error("no event was like the one before")
	}
}

// TestMemory: an answer keeps no more than its pool has, and gives it back.
func TestMemory(t *testing.T) {
	for name, c := range dialects {
		pool := wire.NewPool(100 << 10)
		a := c.dialect.Answer(pool)
		for i := range 2000 {
			a.Events([]byte(strings.ReplaceAll(strings.ReplaceAll(c.stream[0], "I look.", strings.Repeat("x", 1000)), `"index":`, fmt.Sprintf(`"index":%d`, i))))
		}
		kept := 0
		for _, s := range a.Steps() {
			kept += len(s.Text) + overhead
		}
		a.Close()
		var held int64
		if kept > 100<<10 || kept < 50<<10 || !pool.Resize(&held, 100<<10) {
			t.Errorf("%s: %d bytes are kept", name, kept)
		}
	}
}

// FuzzAsked: whatever a request is, reading its steps ends, and stops when told to.
func FuzzAsked(f *testing.F) {
	for _, c := range dialects {
		for _, body := range c.asked {
			f.Add([]byte(body), 2)
		}
	}
	f.Fuzz(func(t *testing.T, body []byte, wanted int) {
		for name, c := range dialects {
			n := 0
			for p := range c.dialect.Asked(body) {
				if !p.Steps(func(trajectory.Step) bool {
					n++
					return n < wanted
				}) {
					break
				}
			}
			if n > max(wanted, 1) {
				t.Errorf("%s: %d steps after %d were enough", name, n, wanted)
			}
		}
	})
}

// FuzzAnswer: whatever an answer is, reading its steps ends, and they are no longer than
// it.
func FuzzAnswer(f *testing.F) {
	for _, c := range dialects {
		for i := range c.stream {
			f.Add([]byte(c.stream[i]))
			f.Add([]byte(c.answer[i]))
			f.Add([]byte(strings.Repeat(c.stream[i], 3)))
		}
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		for name, c := range dialects {
			stream := heard(c.dialect, string(body), "")
			if all := decoded(c.dialect, string(body)); !reflect.DeepEqual(stream, all) {
				t.Errorf("%s: %+v, decoded %+v", name, stream, all)
			}
			for _, steps := range [][]trajectory.Step{heard(c.dialect, "", string(body)), stream} {
				n := 0
				for _, s := range steps {
					n += len(s.Text)
				}
				if n > 4*len(body)+10 {
					t.Errorf("%s: %d bytes of %d", name, n, len(body))
				}
			}
		}
	})
}
