package wire

import (
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// Gemini is Google's API for its models. The model, and whether the answer is a stream,
// are in the path.
func Gemini() *Dialect {
	const parts = "candidates.content.parts."
	values := places("", "", geminiValues)
	return &Dialect{request: (*checker).gemini, event: func(*meter, []byte, []byte) {}, value: (*meter).gemini,
		whole: func(m *meter, body []byte) bool { return geminiWhole(m, values, body) },
		places: places(below(parts, "text executableCode.code functionCall.partialArgs.stringValue"),
			"candidates.index "+below(parts, "thought functionCall.partialArgs.jsonPath"), geminiValues)}
}

// googleName returns a name as it is compared. Google's APIs take a field by two names,
// such as inlineData and inline_data.
func googleName(name string) (string, error) {
	if strings.ContainsFunc(name, func(r rune) bool {
		return r != '_' && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9')
	}) {
		return "", refuse(unknownField, "the field %.40q is not known", name)
	}
	return strings.ToLower(strings.ReplaceAll(name, "_", "")), nil
}

// google calls each for every field of an object that is not null, by the name that
// [googleName] has for it. A field comes once, whatever it is called.
func google(v jsontext.Value, each func(name string, value jsontext.Value) error) error {
	seen := map[string]bool{}
	return walk(v, '{', "an object was expected", func(s *scanner) error {
		quoted := s.value()
		name, ok := text(quoted)
		if !ok || !s.Skip(':') {
			return errScan
		}
		value := s.value()
		if value == nil {
			return errScan
		}
		name, err := googleName(name)
		if err != nil {
			return err
		}
		if seen[name] {
			return invalid("the body has a repeated field")
		}
		if seen[name] = true; value.Kind() == 'n' {
			return nil
		}
		return each(name, value)
	})
}

// several calls each for every element of an array. Google's APIs take an object where a
// list of one is meant.
func several(v jsontext.Value, each func(value jsontext.Value) error) error {
	if v.Kind() == '{' {
		return each(v)
	}
	return array(v, each)
}

// gemini checks a request.
func (c *checker) gemini(body []byte) ([]byte, error) {
	if err := c.model(c.asked.Model); err != nil {
		return nil, err
	}
	c.out.Stream = c.asked.Stream
	return c.fields(body, googleName, c.geminiField)
}

// geminiField checks a field of a request.
func (c *checker) geminiField(name string, v jsontext.Value) error {
	if absent(v) {
		return nil
	}
	switch name {
	case "contents":
		return several(v, c.geminiContent)
	case "systeminstruction":
		return c.geminiContent(v)
	case "tools":
		return several(v, c.geminiTool)
	case "toolconfig":
		return google(v, func(name string, v jsontext.Value) error {
			if name != "functioncallingconfig" && !empty(v) {
				return c.external("%.40q of the tools", name)
			}
			return nil
		})
	case "generationconfig":
		return c.generation(v)
	case "safetysettings":
		return nil
	case "model":
		name, _ := text(v)
		return c.model(strings.TrimPrefix(name, "models/"))
	case "servicetier":
		tier, _ := text(v)
		return c.tier(name, strings.TrimPrefix(strings.ToLower(tier), "service_tier_"))
	case "generatecontentrequest": // of which the tokens are counted
		return c.within("generateContentRequest", v, func(name string, v jsontext.Value) error {
			if name == "generatecontentrequest" { // or each level would read all below it again
				return invalid("a request lies in another")
			}
			return c.geminiField(name, v)
		})
	case "cachedcontent", "store":
		if !empty(v) && string(v) != `""` {
			return c.external("%s", name)
		}
		return nil
	}
	return c.unknown(name, v)
}

// geminiContent checks what somebody said.
func (c *checker) geminiContent(v jsontext.Value) error {
	return google(v, func(name string, v jsontext.Value) error {
		switch name {
		case "role":
			return nil
		case "parts":
			return several(v, func(part jsontext.Value) error { return c.geminiPart(part, 0) })
		}
		return c.stranger(name, "content")
	})
}

// stranger refuses a field within the request that is not known: it cannot be left out.
func (c *checker) stranger(name, where string) error {
	if c.policy.External {
		return nil
	}
	return refuse(unknownField, "the field %.40q is not known in %s", name, where)
}

// geminiPart checks a part of what somebody said.
func (c *checker) geminiPart(v jsontext.Value, depth int) error {
	return google(v, func(name string, v jsontext.Value) error {
		switch name {
		case "text", "thought", "thoughtsignature", "functioncall", "videometadata", "mediaresolution", "partmetadata":
			return nil
		case "inlinedata":
			return c.inline(v)
		case "functionresponse":
			return google(v, func(name string, v jsontext.Value) error {
				if name != "parts" {
					return nil
				}
				if depth++; depth > maxNesting {
					return invalid("the content is too deep")
				}
				return several(v, func(part jsontext.Value) error { return c.geminiPart(part, depth) })
			})
		case "filedata", "executablecode", "codeexecutionresult", "toolcall", "toolresponse":
			return c.external("content by %s", name)
		}
		return c.stranger(name, "a part")
	})
}

// inline checks content that is in the request.
func (c *checker) inline(v jsontext.Value) error {
	return google(v, func(name string, v jsontext.Value) error {
		switch name {
		case "data":
			if !isBase64(v) {
				return c.external("content that is not in the request")
			}
			return nil
		case "mimetype", "displayname":
			return nil
		}
		return c.stranger(name, "inline data")
	})
}

// geminiTool checks a tool: the client runs functions, and the provider all others.
func (c *checker) geminiTool(v jsontext.Value) error {
	return google(v, func(name string, v jsontext.Value) error {
		if name == "functiondeclarations" || empty(v) {
			return nil
		}
		return c.external("the tool %.40q", name)
	})
}

// plainGeneration are settings of an answer without content that needs a check.
const plainGeneration = " audiotimestamp candidatecount enableenhancedcivicanswers frequencypenalty logprobs maxoutputtokens mediaresolution" +
	" presencepenalty responsejsonschema responselogprobs responsemimetype responsemodalities responseschema seed" +
	" stopsequences temperature thinkingconfig topk topp "

// generation checks the settings of an answer. Those that are not known are left out.
func (c *checker) generation(v jsontext.Value) error {
	return c.within("generationConfig", v, func(name string, v jsontext.Value) error {
		if absent(v) {
			return nil
		}
		switch name {
		case "candidatecount":
			return c.answers(jsontext.Value(strings.Trim(string(v), `"`))) // numbers may be texts
		case "maxoutputtokens":
			c.bound(jsontext.Value(strings.Trim(string(v), `"`)))
		case "responsemodalities":
			return c.modalities(v, "TEXT")
		case "speechconfig", "imageconfig":
			return c.external("%s", name)
		case "routingconfig", "modelconfig", "modelselectionconfig":
			return refuse(modelRefused, "%s would choose another model", name)
		}
		if !strings.Contains(plainGeneration, " "+name+" ") {
			return c.unknown(name, v)
		}
		return nil
	})
}

// within checks the fields of an object in the request. Those that are not known are left
// out, as those of the request itself are.
func (c *checker) within(where string, v jsontext.Value, check field) error {
	in := &checker{policy: c.policy}
	out, err := in.fields(v, googleName, check)
	if err != nil {
		return err
	}
	for _, name := range in.out.Dropped {
		c.dropped(where + "." + name)
	}
	if in.drops {
		return replaced{out}
	}
	return nil
}
