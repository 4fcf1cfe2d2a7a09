package wire

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
)

const model = "model-1"

// honest are bodies as the agents' programs send them.
var honestResponses = map[string]string{
	"plain": `{"model":"model-1","stream":true,"instructions":"Be good.","input":[
		{"type":"message","role":"developer","content":[{"type":"input_text","text":"a"}]},
		{"role":"user","content":"text"},
		{"type":"reasoning","summary":[],"encrypted_content":"abc"},
		{"type":"function_call","call_id":"1","name":"exec_command","arguments":"{\"image_url\":\"http://x\"}"},
		{"type":"function_call_output","call_id":"1","output":"done"},
		{"type":"custom_tool_call","call_id":"2","name":"exec","input":"x"},
		{"type":"custom_tool_call_output","call_id":"2","output":[{"type":"input_text","text":"x"},
			{"type":"input_image","image_url":"data:image/png;base64,AAAA","detail":"high"}]}],
		"tools":[{"type":"function","name":"exec_command","parameters":{"type":"object","properties":{"Type":{"type":"web_search"}}}},
			{"type":"custom","name":"apply_patch","format":{"type":"grammar"}},
			{"type":"tool_search","execution":"client","parameters":{}},
			{"type":"namespace","name":"multi_agent_v1","tools":[{"type":"function","name":"wait_agent"}]}],
		"tool_choice":"auto","parallel_tool_calls":true,"reasoning":{"effort":"high","summary":"auto"},"store":false,
		"include":["reasoning.encrypted_content"],"prompt_cache_key":"k","text":{"verbosity":"low"},"client_metadata":{"X-A":"b"}}`,
	"code mode": `{"model":"model-1","stream":true,"store":false,"parallel_tool_calls":false,"input":[
		{"type":"additional_tools","id":null,"role":"developer","tools":[
			{"type":"namespace","name":"functions","tools":[{"type":"custom","name":"exec"},{"type":"function","name":"wait"}]},
			{"type":"namespace","name":"clock","tools":[{"type":"function","name":"sleep"}]}]}]}`,
	"items with ids": `{"model":"model-1","instructions":null,"input":[
		{"id":"msg_1","role":"assistant","content":"text"},
		{"id":"msg_2","type":"message","role":"assistant","status":"completed","content":[]},
		{"id":"rs_1","type":"reasoning","summary":[],"encrypted_content":"abc"},
		{"id":"rs_2","type":"reasoning","summary":[],"content":[{"type":"reasoning_text","text":"x"}]},
		{"id":"rs_3","type":"reasoning","summary":[{"type":"summary_text","text":"see https://example.org"}]},
		{"type":"reasoning","summary":[]},
		{"id":"fc_1","type":"function_call","call_id":"1","name":"f","arguments":""},
		{"id":"fo_1","type":"function_call_output","call_id":"1","output":""},
		{"id":"cm_1","type":"compaction","encrypted_content":"abc"},
		{"type":"compaction_trigger"}]}`,
	"files": `{"model":"model-1","input":[{"role":"user","content":[
		{"type":"input_file","filename":"a.pdf","file_data":"data:application/pdf;base64,AAAA"},
		{"type":"input_file","filename":"b.pdf","file_data":"/9j/4AAQSkZ+Rg=="},
		{"type":"input_audio","input_audio":{"data":"UklGRg==","format":"wav"}},
		{"type":"output_text","text":"https://example.org","annotations":[{"type":"url_citation","url":"https://example.org"}]}]}]}`,
	"nothing asked for": `{"model":"model-1","input":"hi","previous_response_id":null,"background":false,"conversation":null,"tools":null}`,
}

var honestMessages = map[string]string{
	"turn": `{"model":"model-1","max_tokens":32000,"stream":true,"metadata":{"user_id":"{}"},
		"system":[{"type":"text","text":"x","cache_control":{"type":"ephemeral"}}],
		"thinking":{"type":"adaptive","display":"updates"},"output_config":{"effort":"high"},
		"context_management":{"edits":[{"type":"clear_thinking_20251015","keep":"all"}]},
		"tools":[{"name":"Bash","description":"d","input_schema":{"type":"object"}},
			{"name":"DeferredToolPlaceholder","input_schema":{},"defer_loading":true},
			{"type":"custom","name":"x","input_schema":{}},{"type":"bash_20250124","name":"bash"}],
		"messages":[{"role":"user","content":"hi"},
			{"role":"system","content":[{"type":"text","text":"x"},{"type":"tool_removal","tool":{"type":"tool_reference","name":"a"}},
				{"type":"tool_addition","tool":{"type":"tool_reference","name":"b"}},
				{"type":"tool_addition","tool":{"type":"tool_definition","definition":{"name":"c","input_schema":{}}}}]},
			{"role":"assistant","content":[{"type":"thinking","thinking":"h","signature":"s"},
				{"type":"tool_use","id":"t","name":"Bash","input":{"URL":"http://x","type":"url"}}]},
			{"role":"user","content":[{"type":"tool_result","tool_use_id":"t","content":[{"type":"text","text":"x"},
				{"type":"image","source":{"type":"base64","media_type":"image/png","data":"AAAA"}},{"type":"tool_reference","tool_name":"x"}]},
				{"type":"document","source":{"type":"content","content":[{"type":"text","text":"x"}]}},
				{"type":"document","source":{"type":"text","media_type":"text/plain","data":"https://example.org"}},
				{"type":"search_result","source":"https://example.org","title":"t","content":[{"type":"text","text":"x"}]}]}]}`,
	"nothing asked for": `{"model":"model-1","max_tokens":1,"messages":[],"mcp_servers":[],"container":null,"service_tier":"auto"}`,
}

