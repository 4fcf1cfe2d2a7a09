package wire

import (
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"securebench/internal/lazyregexp"
)

// plainMessages are fields of the Messages API without content that needs a
// check.
const plainMessages = " cache_control context_management diagnostics max_tokens metadata output_config output_format" +
	" stop_sequences temperature thinking tool_choice top_k top_p "

// clientTool matches the types of Anthropic's tools that the client runs. Tools
// without a type, or of the type "custom", are the client's own.
var clientTool = lazyregexp.New(`^(custom|(bash|text_editor|computer|memory)_[0-9]{8})$`)

// Messages is Anthropic's Messages API, and its counting of tokens.
func Messages() *Dialect {
	return &Dialect{request: (*checker).messages, event: typedEvent, whole: typedWhole,
		places: places("delta.text delta.partial_json delta.thinking delta.signature", "type index", "")}
}

// messages checks a request.
func (c *checker) messages(body []byte) ([]byte, error) {
	return c.fields(body, lowered, func(name string, v jsontext.Value) error {
		if known, err := c.common(name, v); known {
			return err
		}
		switch name {
		case "mcp_servers", "container":
			if !empty(v) {
				return c.external("%s", name)
			}
		case "tools":
			return c.anthropicTools(v)
		case "system":
			return c.blocks(v, 0)
		case "messages":
			return array(v, func(message jsontext.Value) error {
				return c.message(message)
			})
		default:
			if !strings.Contains(plainMessages, " "+name+" ") {
				return c.unknown(name, v)
			}
		}
		return nil
	})
}

func (c *checker) anthropicTools(v jsontext.Value) error {
	if absent(v) {
		return nil
	}
	return array(v, c.anthropicTool)
}

func (c *checker) anthropicTool(tool jsontext.Value) error {
	_, kind, err := typed(tool)
	if err != nil {
		return err
	}
	if kind != "" && !clientTool.MatchString(kind) {
		return c.external("a tool of the type %.40q", kind)
	}
	return nil
}

// message checks a message. What belongs to the whole request has no place in
// one.
func (c *checker) message(v jsontext.Value) error {
	f, err := collect(v, "content", "container", "mcp_servers", "model", "tools")
	if err != nil {
		return err
	}
	for name := range f {
		if name != "content" && !c.policy.External {
			return refuse(unknownField, "the field %.40q is not known in a message", name)
		}
	}
	return c.blocks(f["content"], 0)
}

// addition checks the tool that a message adds to the conversation.
func (c *checker) addition(v jsontext.Value) error {
	f, kind, err := typed(v, "definition")
	if err != nil {
		return err
	}
	definition, defined := f["definition"]
	switch {
	case kind == "tool_reference" && !defined:
		return nil
	case kind == "tool_definition" && defined:
		return c.anthropicTool(definition)
	}
	return c.external("a tool by a %.40q", kind)
}

// blocks checks content: a text, or a list of blocks. Blocks of results hold
// content of their own.
func (c *checker) blocks(v jsontext.Value, depth int) error {
	if k := v.Kind(); len(v) == 0 || k == '"' || k == 'n' {
		return nil
	}
	if depth > maxNesting {
		return invalid("the content is too deep")
	}
	return array(v, func(block jsontext.Value) error {
		f, kind, err := typed(block, "source", "content", "tool")
		if err != nil {
			return err
		}
		if err := c.addressed(f); err != nil {
			return err
		}
		switch kind {
		case "text", "thinking", "redacted_thinking", "tool_use", "tool_reference", "tool_removal":
			return nil
		case "tool_addition":
			return c.addition(f["tool"])
		case "image", "document":
			return c.source(f, depth)
		case "tool_result", "search_result", "compaction":
			return c.blocks(f["content"], depth+1)
		}
		return c.external("content of the type %.40q", kind)
	})
}

// source checks where the bytes of an image or a document come from.
func (c *checker) source(block fields, depth int) error {
	f, kind, err := typed(block["source"], "content", "data")
	if err != nil {
		return err
	}
	if err := c.addressed(f); err != nil {
		return err
	}
	data, ok := f["data"]
	switch {
	case kind != "base64" && kind != "text" && kind != "content",
		kind == "base64" && ok && !isBase64(data) && !isData(data):
		return c.external("content from a source of the type %.40q", kind)
	}
	if kind == "content" {
		return c.blocks(f["content"], depth+1)
	}
	return nil
}
