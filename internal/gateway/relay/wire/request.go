// Package wire reads what an agent asks a provider and what the provider answers. It
// keeps the readers of these untrusted bytes apart from the relay, which has the key.
//
// Of a request it decides whether its body may go to the provider, and allows what it
// knows. Fields of the request itself that it does not know are left out, so that newer
// programs work: the provider cannot act on what it never sees. Everything else that is
// not known is refused. Of an answer it counts what it costs and redacts the secrets; it
// bounds what it keeps and believes no number that cannot be right.
package wire

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"securebench/internal/bounded"
)

// Policy says what requests may ask for.
type Policy struct {
	Models []string // at least one
	// External allows what the provider itself would run, fetch or keep: hosted
	// tools, content by address or file id, stored and background responses.
	External bool
}

// Asked is what a request says beside its body, in an API that has it there.
type Asked struct {
	Model  string
	Stream bool
}

// Request is one that may pass.
type Request struct {
	Body   []byte // to send
	Model  string
	Stream bool
	// Output bounds the tokens of the answer; 0 is no bound.
	Output int64
	// Answers is how many of them are asked for, if it is more than one.
	Answers int64
	// Dropped names fields that were left out of the body, at most [maxDropped].
	Dropped []string
	Hidden  bool // the answer has events that the agent has not asked for, see [Request.Plain]
}

// Plain returns the body without what asks for hidden events: some servers refuse that.
func (r Request) Plain() []byte {
	if !r.Hidden {
		return r.Body
	}
	return bytes.Replace(r.Body, []byte(askUsage), nil, 1)
}

// maxDropped is how many names of fields that were left out are kept.
const maxDropped = 20

// reason is why a request is refused, in a word.
type reason string

// The reasons.
const (
	invalidBody   reason = "invalid_body"
	unknownField  reason = "unknown_field"
	modelRefused  reason = "model_not_allowed"
	tierRefused   reason = "service_tier_not_allowed"
	externalTools reason = "external_tools_blocked"
)

// Refusal is the error of a request that may not pass. Its message is for the
// agent and quotes at most a name.
type Refusal struct {
	Reason  reason
	Message string
}

// refuse makes a refusal.
func refuse(reason reason, format string, args ...any) *Refusal {
	return &Refusal{reason, fmt.Sprintf(format, args...)}
}

// Error returns the message.
func (r *Refusal) Error() string { return r.Message }

// checker checks one request.
type checker struct {
	policy Policy
	asked  Asked
	out    Request
	kept   []member // of the request
	drops  bool     // not all are
}

// member is a field of the request that is kept.
type member struct {
	name  string
	value jsontext.Value
}

// fields checks every field of a request, by the name that names has for it, and returns
// the body without those that are left out.
func (c *checker) fields(body []byte, names func(string) (string, error), check field) ([]byte, error) {
	seen := map[string]bool{}
	err := whole(body, func(name string, v jsontext.Value) error {
		known, err := names(name)
		if err != nil {
			return err
		}
		if seen[known] {
			return invalid("the body has a repeated field")
		}
		seen[known] = true
		var other replaced
		switch err = check(known, v); {
		case errors.As(err, &other):
			c.drops = true
			if other.value != nil {
				c.kept = append(c.kept, member{name, other.value})
			}
			return nil
		case errors.Is(err, errUnknown):
			c.drops = true
			c.dropped(name)
			return nil
		case err == nil:
			c.kept = append(c.kept, member{name, v})
		}
		return err
	})
	if err != nil || !c.drops {
		return body, err
	}
	out := []byte{'{'}
	for i, f := range c.kept {
		if i > 0 {
			out = append(out, ',')
		}
		if out, err = jsontext.AppendQuote(out, f.name); err != nil {
			return nil, notJSON(err)
		}
		out = append(append(out, ':'), f.value...)
	}
	return append(out, '}'), nil
}

// dropped notes a field that is left out.
func (c *checker) dropped(name string) {
	if len(c.out.Dropped) < maxDropped {
		c.out.Dropped = append(c.out.Dropped, bounded.Text(name, 40))
	}
}