var honestChat = map[string]string{
	"turn": `{"model":"model-1","temperature":0,"top_p":1,"seed":1,"stream":true,"stream_options":{"include_usage":true},"max_tokens":100,
		"tools":[{"type":"function","function":{"name":"f","parameters":{"type":"object","properties":{"Url":{"type":"web_search"}}},"strict":false}},
			{"type":"custom","custom":{"name":"patch","format":{"type":"text"}}}],
		"tool_choice":"auto","parallel_tool_calls":true,"reasoning_effort":"high","response_format":{"type":"json_object"},"logit_bias":{"50256":-100},
		"messages":[{"role":"system","content":"a"},{"role":"developer","content":[{"type":"text","text":"b","cache_control":{"type":"ephemeral"}}]},
			{"role":"user","content":[{"type":"text","text":"https://example.org"},{"type":"image_url","image_url":{"url":"data:image/png;base64,AAAA","detail":"high"}},
				{"type":"image_url","image_url":"data:image/png;base64,AAAA"},{"type":"input_audio","input_audio":{"data":"UklGRg==","format":"wav"}},
				{"type":"file","file":{"filename":"a.pdf","file_data":"data:application/pdf;base64,AAAA"}}],"name":"u"},
			{"role":"assistant","content":null,"reasoning_content":"hm","tool_calls":[{"id":"1","type":"function","function":{"name":"f","arguments":"{\"url\":\"http://x\"}"},"extra_content":{"google":{"thought_signature":"s"}}},
				{"id":"2","function":{"name":"f","arguments":"{}"}}]},
			{"role":"tool","tool_call_id":"1","content":"done"},{"role":"tool","tool_call_id":"2","content":[{"type":"text","text":"x"}]},
			{"role":"assistant","content":[{"type":"thinking","thinking":[{"type":"text","text":"x"}]},{"type":"refusal","refusal":"no"}],"annotations":[]}]}`,
	"another program": `{"model":"model-1","chat_template_kwargs":{"enable_thinking":false},"response_format":{"type":"json_schema","json_schema":{"name":"s","schema":{}}},
		"tools":[{"type":"function","function":{"name":"f"},"cache_control":{"type":"ephemeral"},"google_search":null}],"tool_choice":{"type":"function","function":{"name":"f"}},
		"messages":[{"role":"assistant","content":null,"refusal":null,"audio":null,"function_call":null,"provider_specific_fields":{"refusal":null},"thinking_blocks":[],
			"images":[{"type":"image_url","index":0,"image_url":{"url":"data:image/png;base64,AAAA"}}]},{"role":"user","content":"x","images":["data:image/png;base64,AAAA"],"files":[]}]}`,
	"nothing asked for": `{"model":"model-1","messages":[],"store":false,"audio":null,"web_search_options":null,"tools":null,"modalities":["text"],"n":1,
		"prediction":{"type":"content","content":"x"},"functions":[{"name":"f","parameters":{}}],"function_call":"auto","service_tier":"default"}`,
}

var honestGemini = map[string]string{
	"node": `{"contents":[{"parts":[{"text":"hi"}],"role":"user"},{"role":"model","parts":[{"text":"hm","thought":true},{"functionCall":{"name":"f","args":{"fileData":{"fileUri":"https://x"}}},"thoughtSignature":"AAAA"}]},
		{"role":"user","parts":[{"functionResponse":{"name":"f","response":{"output":"https://example.org","cachedContent":"x"},"parts":[{"inlineData":{"mimeType":"image/png","data":"AAAA"}}]}}]}],
		"systemInstruction":{"parts":[{"text":"be"}],"role":"user"},"tools":[{"functionDeclarations":[{"name":"f","parametersJsonSchema":{"type":"object","properties":{"googleSearch":{"type":"string"}}}}]}],
		"toolConfig":{"functionCallingConfig":{"mode":"AUTO"}},
		"generationConfig":{"temperature":1,"topP":0.95,"topK":64,"maxOutputTokens":9,"thinkingConfig":{"includeThoughts":true,"thinkingBudget":8192},"responseMimeType":"application/json","responseSchema":{"type":"OBJECT"}}}`,
	"python": `{"contents":[{"parts":[{"inlineData":{"data":"eHg=","mime_type":"image/png"}},{"text":"hi"}],"role":"user"}],
		"safetySettings":[{"category":"HARM_CATEGORY_HATE_SPEECH","threshold":"BLOCK_NONE"}],"tools":[{"function_declarations":[{"name":"w","parameters_json_schema":{"type":"object"},"response_json_schema":{"type":"string"}}]}],
		"generationConfig":{"maxOutputTokens":"9","candidateCount":1,"thinkingConfig":{"thinking_budget":0}}}`,
	"nothing asked for":   `{"contents":[],"tools":[{"googleSearch":null,"functionDeclarations":[]}],"cachedContent":"","systemInstruction":null,"toolConfig":{"retrievalConfig":null},"generationConfig":{"speechConfig":null,"responseModalities":["TEXT"]}}`,
	"an object as a list": `{"system_instruction":{"parts":{"text":"be"}},"contents":{"parts":{"text":"hi"}},"tools":{"functionDeclarations":[{"name":"f"}]}}`,
	"counted":             `{"generateContentRequest":{"model":"models/model-1","contents":[{"parts":[{"text":"hi"}]}]}}`,
}

// ask checks a request for the model.
func ask(d *Dialect, body string, p Policy) (Request, error) {
	return d.Request([]byte(body), Asked{Model: model}, p)
}

