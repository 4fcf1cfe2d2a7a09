package wire

import (
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// plainChat are fields of Chat Completions without content that needs a check, those of
// other servers than OpenAI's among them.
const plainChat = " enable_thinking frequency_penalty function_call functions include_reasoning logit_bias" +
	" logprobs max_completion_tokens max_tokens metadata min_p min_tokens parallel_tool_calls presence_penalty prompt_cache_key" +
	" prompt_cache_retention reasoning reasoning_effort reasoning_format reasoning_split repetition_penalty response_format" +
	" safety_identifier seed stop temperature thinking thinking_budget tool_stream top_k top_logprobs top_p user verbosity "

// Chat is OpenAI's Chat Completions, as many servers have it.
func Chat() *Dialect {
	const delta = "choices.delta."
	counted := chatValues()
	values := places("", "", counted)
	return &Dialect{request: (*checker).chat, event: chatEvent, value: (*meter).chat,
		whole: func(m *meter, body []byte) bool { return chatWhole(m, values, body) },
		places: places(below(delta, "content content.text content.thinking content.thinking.text reasoning_content reasoning refusal"+
			" reasoning_details.text reasoning_details.summary tool_calls.function.arguments tool_calls.custom.input function_call.arguments"),
			"choices.index "+below(delta, "tool_calls.index content.type reasoning_details.index"), "choices "+counted)}
}

// askUsage asks for what a stream has used. Without it, a provider does not say.
const askUsage = `"stream_options":{"include_usage":true},`

// chat checks a request. The usage of a stream is asked for even if the agent does not.
func (c *checker) chat(body []byte) ([]byte, error) {
	asked := false // for the usage
	body, err := c.fields(body, lowered, func(name string, v jsontext.Value) error {
		if known, err := c.common(name, v); known {
			return err
		}
		switch name {
		case "messages":
			return array(v, c.chatMessage)
		case "tools":
			return c.chatTools(v)
		case "tool_choice":
			return c.chatChoice(v)
		case "n":
			return c.answers(v)
		case "prediction":
			return c.predicted(v)
		case "modalities":
			return c.modalities(v, "text")
		case "chat_template_kwargs":
			return templated(v)
		case "store", "audio":
			if !empty(v) {
				return c.external("%s", name)
			}
		case "web_search_options":
			if !absent(v) {
				return c.external("%s", name)
			}
		case "stream_options":
			asked = asksUsage(v)
			if !asked {
				return replaced{}
			}
		default:
			if !strings.Contains(plainChat, " "+name+" ") {
				return c.unknown(name, v)
			}
		}
		return nil
	})
	if err == nil && c.out.Stream && !asked && c.out.Model != "" { // or else it is refused
		body, c.out.Hidden = insert(body, askUsage), true
	}
	return body, err
}

// asksUsage reports whether options of a stream ask for its usage.
func asksUsage(v jsontext.Value) bool {
	if v.Kind() != '{' {
		return false
	}
	f, err := collect(v, "include_usage")
	return err == nil && f["include_usage"].Kind() == 't'
}

// maxAnswers bounds how many answers a request asks for.
const maxAnswers = 128

// answers reads how many answers a request asks for. Each of them costs.
func (c *checker) answers(v jsontext.Value) error {
	if absent(v) {
		return nil
	}
	n, err := strconv.ParseInt(string(v), 10, 64)
	if err != nil || n < 1 || n > maxAnswers {
		return invalid("the number of answers is not one of 1 to " + strconv.Itoa(maxAnswers))
	}
	c.out.Answers = n
	return nil
}

// chatTools checks a list of tools.
func (c *checker) chatTools(v jsontext.Value) error {
	if absent(v) {
		return nil
	}
	return array(v, func(tool jsontext.Value) error {
		f, kind, err := typed(tool, "tools")
		if err != nil {
			return err
		}
		if _, more := f["tools"]; kind != "function" && kind != "custom" || more {
			return c.external("a tool of the type %.40q", kind)
		}
		return object(tool, func(name string, v jsontext.Value) error {
			if empty(v) || strings.Contains(plainTool, " "+name+" ") {
				return nil
			}
			return c.external("%.40q in a tool", name) // which servers find by its name, whatever the type
		})
	})
}

// plainTool are the fields of a tool that the client runs.
const plainTool = " type function custom strict cache_control name description parameters defer_loading eager_input_streaming input_examples "

// templated checks settings of the server's own template of a conversation: an agent may
// not bring another, which is a program.
func templated(v jsontext.Value) error {
	if absent(v) {
		return nil
	}
	return object(v, func(name string, v jsontext.Value) error {
		if name == "chat_template" || name == "tokenize" {
			return refuse(unknownField, "%.40s is not allowed in chat_template_kwargs", name)
		}
		return nil
	})
}

// chatChoice checks which tools the model is told to use.
func (c *checker) chatChoice(v jsontext.Value) error {
	if v.Kind() != '{' {
		return nil
	}
	f, kind, err := typed(v, "allowed_tools")
	if err != nil {
		return err
	}
	switch kind {
	case "function", "custom":
		return nil
	case "allowed_tools":
		allowed, err := collect(f["allowed_tools"], "tools")
		if err != nil {
			return err
		}
		return c.chatTools(allowed["tools"])
	}
	return c.external("a tool choice of the type %.40q", kind)
}

// predicted checks the answer that the agent expects.
func (c *checker) predicted(v jsontext.Value) error {
	if absent(v) {
		return nil
	}
	f, err := collect(v, "content")
	if err != nil {
		return err
	}
	return c.chatParts(f["content"])
}

// modalities checks what an answer consists of: sounds cost more than the configured
// price.
func (c *checker) modalities(v jsontext.Value, plain string) error {
	if absent(v) {
		return nil
	}
	return array(v, func(kind jsontext.Value) error {
		if s, _ := text(kind); s != plain {
			return c.external("an answer of the kind %.40q", s)
		}
		return nil
	})
}

// chatMessage checks a message. What belongs to the whole request has no place in one,
// and the sounds of an answer are with the provider.
func (c *checker) chatMessage(v jsontext.Value) error {
	f, err := collect(v, append(media(), "content", "tools", "model", "tool_calls")...)
	if err != nil {
		return err
	}
	for _, name := range []string{"audio", "tools", "model"} {
		if _, ok := f[name]; ok && !c.policy.External {
			return refuse(unknownField, "the field %.40q is not known in a message", name)
		}
	}
	if err := c.attached(f, 0); err != nil {
		return err
	}
	if err := c.addressed(f); err != nil {
		return err
	}
	if err := c.chatCalls(f["tool_calls"]); err != nil {
		return err
	}
	return c.chatParts(f["content"])
}

// chatCalls checks the calls of an earlier answer. Some programs leave out their type.
func (c *checker) chatCalls(v jsontext.Value) error {
	if absent(v) {
		return nil
	}
	return array(v, func(call jsontext.Value) error {
		_, kind, err := typed(call)
		if err == nil && !slices.Contains([]string{"", "function", "custom"}, kind) {
			err = c.external("a call of the type %.40q", kind)
		}
		return err
	})
}

// chatParts checks content: a text, or a list of parts.
func (c *checker) chatParts(v jsontext.Value) error {
	if k := v.Kind(); len(v) == 0 || k == '"' || k == 'n' {
		return nil
	}
	return array(v, func(part jsontext.Value) error { return c.chatPart(part, 0) })
}

// chatPart checks a part of content. One that has nothing may mean what the provider has.
func (c *checker) chatPart(part jsontext.Value, depth int) error {
	f, kind, err := typed(part, append(media(), "image_url", "video_url", "input_audio")...)
	if err != nil {
		return err
	}
	switch kind {
	case "text", "refusal", "thinking", "reasoning":
	case "image_url", "video_url", "input_audio", "file":
		if absent(f[kind]) {
			return c.external("content that is not in the request")
		}
	default:
		return c.external("content of the type %.40q", kind)
	}
	for _, name := range []string{"image_url", "video_url"} {
		if err := c.linked(name, f[name]); err != nil {
			return err
		}
		delete(f, name)
	}
	if err := c.audio(f["input_audio"]); err != nil {
		return err
	}
	if file := f["file"]; !absent(file) {
		in, err := collect(file)
		if err == nil && absent(in["file_data"]) {
			err = c.external("a file that is not in the request")
		}
		if err == nil {
			err = c.addressed(in)
		}
		if err != nil {
			return err
		}
		delete(f, "file")
	}
	if err := c.attached(f, depth+1); err != nil {
		return err
	}
	return c.addressed(f)
}

// media are fields in which one server or another looks for pictures, sounds and files,
// beside those that the API's documentation has.
func media() []string {
	return []string{"image", "images", "video", "videos", "audio", "audios", "file", "files", "document", "documents", "attachment", "attachments"}
}

// attached checks such fields: they must hold the content itself.
func (c *checker) attached(f fields, depth int) error {
	if depth > maxNesting {
		return invalid("the content is too deep")
	}
	for _, name := range media() {
		v, ok := f[name]
		if !ok || empty(v) {
			continue
		}
		one := func(v jsontext.Value) error {
			switch {
			case v.Kind() == '{':
				return c.chatPart(v, depth)
			case !isData(v): // other texts may be names of what the provider has
				return c.external("content by %.40s", name)
			}
			return nil
		}
		check := one
		if v.Kind() == '[' {
			check = func(v jsontext.Value) error { return array(v, one) }
		}
		if err := check(v); err != nil {
			return err
		}
	}
	return nil
}

// linked checks an address, or an object with one: it must hold the content itself.
func (c *checker) linked(name string, v jsontext.Value) error {
	if absent(v) {
		return nil
	}
	if v.Kind() == '{' {
		in, err := collect(v, "url")
		if err != nil {
			return err
		}
		v = in["url"]
		delete(in, "url")
		if err := c.addressed(in); err != nil {
			return err
		}
	}
	if !isData(v) {
		return c.external("content by %.40s", name)
	}
	return nil
}

// below returns the paths of names that lie below another.
func below(path, names string) string {
	return path + strings.Join(strings.Fields(names), " "+path)
}
