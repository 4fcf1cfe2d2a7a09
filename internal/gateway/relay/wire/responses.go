package wire

import (
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// plainResponses are fields of the Responses API without content that needs a
// check. A field of a later API is left out until it is known to be harmless.
const plainResponses = " access_programs client_metadata context_management include max_output_tokens" +
	" max_tool_calls metadata parallel_tool_calls prompt_cache_key prompt_cache_retention reasoning" +
	" safety_identifier stream_options temperature text top_logprobs top_p truncation user "

// Responses is OpenAI's Responses API.
func Responses() *Dialect {
	return &Dialect{request: (*checker).responses, event: typedEvent, whole: typedWhole,
		places: places("delta", "type item_id output_index content_index summary_index", "")}
}

// responses checks a request. The provider keeps responses unless told otherwise, so an
// absent "store" becomes false.
func (c *checker) responses(body []byte) ([]byte, error) {
	stored := false // the field is there
	body, err := c.fields(body, lowered, func(name string, v jsontext.Value) error {
		if known, err := c.common(name, v); known {
			return err
		}
		switch name {
		case "store":
			stored = true
			if v.Kind() != 'f' {
				return c.external("store that is not false")
			}
		case "background", "previous_response_id", "conversation", "prompt":
			if !empty(v) {
				return c.external("%s", name)
			}
		case "tools":
			return c.openaiTools(v, 0)
		case "tool_choice":
			return c.toolChoice(v)
		case "input":
			return c.input(v)
		case "instructions": // a text, and with some providers items
			if absent(v) {
				return nil
			}
			return c.input(v)
		default:
			if !strings.Contains(plainResponses, " "+name+" ") {
				return c.unknown(name, v)
			}
		}
		return nil
	})
	if err == nil && !stored && c.out.Model != "" { // or else it is refused
		body = insert(body, `"store":false,`)
	}
	return body, err
}

// openaiTools checks a list of tools, also inside namespaces.
func (c *checker) openaiTools(v jsontext.Value, depth int) error {
	if absent(v) {
		return nil
	}
	if depth > maxNesting {
		return invalid("the tools are nested too deeply")
	}
	return array(v, func(tool jsontext.Value) error {
		f, kind, err := typed(tool, "tools", "execution", "environment")
		if err != nil {
			return err
		}
		switch kind {
		case "function", "custom", "local_shell", "apply_patch":
		case "namespace":
		case "tool_search":
			if where, _ := text(f["execution"]); where != "client" {
				return c.external("a tool_search that the client does not run")
			}
		case "shell":
			if where, err := environment(f["environment"]); err != nil || where != "local" {
				return c.external("a shell that the client does not run")
			}
		default:
			return c.external("a tool of the type %.40q", kind)
		}
		return c.openaiTools(f["tools"], depth+1)
	})
}

// environment returns where a shell runs.
func environment(v jsontext.Value) (string, error) {
	_, kind, err := typed(v)
	return kind, err
}

// toolChoice checks which tools the model is told to use.
func (c *checker) toolChoice(v jsontext.Value) error {
	if v.Kind() != '{' {
		return nil
	}
	f, kind, err := typed(v, "tools")
	if err != nil {
		return err
	}
	if kind == "allowed_tools" {
		return c.openaiTools(f["tools"], 0)
	}
	if !slices.Contains([]string{"function", "custom", "local_shell", "shell", "apply_patch"}, kind) {
		return c.external("a tool choice of the type %.40q", kind)
	}
	return nil
}

// items are the input items that name nothing outside the request. One without
// a type and with a role is a message.
const items = "  message function_call function_call_output custom_tool_call custom_tool_call_output local_shell_call" +
	" local_shell_call_output shell_call shell_call_output apply_patch_call apply_patch_call_output reasoning" +
	" compaction compaction_summary compaction_trigger context_compaction agent_message additional_tools" +
	" tool_search_call tool_search_output "

func (c *checker) input(v jsontext.Value) error {
	if v.Kind() == '"' {
		return nil
	}
	return array(v, func(item jsontext.Value) error {
		f, kind, err := typed(item, append(carriers(), "role", "id")...)
		if err != nil {
			return err
		}
		if !strings.Contains(items, " "+kind+" ") {
			return c.external("an input item of the type %.40q", kind)
		}
		if err := c.referred(kind, f); err != nil {
			return err
		}
		if err := c.openaiTools(f["tools"], 0); err != nil {
			return err
		}
		if err := c.addressed(f); err != nil {
			return err
		}
		for _, name := range []string{"content", "output", "summary"} {
			if err := c.parts(f[name]); err != nil {
				return err
			}
		}
		return nil
	})
}

// parts checks the content of an item: a text or a list of parts.
func (c *checker) parts(v jsontext.Value) error {
	if v.Kind() != '[' {
		if k := v.Kind(); len(v) == 0 || k == '"' || k == 'n' {
			return nil
		}
		return c.external("content that is neither text nor a list")
	}
	return array(v, func(part jsontext.Value) error {
		f, kind, err := typed(part, "tools", "input_audio")
		if err != nil {
			return err
		}
		switch kind {
		case "input_text", "output_text", "text", "refusal", "summary_text", "reasoning_text", "encrypted_content",
			"input_image", "input_file", "input_audio":
		case "": // what a shell printed
		default:
			return c.external("content of the type %.40q", kind)
		}
		if err := c.openaiTools(f["tools"], 0); err != nil {
			return err
		}
		if err := c.audio(f["input_audio"]); err != nil {
			return err
		}
		return c.addressed(f)
	})
}

// audio checks where the bytes of sounds are.
func (c *checker) audio(v jsontext.Value) error {
	if absent(v) {
		return nil
	}
	f, err := collect(v, "data")
	if err != nil {
		return err
	}
	if data, ok := f["data"]; ok && !isBase64(data) && !isData(data) {
		return c.external("audio by address")
	}
	return c.addressed(f)
}