func TestHonestBodies(t *testing.T) {
	policy := Policy{Models: []string{"other", model}}
	for name, body := range honestResponses {
		got, err := ask(Responses(), body, policy)
		if err != nil || got.Model != model {
			t.Errorf("Responses, %s: %+v, %v", name, got, err)
		}
		var sent map[string]any
		if err := json.Unmarshal(got.Body, &sent); err != nil || sent["store"] != false {
			t.Errorf("Responses, %s: store is %v, %v", name, sent["store"], err)
		}
	}
	for name, body := range honestMessages {
		if got, err := ask(Messages(), body, policy); err != nil || got.Model != model || string(got.Body) != body {
			t.Errorf("Messages, %s: %v", name, err)
		}
	}
	for name, body := range honestChat {
		if got, err := ask(Chat(), body, policy); err != nil || got.Model != model || string(got.Body) != body || got.Hidden {
			t.Errorf("Chat, %s: %v", name, err)
		}
	}
}

// TestHonestGemini: the forms of names that Google's own libraries send are understood.
func TestHonestGemini(t *testing.T) {
	for name, body := range honestGemini {
		got, err := Gemini().Request([]byte(body), Asked{model, true}, Policy{Models: []string{model}})
		if err != nil || got.Model != model || string(got.Body) != body || !got.Stream || (name == "node" || name == "python") && got.Output != 9 {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
	for _, asked := range []string{"", "bigger", "models/model-1", "model-1:x"} {
		if _, err := Gemini().Request([]byte(`{"contents":[]}`), Asked{Model: asked}, Policy{Models: []string{model}}); err == nil {
			t.Errorf("the model %q passed", asked)
		}
	}
	got, err := ask(Gemini(), `{"contents":[],"newField":{"url":"https://x"},"generationConfig":{"temperature":0,"new_setting":{"a":1},"topP":1},"labels":{}}`, Policy{Models: []string{model}})
	if want := `{"contents":[],"generationConfig":{"temperature":0,"topP":1}}`; err != nil || string(got.Body) != want ||
		!slices.Equal(got.Dropped, []string{"newField", "generationConfig.new_setting", "labels"}) {
		t.Errorf("%s, %q, %v", got.Body, got.Dropped, err)
	}
	got, err = ask(Gemini(), `{"generateContentRequest":{"model":"models/model-1","contents":[],"newField":1,"generationConfig":{"topP":1,"newSetting":1}}}`, Policy{Models: []string{model}})
	if want := `{"generateContentRequest":{"model":"models/model-1","contents":[],"generationConfig":{"topP":1}}}`; err != nil || string(got.Body) != want ||
		!slices.Equal(got.Dropped, []string{"generationConfig.newSetting", "generateContentRequest.newField"}) {
		t.Errorf("%s, %q, %v", got.Body, got.Dropped, err)
	}
	for n, want := range map[string]int64{`1`: 1, `"3"`: 3, `8`: 8, `0`: -1, `1000`: -1, `1e1`: -1, `"x"`: -1} {
		got, err := ask(Gemini(), `{"generationConfig":{"candidateCount":`+n+`}}`, Policy{Models: []string{model}, External: true})
		if (err != nil) != (want < 0) || err == nil && got.Answers != want {
			t.Errorf("%s candidates: %+v, %v", n, got, err)
		}
	}
}

// TestUsageIsAskedFor: a stream of Chat Completions says what it used, whatever the agent
// asks for, and the agent gets no event that it has not asked for. Fields that a server
// does not know are not sent to it in vain.
func TestUsageIsAskedFor(t *testing.T) {
	const added = `{"stream_options":{"include_usage":true},`
	for body, want := range map[string]string{
		`{"model":"model-1","stream":true}`:                                                  added + `"model":"model-1","stream":true}`,
		"\n {\"model\":\"model-1\",\"stream\":true}":                                         "\n " + added + `"model":"model-1","stream":true}`,
		`{"model":"model-1","stream":true,"stream_options":{"include_usage":false}}`:         added + `"model":"model-1","stream":true}`,
		`{"stream_options":{},"model":"model-1","stream":true}`:                              added + `"model":"model-1","stream":true}`,
		`{"stream_options":null,"model":"model-1","stream":false}`:                           `{"model":"model-1","stream":false}`,
		`{"model":"model-1"}`:                                                                `{"model":"model-1"}`,
		`{"model":"model-1","stream":true,"stream_options":{"include_usage":true,"x":[{}]}}`: `{"model":"model-1","stream":true,"stream_options":{"include_usage":true,"x":[{}]}}`,
	} {
		got, err := ask(Chat(), body, Policy{Models: []string{model}})
		if err != nil || string(got.Body) != want || got.Hidden != strings.Contains(want, added) || len(got.Dropped) > 0 ||
			strings.Contains(string(got.Plain()), added) {
			t.Errorf("%s: %s, %+v, %v", body, got.Body, got, err)
		}
	}
	const usage = "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":1}}\n\n"
	kept := "data: {\"choices\":[{\"delta\":{\"content\":\"\\\"usage\\\"\"}}],\"usage\":null}\n\ndata: {\"choices\":[]}\n\ndata: {\"usage\":{}}\n\ndata: [DONE]\n\n"
	for hidden, want := range map[bool]string{true: kept, false: kept + usage} {
		if got := redactedBy(t, Chat(), hidden, kept+usage, 5); got != want {
			t.Errorf("hidden %v: %s", hidden, got)
		}
	}
}

