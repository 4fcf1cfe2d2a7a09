package scripted

import (
	"cmp"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"securebench/internal/lazyregexp"
)

// API is the protocol of a request.
type API string

// The protocols.
const (
	responses API = "openai_responses"
	chat      API = "openai_chat"
	messages  API = "anthropic_messages"
	gemini    API = "gemini"
)

// Request is what the server recorded of a request.
type Request struct {
	At          time.Time
	API         API // "" for none of them
	Method      string
	Path        string
	Query       string
	Header      http.Header
	Body        []byte   // decoded
	Credentials []string // that it carried
	Model       string
	Stream      bool
	Tools       []Tool
	// Conversation names the script's conversation, by what it matches; Turn is its
	// turn from 1, and Try counts the requests of this turn from 1.
	Conversation string
	Turn, Try    int
	Status       int
	// Refused says what a provider would not accept, "" if nothing.
	Refused string

	unbilled bool // the answer says nothing about what it used
}

// Tool is a tool that a request declares.
type Tool struct {
	Type      string // "client" for the messages API's tools without a type
	Namespace string
	Name      string
	Takes     []string // names of its arguments
}

// toolJSON is a tool of any API. Only chat Completions has its name one level
// deeper.
type toolJSON struct {
	Type     string     `json:"type"`
	Name     string     `json:"name"`
	Tools    []toolJSON `json:"tools"`
	Function struct {
		Name       string     `json:"name"`
		Parameters properties `json:"parameters"`
	} `json:"function"`
	Parameters  properties `json:"parameters"`
	JSONSchema  properties `json:"parametersJsonSchema"`
	InputSchema properties `json:"input_schema"`
	geminiTools
}

// itemJSON is an input item of the responses API, or a message of the others.
type itemJSON struct {
	Type    string     `json:"type"`
	Role    string     `json:"role"`
	CallID  string     `json:"call_id"`
	Content anyText    `json:"content"`
	Tools   []toolJSON `json:"tools"`
}

// bodyJSON is the part of a body that a script needs.
type bodyJSON struct {
	Model        string        `json:"model"`
	Stream       bool          `json:"stream"`
	Tools        []toolJSON    `json:"tools"`
	Input        items         `json:"input"`
	Contents     []contentJSON `json:"contents"`
	Messages     []itemJSON    `json:"messages"`
	MaxTokens    int64         `json:"max_tokens"`
	Conversation string        `json:"prompt_cache_key"`
	Metadata     struct {
		UserID string `json:"user_id"`
	} `json:"metadata"`
	StreamOptions struct {
		Usage bool `json:"include_usage"`
	} `json:"stream_options"`
}

// items is a list of items, or a text.
type items []itemJSON

// UnmarshalJSON reads either.
func (s *items) UnmarshalJSON(b []byte) error {
	if len(b) > 0 && b[0] == '"' {
		*s = items{{Type: "message", Role: "user"}}
		return json.Unmarshal(b, &(*s)[0].Content)
	}
	return json.Unmarshal(b, (*[]itemJSON)(s))
}

// anyText is the text of content: a string, or blocks with texts.
type anyText string

// UnmarshalJSON reads either.
func (t *anyText) UnmarshalJSON(b []byte) error {
	if len(b) > 0 && b[0] == '"' {
		return json.Unmarshal(b, (*string)(t))
	}
	var blocks []struct {
		Text      string `json:"text"`
		Encrypted string `json:"encrypted_content"`
	}
	if err := json.Unmarshal(b, &blocks); err != nil {
		return nil // content of another kind has no text
	}
	for _, block := range blocks {
		*t += anyText(block.Text + block.Encrypted + "\n")
	}
	return nil
}

// read fills in what the body says, and returns the body.
func (r *Request) read() (*bodyJSON, error) {
	var b bodyJSON
	if err := json.Unmarshal(r.Body, &b); err != nil {
		return nil, fmt.Errorf("the body is not JSON of this API: %w", err)
	}
	if r.API == gemini { // whose path says it
		b.Model, b.Stream = r.Model, r.Stream
	}
	for _, c := range b.Contents {
		b.Messages = append(b.Messages, c.item())
	}
	r.Model, r.Stream, r.unbilled = b.Model, b.Stream, r.API == chat && b.Stream && !b.StreamOptions.Usage
	r.addTools("", b.Tools)
	for _, item := range b.Input {
		if item.Type == "additional_tools" {
			r.addTools("", item.Tools)
		}
	}
	return &b, nil
}

func (r *Request) addTools(namespace string, tools []toolJSON) {
	for _, t := range tools {
		if t.Type == "namespace" {
			r.addTools(t.Name, t.Tools)
			continue
		}
		if functions := append(t.Functions, t.Snake...); r.API == gemini {
			for _, f := range functions {
				r.Tools = append(r.Tools, Tool{"client", "", f.Name, f.takes()})
			}
			continue
		}
		if t.Type == "" {
			t.Type = "client"
		}
		r.Tools = append(r.Tools, Tool{t.Type, namespace, cmp.Or(t.Name, t.Function.Name), t.takes()})
	}
}

// takes are the names of the arguments of a tool.
func (t toolJSON) takes() []string {
	return slices.Concat(t.Parameters, t.JSONSchema, t.InputSchema, t.Function.Parameters)
}

// tool returns the first declared tool with one of the names.
func (r *Request) tool(names ...string) (Tool, bool) {
	for _, name := range names {
		i := slices.IndexFunc(r.Tools, func(t Tool) bool { return t.Name == name || t.Name == "" && t.Type == name })
		if i >= 0 {
			return r.Tools[i], true
		}
	}
	return Tool{}, false
}

// prompt is what the user said, or the agent that started this one, as opposed
// to tools and the model.
func (b *bodyJSON) prompt() string {
	var out strings.Builder
	for _, item := range append(slices.Clone(b.Messages), b.Input...) {
		if item.Role == "user" || item.Type == "agent_message" {
			out.WriteString(string(item.Content))
		}
	}
	return out.String()
}

// mark is put into the identifiers of tool calls. Its number is that of a turn.
var mark = lazyregexp.New(`scripted-turn-([0-9]{1,6})`)

// turn returns the number of the last turn that the conversation has had.
func (r *Request) turn() int {
	last := 0
	for _, m := range mark.FindAllSubmatch(r.Body, -1) {
		if n, err := strconv.Atoi(string(m[1])); err == nil {
			last = max(last, n)
		}
	}
	return last
}

// compacts reports whether the agent asks for a summary of its conversation,
// which must go on at the same turn.
func (b *bodyJSON) compacts() bool {
	all := append(slices.Clone(b.Messages), b.Input...)
	return len(all) > 0 && len(b.Tools) == 0 && strings.Contains(string(all[len(all)-1].Content), "CONTEXT CHECKPOINT COMPACTION")
}

// credentials returns what a request authenticates with.
func credentials(h http.Header, query url.Values) []string {
	out := append(slices.Clone(query["key"]), h.Values("X-Goog-Api-Key")...)
	for _, v := range h.Values("Authorization") {
		out = append(out, strings.TrimSpace(strings.TrimPrefix(v, "Bearer ")))
	}
	return append(out, h.Values("X-Api-Key")...)
}