// errUnknown says that a field of the request is to be left out.
var errUnknown = errors.New("the field is not known")

// replaced says that a field has another value, or comes from the relay if that is nil.
type replaced struct{ value jsontext.Value }

// Error says so.
func (replaced) Error() string { return "the field is replaced" }

// insert adds a field, with a comma behind it, to an object that has at least one.
func insert(body []byte, field string) []byte {
	start := bytes.IndexByte(body, '{')
	return slices.Concat(body[:start+1], []byte(field), body[start+1:])
}

// common checks a field that several APIs have, and reports whether it is one.
func (c *checker) common(name string, v jsontext.Value) (bool, error) {
	switch name {
	case "model":
		model, _ := text(v)
		return true, c.model(model)
	case "stream":
		c.out.Stream = v.Kind() == 't'
		if k := v.Kind(); k != 't' && k != 'f' && k != 'n' {
			return true, invalid("stream is not true or false")
		}
	case "max_tokens", "max_output_tokens", "max_completion_tokens":
		c.bound(v)
		return false, nil
	case "service_tier", "speed":
		if absent(v) {
			return true, nil
		}
		tier, _ := text(v)
		return true, c.tier(name, tier)
	default:
		return false, nil
	}
	return true, nil
}

// model checks the name of a model.
func (c *checker) model(name string) error {
	if !slices.Contains(c.policy.Models, name) {
		return refuse(modelRefused, "the model %.80q is not the configured one", name)
	}
	c.out.Model = name
	return nil
}

// bound notes the most tokens of an answer. The provider refuses what is no number.
func (c *checker) bound(v jsontext.Value) {
	n, _ := strconv.ParseInt(string(v), 10, 64)
	c.out.Output = max(c.out.Output, n)
}

// tier checks how a request is served. Other tiers cost more than the configured price.
func (c *checker) tier(name, tier string) error {
	if !slices.Contains([]string{"auto", "default", "flex", "standard", "standard_only"}, tier) {
		return refuse(tierRefused, "the %s %.40q is not allowed", name, tier)
	}
	return nil
}

// external refuses what only the provider could do, unless that is allowed.
func (c *checker) external(format string, args ...any) error {
	if c.policy.External {
		return nil
	}
	return refuse(externalTools, format+" is not allowed here", args...)
}

// unknown leaves out a field of the request that is not known. The operator who
// allows what the provider runs gets all fields but those that name other models, which
// the configuration has not and which have no price there.
func (c *checker) unknown(name string, v jsontext.Value) error {
	switch {
	case !c.policy.External:
		return errUnknown
	case !absent(v) && (name == "models" || name == "route" || strings.Contains(name, "fallback")):
		return refuse(modelRefused, "%.40s would choose another model", name)
	}
	return nil
}

// finish returns the request, once all of its fields were checked.
func (c *checker) finish(body []byte) (Request, error) {
	if c.out.Model == "" {
		return Request{}, refuse(modelRefused, "the request names no model")
	}
	c.out.Body = body
	return c.out, nil
}

// fields collects some fields of an object, and those that name content outside
// the request.
type fields map[string]jsontext.Value

// collect reads an object. A field whose value is null is left out.
func collect(v jsontext.Value, names ...string) (fields, error) {
	out := fields{}
	err := object(v, func(name string, value jsontext.Value) error {
		if (slices.Contains(names, name) || leadsOut(name)) && value.Kind() != 'n' {
			out[name] = value
		}
		return nil
	})
	return out, err
}

// typed reads an object whose "type" says what it is. Its type is "" if it has none.
func typed(v jsontext.Value, names ...string) (f fields, kind string, err error) {
	if f, err = collect(v, append(names, "type")...); err != nil {
		return nil, "", err
	}
	t, ok := f["type"]
	if !ok {
		return f, "", nil
	}
	if kind, ok = text(t); !ok || kind == "" {
		return nil, "", invalid("a type is not a string")
	}
	return f, kind, nil
}