// TestAnswersAreBounded: each of several answers counts.
func TestAnswersAreBounded(t *testing.T) {
	for n, want := range map[string]int64{`1`: 1, `128`: 128, `null`: 0, `0`: -1, `129`: -1, `-1`: -1, `1.5`: -1, `"2"`: -1, `[2]`: -1, `1e9`: -1} {
		got, err := ask(Chat(), `{"model":"model-1","max_tokens":5,"max_completion_tokens":9,"n":`+n+`}`, Policy{Models: []string{model}, External: true})
		if (err != nil) != (want < 0) || err == nil && (got.Answers != want || got.Output != 9) {
			t.Errorf("%s: %+v, %v", n, got, err)
		}
	}
}

// tries sends what would let the provider work for the agent. Each of the values passes
// the weak policy that allows it.
func tries(t *testing.T, d *Dialect, frame string, values []string) {
	t.Helper()
	for _, v := range values {
		body := strings.Replace(frame, "@", v, 1)
		if _, err := ask(d, body, Policy{Models: []string{model}, External: true}); err != nil {
			t.Errorf("the weak policy refuses %s: %v", v, err)
		}
		_, err := ask(d, body, Policy{Models: []string{model}})
		var r *Refusal
		if !errors.As(err, &r) || r.Reason != externalTools && r.Reason != unknownField {
			t.Errorf("%s: %v", v, err)
		}
	}
}

// TestExternalTools tries what would let the provider work for the agent. Each
// passes the weak policy that allows it.
func TestExternalTools(t *testing.T) {
	hosted := []string{
		`{"type":"web_search","external_web_access":true}`, `{"type":"web_search_preview"}`, `{"type":"file_search","vector_store_ids":["a"]}`,
		`{"type":"code_interpreter","container":{"type":"auto"}}`, `{"type":"image_generation"}`, `{"type":"computer_use_preview"}`,
		`{"type":"mcp","server_url":"https://evil.example"}`, `{"type":"tool_search","execution":"server"}`, `{"type":"tool_search"}`,
		`{"type":"shell","environment":{"type":"container_auto"}}`, `{"type":"shell","environment":{}}`, `{"name":"x"}`, `{"type":"Function"}`,
		`{"type":"namespace","name":"n","tools":[{"type":"namespace","tools":[{"type":"web_search"}]}]}`,
		`{"type":"function","name":"f","tools":[{"type":"mcp"}]}`,
	}
	tries(t, Responses(), `{"model":"model-1","tools":[@]}`, hosted)
	tries(t, Responses(), `{"model":"model-1","input":[{"type":"additional_tools","tools":[@]}]}`, hosted)
	tries(t, Responses(), `{"model":"model-1","input":[{"type":"tool_search_output","tools":[@]}]}`, hosted)
	tries(t, Responses(), `{"model":"model-1","tool_choice":{"type":"allowed_tools","tools":[@]}}`, hosted)
	tries(t, Responses(), `{"model":"model-1","input":[@]}`, []string{
		`{"type":"item_reference","id":"x"}`, `{"type":"mcp_call"}`, `{"type":"web_search_call"}`, `{"type":"code_interpreter_call"}`,
		`{"role":"user","content":[{"type":"input_image","image_url":"https://evil.example/x.png"}]}`,
		`{"role":"user","content":[{"type":"input_image","image_url":{"url":"https://evil.example/x.png"}}]}`,
		`{"role":"user","content":[{"type":"input_image","file_id":"file-1"}]}`,
		`{"role":"user","content":[{"type":"input_file","file_url":"https://evil.example/x"}]}`,
		`{"role":"user","content":[{"file_url":"https://evil.example/x","type":"input_file"}]}`,
		`{"type":"function_call_output","output":[{"type":"input_image","image_url":"http://evil.example"}]}`,
		`{"type":"function_call_output","output":{"type":"computer_screenshot","image_url":"http://evil.example"}}`,
		`{"type":"custom_tool_call_output","output":[{"type":"input_file","file_id":"f"}]}`,
		`{"id":"msg_1"}`, `{"type":null,"id":"msg_1"}`, `{"id":"msg_1","content":"x"}`, `{"role":null,"id":"msg_1"}`, `{"role":7,"id":"msg_1"}`,
		`{"type":"message","id":"msg_1"}`, `{"role":"user","id":"msg_1","content":null}`, `{"id":"msg_1","status":"completed","role":"assistant"}`,
		`{"type":"reasoning","id":"rs_1"}`, `{"type":"reasoning","id":"rs_1","summary":[]}`, `{"type":"reasoning","id":"rs_1","summary":[],"encrypted_content":""}`,
		`{"type":"compaction","id":"cm_1"}`, `{"type":"function_call_output","id":"fo_1"}`,
		`{"role":"user","content":[{"type":"input_file","file_data":"https://evil.example/x.pdf"}]}`,
		`{"role":"user","content":[{"type":"input_file","file_data":"gs://bucket/x.pdf"}]}`,
		`{"role":"user","content":[{"type":"input_file","file_data":" data:x"}]}`,
		`{"role":"user","content":[{"type":"input_file","file_data":{"url":"https://evil.example"}}]}`,
		`{"role":"user","content":[{"type":"input_file","file_ids":["f"]}]}`,
		`{"role":"user","content":[{"type":"input_text","text":"x","file_uri":"gs://bucket/x"}]}`,
		`{"role":"user","content":[{"type":"input_image","image_url":"DATA:x","detail":"high"}]}`,
		`{"role":"user","content":[{"type":"input_image","video_url":"https://evil.example"}]}`,
		`{"role":"user","content":[{"type":"input_audio","input_audio":{"data":"https://evil.example"}}]}`,
		`{"role":"user","content":[{"type":"input_audio","input_audio":{"url":"https://evil.example"}}]}`,
		`{"role":"user","content":"x","url":"https://evil.example"}`,
		`{"type":"reasoning","summary":[{"type":"input_file","file_url":"https://evil.example"}]}`,
	})
	tries(t, Responses(), `{"model":"model-1","instructions":[@]}`, []string{`{"id":"msg_1"}`, `{"type":"item_reference","id":"x"}`})
	tries(t, Responses(), `{"model":"model-1",@}`, []string{
		`"store":true`, `"store":null`, `"store":0`, `"background":true`, `"previous_response_id":"resp_1"`, `"conversation":"conv_1"`,
		`"prompt":{"id":"p"}`, `"tool_choice":{"type":"web_search_preview"}`,
	})
	anthropic := []string{
		`{"type":"web_search_20250305","name":"web_search"}`, `{"type":"web_fetch_20250910"}`, `{"type":"code_execution_20250825"}`,
		`{"type":"mcp_toolset"}`, `{"type":"tool_search_tool_regex_20251119"}`, `{"type":"bash_20250124x"}`, `{"type":"advisor_20260301"}`,
	}
	tries(t, Messages(), `{"model":"model-1","tools":[@]}`, anthropic)
	tries(t, Messages(), `{"model":"model-1","messages":[{"role":"system","content":[{"type":"tool_addition","tool":{"type":"tool_definition","definition":@}}]}]}`, anthropic)
	tries(t, Messages(), `{"model":"model-1","messages":[{"role":"user","content":[@]}]}`, []string{
		`{"type":"image","source":{"type":"url","url":"https://evil.example"}}`, `{"type":"document","source":{"type":"url","url":"https://evil.example"}}`,
		`{"type":"document","source":{"type":"file","file_id":"file_1"}}`, `{"type":"image","source":{"type":"base64","url":"https://evil.example"}}`,
		`{"type":"image","source":{"type":"base64","data":"https://evil.example/x.png"}}`, `{"type":"document","source":{"type":"base64","data":"s3://b/x"}}`,
		`{"type":"document","source":{"type":"text","data":"x","file_uri":"gs://b/x"}}`, `{"type":"text","text":"x","image_url":"https://evil.example"}`,
		`{"type":"tool_result","file_id":"f"}`, `{"type":"search_result","url":"https://evil.example","content":[]}`,
		`{"type":"container_upload","file_id":"file_1"}`, `{"type":"server_tool_use","name":"web_search"}`, `{"type":"mcp_tool_use"}`,
		`{"type":"tool_result","content":[{"type":"image","source":{"type":"url","url":"http://evil.example"}}]}`,
		`{"type":"document","source":{"type":"content","content":[{"type":"image","source":{"type":"url","url":"http://e"}}]}}`,
		`{"type":"tool_addition","tool":{"type":"server"}}`, `{"type":"tool_addition","tool":{"type":"tool_reference","definition":{"type":"web_search_20250305"}}}`,
	})
	tries(t, Messages(), `{"model":"model-1",@}`, []string{
		`"mcp_servers":[{"type":"url","url":"https://evil.example"}]`, `"container":"c"`, `"container":{"skills":[]}`,
		`"messages":[{"role":"user","content":"x","tools":[{"type":"web_search_20250305"}]}]`,
	})
}

