package model

import (
	"slices"

	"github.com/go-json-experiment/json/jsontext"

	"securebench/internal/agent/harness"
	"securebench/internal/gateway/upstream"
)

func askGemini(set harness.Model, q Question) any {
	type thinking struct {
		Level string `json:"thinkingLevel"`
	}
	type settings struct {
		MaxTokens   int64          `json:"maxOutputTokens,omitzero"`
		Seed        *int64         `json:"seed,omitzero"`
		Stop        []string       `json:"stopSequences,omitzero"`
		Temperature *float64       `json:"temperature,omitzero"`
		Thinking    thinking       `json:"thinkingConfig,omitzero"`
		Form        jsontext.Value `json:"responseJsonSchema,omitzero"`
		Type        string         `json:"responseMimeType,omitzero"`
	}
	type tool struct {
		Functions []geminiFunction `json:"functionDeclarations"`
	}
	var r struct {
		Contents []geminiContent `json:"contents"`
		System   geminiContent   `json:"systemInstruction,omitzero"`
		Settings settings        `json:"generationConfig,omitzero"`
		Tools    []tool          `json:"tools,omitzero"`
	}
	parts := []any{object{"text": q.User}}
	if q.Parts != nil {
		parts = contentOf(q.Parts, func(text string) any { return object{"text": text} }, func(p harness.Part) any {
			return object{"inlineData": object{"data": p.Data, "mimeType": p.Type}}
		})
	}
	for _, x := range q.Examples {
		r.Contents = append(r.Contents, geminiContent{[]any{object{"text": x.User}}, "user"}, geminiContent{[]any{object{"text": x.Assistant}}, "model"})
	}
	r.Contents = append(r.Contents, geminiContent{parts, "user"})
	if q.System != "" {
		r.System.Parts = []any{object{"text": q.System}}
	}
	r.Settings = settings{MaxTokens: set.MaxTokens, Seed: seed(set, q), Stop: set.Stop, Temperature: set.Temperature, Thinking: thinking{set.Effort}}
	if q.Form != nil {
		r.Settings.Form, r.Settings.Type = q.Form.Schema, "application/json"
	}
	if len(q.Tools) > 0 {
		r.Tools = []tool{{geminiFunctions(q.Tools)}}
	}
	return r
}

// geminiContent is what somebody says.
type geminiContent struct {
	Parts []any  `json:"parts"`
	Role  string `json:"role,omitzero"`
}

// geminiFunction is a tool as the API has it.
type geminiFunction struct {
	Name        string         `json:"name"`
	Description string         `json:"description,omitzero"`
	Schema      jsontext.Value `json:"parametersJsonSchema"`
}

func geminiFunctions(tools []harness.Tool) (out []geminiFunction) {
	for _, t := range tools {
		out = append(out, geminiFunction{t.Name, t.Description, t.Parameters})
	}
	return out
}

// generated is an answer of Gemini's API, or a piece of one.
type generated struct {
	Model      string `json:"modelVersion"`
	Candidates []struct {
		Content struct {
			Parts []struct {
				Text    upstream.Text `json:"text"`
				Thought bool          `json:"thought"`
				Call    struct {
					Name upstream.Text  `json:"name"`
					Args jsontext.Value `json:"args"`
				} `json:"functionCall"`
			} `json:"parts"`
		} `json:"content"`
		Finish string `json:"finishReason"`
	} `json:"candidates"`
	Feedback struct {
		Blocked string `json:"blockReason"`
	} `json:"promptFeedback"`
	Usage struct {
		Prompt   count `json:"promptTokenCount"`
		Cached   count `json:"cachedContentTokenCount"`
		Output   count `json:"candidatesTokenCount"`
		Thoughts count `json:"thoughtsTokenCount"`
	} `json:"usageMetadata"`
}

// usage returns what the answer used so far. Google's output does not include the thoughts.
func (g *generated) usage() Usage {
	u := g.Usage
	return Usage{Input: int64(u.Prompt), Cached: int64(u.Cached), Output: int64(u.Output + u.Thoughts), Reasoning: int64(u.Thoughts)}
}

// blocks reports whether a filter of Google's has ended an answer.
func blocks(stop string) bool {
	return slices.Contains([]string{"SAFETY", "RECITATION", "LANGUAGE", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII"}, stop)
}

func wholeGemini(body []byte) (Answer, bool) {
	s := stream{say: func(string) {}}
	if geminiEvent(&s, body) != nil || !s.complete {
		return Answer{}, false
	}
	s.Text, s.Reasoning, s.calls = s.text.String(), s.reasoning.String(), s.pending.all()
	return s.Answer, true
}

func geminiEvent(s *stream, data []byte) error {
	var g generated
	if err := upstream.Decode(data, &g); err != nil {
		return err
	}
	if g.Model != "" {
		s.Model = g.Model
	}
	if u := g.usage(); u.Input > 0 || u.Output > 0 {
		s.Usage = u
	}
	if g.Feedback.Blocked != "" {
		s.Stop, s.Declined, s.complete = g.Feedback.Blocked, true, true
	}
	for _, c := range g.Candidates {
		for _, p := range c.Content.Parts {
			switch {
			case p.Call.Name != "":
				n := int64(len(s.pending.list)) // a call comes whole
				s.pending.piece(&n, "", p.Call.Name, upstream.Text(p.Call.Args))
			case p.Thought:
				s.reasoning.WriteString(string(p.Text))
			default:
				s.add(p.Text)
			}
		}
		if c.Finish != "" {
			s.Stop, s.Declined, s.complete = c.Finish, s.Declined || blocks(c.Finish), true
		}
	}
	return nil
}
