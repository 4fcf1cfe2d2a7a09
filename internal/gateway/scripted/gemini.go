package scripted

import (
	"net/http"
	"strings"
)

// geminiModels is where Gemini's models are, in the two versions of its API.
func geminiModels() []string { return []string{"/v1beta/models/", "/v1/models/"} }

// askedGemini reads the path of a request of Gemini's API, which has the model in it, and
// what is asked of it.
func (r *Request) askedGemini() bool {
	for _, root := range geminiModels() {
		if (r.Path+"/" == root || strings.HasPrefix(r.Path, root)) && r.Method == http.MethodGet && root != modelsPath+"/" {
			r.API = gemini
			return true
		}
		rest, ok := strings.CutPrefix(r.Path, root)
		model, action, found := strings.Cut(rest, ":")
		if !ok || !found || r.Method != http.MethodPost {
			continue
		}
		switch action {
		case "generateContent", "countTokens":
		case "streamGenerateContent":
			r.Stream = true
		default:
			return false
		}
		r.API, r.Model = gemini, model
		return true
	}
	return false
}

// geminiModel is a model as Gemini's API lists it.
func geminiModel(name string) any {
	return map[string]any{"name": "models/" + name, "supportedGenerationMethods": []string{"generateContent", "countTokens"}}
}

// contentJSON is a message of Gemini's API.
type contentJSON struct {
	Role  string `json:"role"`
	Parts []struct {
		Text string `json:"text"`
	} `json:"parts"`
}

// item returns a message as the other APIs have it.
func (c contentJSON) item() itemJSON {
	out := itemJSON{Role: c.Role}
	for _, p := range c.Parts {
		out.Content += anyText(p.Text + "\n")
	}
	return out
}

// geminiTools are tools of Gemini's API: functions, and others by name alone.
type geminiTools struct {
	Functions []toolJSON `json:"functionDeclarations"`
	Snake     []toolJSON `json:"function_declarations"`
}

// geminiEvents returns the events of an answer of Gemini's API.
func (r *Request) geminiEvents(text string, t Turn, calls []call, u Usage) ([]event, any) {
	usage := map[string]any{"promptTokenCount": u.Input, "candidatesTokenCount": u.Output - u.Reasoning, "thoughtsTokenCount": u.Reasoning,
		"cachedContentTokenCount": u.Cached, "totalTokenCount": u.Input + u.Output}
	answer := func(parts []any, finish string) event {
		candidate := map[string]any{"content": map[string]any{"role": "model", "parts": parts}, "index": 0}
		if finish != "" {
			candidate["finishReason"] = finish
		}
		e := event{"candidates": []any{candidate}, "modelVersion": r.Model, "responseId": r.id("resp", 0)}
		if !u.Omit {
			e["usageMetadata"] = usage
		}
		return e
	}
	finish := "STOP"
	switch {
	case t.Refusal != "":
		finish, text = "SAFETY", t.Refusal
	case t.Stop == stopLength:
		finish = "MAX_TOKENS"
	}
	var events []event
	all := []any{}
	for _, piece := range pieces(text) {
		events = append(events, answer([]any{map[string]any{"text": piece}}, ""))
	}
	if text != "" {
		all = append(all, map[string]any{"text": text})
	}
	last := []any{}
	for i, c := range calls {
		last = append(last, map[string]any{"functionCall": map[string]any{"id": r.id("call", i), "name": c.name, "args": jsonOf(c.input)}})
	}
	events = append(events, answer(last, finish))
	return events, map[string]any(answer(append(all, last...), finish))
}

// geminiError is an error of Gemini's API.
func geminiError(status int, kind, text string) any {
	words := map[int]string{400: "INVALID_ARGUMENT", 401: "UNAUTHENTICATED", 403: "PERMISSION_DENIED", 404: "NOT_FOUND", 429: "RESOURCE_EXHAUSTED", 503: "UNAVAILABLE"}
	e := map[string]any{"code": status, "message": text, "status": "INTERNAL"}
	if word := words[status]; word != "" {
		e["status"] = word
	}
	if kind == "authentication_error" {
		e["details"] = []any{map[string]any{"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "API_KEY_INVALID"}}
	}
	return map[string]any{"error": e}
}