// TestExternalChat is [TestExternalTools] for Chat Completions.
func TestExternalChat(t *testing.T) {
	tools := []string{
		`{"type":"web_search"}`, `{"type":"builtin_function","function":{"name":"$web_search"}}`, `{"type":"mcp","server_url":"https://evil.example"}`,
		`{"type":"code_interpreter"}`, `{"type":"retrieval"}`, `{"type":"Function"}`, `{"function":{"name":"f"}}`, `{"type":"openrouter:web_search"}`,
		`{"type":"function","tools":[{"type":"mcp"}]}`, `{"type":null,"function":{"name":"f"}}`,
		`{"type":"function","function":{"name":"f"},"google_search":{}}`, `{"type":"function","function":{"name":"f"},"url_\u0063ontext":true}`,
	}
	tries(t, Chat(), `{"model":"model-1","tools":[@]}`, tools)
	tries(t, Chat(), `{"model":"model-1","tool_choice":{"type":"allowed_tools","allowed_tools":{"mode":"auto","tools":[@]}}}`, tools)
	tries(t, Chat(), `{"model":"model-1","messages":[{"role":"user","content":[@]}]}`, []string{
		`{"type":"image_url","image_url":{"url":"https://evil.example/x.png"}}`, `{"type":"image_url","image_url":"https://evil.example/x.png"}`,
		`{"image_url":{"detail":"low","url":"http://127.0.0.1/"},"type":"image_url"}`, `{"type":"image_url","image_url":{"url":" data:x"}}`,
		`{"type":"image_url","image_url":{"url":["data:x"]}}`, `{"type":"image_url","image_url":{"uri":"gs://b/x","url":"data:x"}}`, `{"type":"image_url","image_url":{}}`,
		`{"type":"text","text":"x","image_url":{"url":"https://evil.example"}}`, `{"type":"video_url","video_url":{"url":"https://evil.example/x.mp4"}}`,
		`{"type":"file","file":{"file_id":"file-1"}}`, `{"type":"file","file":{"file_data":"https://evil.example/x.pdf"}}`, `{"type":"file","file_id":"file-1"}`,
		`{"type":"file","file":{"file_url":"https://evil.example"}}`, `{"type":"input_audio","input_audio":{"data":"https://evil.example"}}`,
		`{"type":"input_audio","input_audio":{"url":"https://evil.example"}}`, `{"type":"audio_url","audio_url":{"url":"https://evil.example"}}`,
		`{"type":"document_url","document_url":"https://evil.example"}`, `{"type":"text","text":"x","file_url":"https://evil.example"}`, `{"type":"image_file","image_file":{"file_id":"f"}}`,
		`{"text":"x"}`, `{"type":"input_image","image_url":"https://evil.example"}`,
		`{"type":"text","text":"x","video":["https://evil.example/1.png"]}`, `{"type":"text","text":"x","image":"https://evil.example"}`, `{"type":"text","text":"x","files":[{"type":"file","file":{"file_id":"f"}}]}`,
		`{"type":"image_url","image_url":null,"uuid":"kept"}`, `{"type":"file"}`, `{"type":"file","file":{"filename":"a.pdf","hash":"kept"}}`, `{"type":"input_audio","uuid":"kept"}`,
	})
	tries(t, Chat(), `{"model":"model-1","messages":[@]}`, []string{
		`{"role":"assistant","audio":{"id":"audio_1"}}`, `{"role":"user","content":"x","file_ids":["f"]}`, `{"role":"user","content":"x","tools":[{"type":"mcp"}]}`,
		`{"role":"assistant","tool_calls":[{"type":"web_search_call"}]}`, `{"role":"user","model":"bigger","content":"x"}`,
		`{"role":"assistant","content":"x","images":[{"type":"image_url","image_url":{"url":"https://evil.example"}}]}`, `{"role":"user","content":"x","images":["https://evil.example"]}`, `{"role":"user","content":"x","files":["file-1"]}`,
		`{"role":"user","content":"x","documents":[{"type":"text","text":"x","image":[{"type":"image_url","image_url":"http://127.0.0.1/"}]}]}`, `{"role":"user","content":"x","file":{"id":"f"}}`,
	})
	tries(t, Chat(), `{"model":"model-1",@}`, []string{
		`"store":true`, `"store":1`, `"store":"true"`, `"web_search_options":{}`, `"web_search_options":{"search_context_size":"low"}`, `"audio":{"voice":"alloy"}`,
		`"modalities":["text","audio"]`, `"modalities":["Text"]`, `"tool_choice":{"type":"web_search"}`,
		`"prediction":{"type":"content","content":[{"type":"image_url","image_url":{"url":"https://evil.example"}}]}`,
	})
	for _, name := range []string{"chat_template", "tokenize", "chat_\\u0074emplate"} { // a program, to the server
		for _, external := range []bool{false, true} {
			if got, err := ask(Chat(), `{"model":"model-1","chat_template_kwargs":{"`+name+`":"{{ x }}"}}`, Policy{Models: []string{model}, External: external}); err == nil {
				t.Errorf("passed: %s", got.Body)
			}
		}
	}
	// What another server than OpenAI's would fetch or run has fields of its own, which no provider sees.
	for _, field := range []string{`"search_parameters":{"mode":"on"}`, `"enable_search":true`, `"plugins":[{"id":"web"}]`, `"models":["bigger"]`, `"extra_body":{"google":{"cached_content":"c"}}`, `"mcp_servers":[{}]`} {
		got, err := ask(Chat(), `{"model":"model-1",`+field+`}`, Policy{Models: []string{model}})
		if err != nil || string(got.Body) != `{"model":"model-1"}` || len(got.Dropped) != 1 {
			t.Errorf("%s: %s, %v", field, got.Body, err)
		}
	}
}

// TestExternalGemini is [TestExternalTools] for Gemini, by both names of a field.
func TestExternalGemini(t *testing.T) {
	tries(t, Gemini(), `{"tools":[@]}`, []string{
		`{"googleSearch":{}}`, `{"google_search":{}}`, `{"googleSearchRetrieval":{}}`, `{"codeExecution":{}}`, `{"code_execution":{}}`, `{"urlContext":{}}`, `{"url_context":{}}`,
		`{"retrieval":{}}`, `{"enterpriseWebSearch":{}}`, `{"googleMaps":{}}`, `{"computerUse":{"environment":"ENVIRONMENT_BROWSER"}}`, `{"fileSearch":{}}`, `{"mcpServers":[{"url":"https://evil.example"}]}`,
		`{"functionDeclarations":[{"name":"f"}],"googleSearch":{}}`, `{"GoogleSearch":{}}`, `{"google\u0053earch":{}}`, `{"newTool":true}`, `{"go_ogle_search":{}}`,
	})
	part := []string{
		`{"fileData":{"fileUri":"https://evil.example/x","mimeType":"image/png"}}`, `{"file_data":{"file_uri":"gs://bucket/x"}}`, `{"fileData":{"fileUri":"https://generativelanguage.googleapis.com/v1beta/files/x"}}`,
		`{"text":"x","fileData":{"fileUri":"gs://b/x"}}`, `{"FileData":{}}`, `{"file_Data":{}}`, `{"inlineData":{"data":"https://evil.example"}}`, `{"inline_data":{"data":"gs://b/x"}}`, `{"inlineData":{"fileUri":"gs://b/x"}}`,
		`{"inlineData":{"data":{"uri":"gs://b/x"}}}`, `{"executableCode":{"language":"PYTHON","code":"x"}}`, `{"codeExecutionResult":{"outcome":"OUTCOME_OK"}}`, `{"toolCall":{"toolType":"GOOGLE_SEARCH_WEB"}}`, `{"toolResponse":{}}`, `{"newPart":{}}`,
		`{"functionResponse":{"name":"f","response":{},"parts":[{"fileData":{"fileUri":"gs://b/x"}}]}}`, `{"function_response":{"parts":[{"file_data":{"file_uri":"gs://b/x"}}]}}`,
	}
	tries(t, Gemini(), `{"contents":[{"role":"user","parts":[@]}]}`, part)
	tries(t, Gemini(), `{"system_instruction":{"parts":[@]}}`, part)
	tries(t, Gemini(), `{"generate_content_request":{"contents":[{"parts":[@]}]}}`, part)
	tries(t, Gemini(), `{"contents":[{@}]}`, []string{`"parts":[],"fileData":{}`, `"url":"https://evil.example"`})
	tries(t, Gemini(), `{@}`, []string{
		`"cachedContent":"cachedContents/x"`, `"cached_content":"cachedContents/x"`, `"store":true`, `"toolConfig":{"retrievalConfig":{"latLng":{}}}`, `"tool_config":{"includeServerSideToolInvocations":true}`,
		`"generationConfig":{"speechConfig":{}}`, `"generation_config":{"responseModalities":["AUDIO"]}`, `"generationConfig":{"response_modalities":["TEXT","IMAGE"]}`, `"generationConfig":{"imageConfig":{}}`,
		`"generateContentRequest":{"cachedContent":"x"}`, `"generateContentRequest":{"generationConfig":{"speechConfig":{}}}`,
		`"tools":{"googleSearch":{}}`, `"contents":{"parts":{"fileData":{"fileUri":"gs://b/x"}}}`, `"contents":[{"parts":{"functionResponse":{"parts":{"fileData":{}}}}}]`,
	})
	for body, want := range map[string]reason{
		`{"model":"models/bigger"}`: modelRefused, `{"model":7}`: modelRefused, `{"generateContentRequest":{"model":"models/bigger"}}`: modelRefused,
		`{"generateContentRequest":{"generate_content_request":{}}}`: invalidBody,
		`{"generationConfig":{"routingConfig":{}}}`:                  modelRefused, `{"generationConfig":{"model_selection_config":{}}}`: modelRefused,
		`{"serviceTier":"priority"}`: tierRefused, `{"service_tier":"SERVICE_TIER_PRIORITY"}`: tierRefused, `{"contents":[],"contents":[]}`: invalidBody,
		`{"cachedContent":null,"cached_content":"x"}`: invalidBody, `{"contents":[{"parts":[{"inlineData":{"data":""},"inline_data":{"data":"https://x"}}]}]}`: invalidBody,
		`{"contents":"x"}`: invalidBody, `{"contents":[{"parts":"x"}]}`: invalidBody, `{"tools":"x"}`: invalidBody, `{"systemInstruction":"x"}`: invalidBody, `[]`: invalidBody, `{"con tents":[]}`: unknownField,
		`{"contents":[{"parts":[` + strings.Repeat(`{"functionResponse":{"parts":[`, 50) + strings.Repeat(`]}}`, 50) + `]}]}`: invalidBody,
	} {
		_, err := ask(Gemini(), body, Policy{Models: []string{model}, External: true})
		var r *Refusal
		if !errors.As(err, &r) || r.Reason != want {
			t.Errorf("%.80s: %v, want %s", body, err, want)
		}
	}
}

// checkGemini looks in a body that passed for what must not.
func checkGemini(t *testing.T, sent map[string]any) {
	fields := func(v any) map[string]any {
		out := map[string]any{}
		m, _ := v.(map[string]any)
		for name, v := range m {
			if v != nil && v != false {
				out[strings.ToLower(strings.ReplaceAll(name, "_", ""))] = v
			}
		}
		return out
	}
	list := func(v any) []any {
		if v, ok := v.([]any); ok {
			return v
		}
		return []any{v}
	}
	all := fields(sent)
	for _, c := range append(list(all["contents"]), all["systeminstruction"]) {
		for _, p := range list(fields(c)["parts"]) {
			if f := fields(p); f["filedata"] != nil || f["executablecode"] != nil || strings.Contains(fmt.Sprint(f["inlinedata"]), "://") {
				t.Fatalf("passed: %v", sent)
			}
		}
	}
	for _, tool := range list(all["tools"]) {
		for name, v := range fields(tool) {
			if list, ok := v.([]any); name != "functiondeclarations" && (!ok || len(list) > 0) {
				t.Fatalf("the tool %q passed: %v", name, sent)
			}
		}
	}
	if v := all["cachedcontent"]; v != nil && v != "" && fmt.Sprint(v) != "[]" {
		t.Fatalf("passed: %v", sent)
	}
}

// TestUnknownFields: fields that a newer program sends never reach the provider,
// and the rest of the request does, as it was. An operator who allows all gets all.
func TestUnknownFields(t *testing.T) {
	const unknown = `"fallbacks":[{"model":"bigger"}], "plugins" : [{"id":"web"}],"web_search_options":{},"\u006dodels":["bigger"]`
	for name, c := range map[string]struct {
		d          *Dialect
		body, want string
	}{
		"first":  {Messages(), `{` + unknown + `,"model":"model-1","max_tokens": 5,"messages":[{"content":"\u0041 é"}]}`, `{"model":"model-1","max_tokens":5,"messages":[{"content":"\u0041 é"}]}`},
		"last":   {Messages(), ` {"model":"model-1","store":true,` + unknown + ` } `, `{"model":"model-1"}`},
		"chat":   {Chat(), `{` + strings.Replace(unknown, "web_search_options", "web_search", 1) + `,"model":"model-1","messages":[{"content":"\u0041"}]}`, `{"model":"model-1","messages":[{"content":"\u0041"}]}`},
		"stored": {Responses(), `{"input":"x",` + unknown + `,"model":"model-1"}`, `{"store":false,"input":"x","model":"model-1"}`},
	} {
		got, err := ask(c.d, c.body, Policy{Models: []string{model}})
		if err != nil || string(got.Body) != c.want || !slices.Contains(got.Dropped, "fallbacks") || !slices.Contains(got.Dropped, "models") || got.Model != model {
			t.Errorf("%s: %s, %q, %v", name, got.Body, got.Dropped, err)
		}
		all, err := ask(c.d, strings.Replace(strings.Replace(c.body, `"fallbacks"`, `"plug"`, 1), `,"\u006dodels"`, `,"fallbacks":null,"mode"`, 1), Policy{Models: []string{model}, External: true})
		if err != nil || !strings.Contains(string(all.Body), "bigger") || len(all.Dropped) > 0 {
			t.Errorf("%s, all allowed: %s, %v", name, all.Body, err)
		}
		for _, other := range []string{`"fallbacks":[{"model":"bigger"}]`, `"\u006dodels":["bigger"]`, `"fallback_model":"bigger"`, `"route":"fallback"`} { // have no price
			got, err := ask(c.d, `{"model":"model-1",`+other+`}`, Policy{Models: []string{model}, External: true})
			if err == nil || !strings.Contains(err.Error(), "would choose another model") {
				t.Errorf("%s, with %s: %s, %v", name, other, got.Body, err)
			}
		}
	}
	var many strings.Builder
	for i := range 1000 {
		fmt.Fprintf(&many, `"x%d%s":1,`, i+1000, "yyy"+strings.Repeat("é", 50))
	}
	got, err := ask(Responses(), `{`+many.String()+`"model":"model-1"}`, Policy{Models: []string{model}})
	if err != nil || len(got.Dropped) != maxDropped || !utf8.ValidString(strings.Join(got.Dropped, "")) || len(got.Dropped[0]) < 36 || len(got.Dropped[0]) > 40 || string(got.Body) != `{"store":false,"model":"model-1"}` {
		t.Errorf("%s, %q, %v", got.Body, got.Dropped, err)
	}
}

func TestRefusedAlways(t *testing.T) {
	deep := strings.Repeat(`{"type":"namespace","tools":[`, 50) + strings.Repeat("]}", 50)
	for body, want := range map[string]reason{
		`{"model":"bigger"}`:    modelRefused,
		`{}`:                    modelRefused,
		`{"model":["model-1"]}`: modelRefused,
		`{"model":"model-1","service_tier":"priority"}`: tierRefused,
		`{"model":"model-1","speed":"fast"}`:            tierRefused,
		`{"model":"model-1","model":"bigger"}`:          invalidBody,
		`{"model":"model-1","metadata":{"a":1,"a":2}}`:  invalidBody,
		`{"model":"model-1"} {}`:                        invalidBody,
		`{"model":"model-1"`:                            invalidBody,
		`{"model":"model-1","x":"` + "\xff" + `"}`:      invalidBody,
		`{"model":"model-1","stream":"yes"}`:            invalidBody,
		`[]`:                                            invalidBody,
		``:                                              invalidBody,
		`{"model":"model-1","Tools":[]}`:                unknownField,
		`{"model":"model-1","\u0054ools":[]}`:           unknownField,
		`{"model":"model-1","tools":[{"type":"function","Type":"mcp"}]}`: unknownField,
		`{"model":"model-1","tools":7}`:                                  invalidBody,
		`{"model":"model-1","tools":[` + deep + `]}`:                     invalidBody,
	} {
		for name, d := range map[string]*Dialect{"Responses": Responses(), "Messages": Messages(), "Chat": Chat()} {
			if name != "Responses" && strings.Contains(body, "namespace") {
				continue
			}
			_, err := ask(d, body, Policy{Models: []string{model}, External: name == "Responses"})
			var r *Refusal
			if !errors.As(err, &r) || r.Reason != want {
				t.Errorf("%s, %.80s: %v, want %s", name, body, err, want)
			}
		}
	}
}

// FuzzRequest compares the checks with a search through the decoded body that
// knows nothing of the APIs' structure but where tools are declared.
func FuzzRequest(f *testing.F) {
	for _, set := range []map[string]string{honestResponses, honestMessages, honestChat, honestGemini} {
		for _, body := range set {
			f.Add([]byte(body))
		}
	}
	f.Add([]byte(`{"model":"model-1","tools":[{"type":"web_search"}]}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		for api, d := range spoken() {
			got, err := ask(d, string(body), Policy{Models: []string{model}})
			if err != nil {
				continue
			}
			var sent map[string]any
			if err := json.Unmarshal(got.Body, &sent); err != nil {
				t.Fatalf("a body that is not JSON passed: %v", err)
			}
			if api == "gemini" {
				checkGemini(t, sent)
				continue
			}
			if sent["model"] != model || sent["mcp_servers"] == true || sent["background"] == true || sent["store"] == true {
				t.Fatalf("passed: %s", got.Body)
			}
			tools, _ := sent["tools"].([]any)
			for _, tool := range tools {
				kind, _ := tool.(map[string]any)["type"].(string)
				if strings.HasPrefix(kind, "web_") || strings.HasPrefix(kind, "code_") || strings.HasPrefix(kind, "mcp") {
					t.Fatalf("the tool %q passed: %s", kind, got.Body)
				}
			}
		}
	})
}
