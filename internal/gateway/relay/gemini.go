package relay

import (
	"net/http"
	"net/url"
	"strings"

	"securebench/internal/gateway/relay/steps"
	"securebench/internal/gateway/relay/wire"
)

// pathGemini is the path below which Google's models lie, in the version of the API that
// its own libraries use; some of them use /v1.
const pathGemini = "/v1beta/models"

// gemini is Google's API for its models.
func gemini() *dialect {
	return &dialect{
		api: Gemini, name: "Gemini's API", wire: wire.Gemini(), steps: steps.Gemini(), served: "POST " + pathGemini + "/MODEL:generateContent",
		route: routeGemini, query: queryGemini, needs: ": a stream needs alt=sse, and nothing else has a place in it",
		passed: "User-Agent X-Goog-Api-Client", accept: "text/event-stream",
		stops: http.StatusForbidden, tooLarge: http.StatusRequestEntityTooLarge,
		refusal: func(status int, why reason, message string) any {
			code := "PERMISSION_DENIED"
			if status == http.StatusRequestEntityTooLarge {
				code = "INVALID_ARGUMENT"
			}
			return map[string]any{"error": map[string]any{"code": status, "message": message, "status": code, "details": []any{
				map[string]any{"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": string(why), "domain": "securebench"},
			}}}
		},
		probe: func(model string) (string, map[string]any) {
			return pathGemini + "/" + url.PathEscape(model) + ":generateContent", map[string]any{
				"contents":         []any{map[string]any{"role": "user", "parts": []any{map[string]any{"text": "Say OK."}}}},
				"generationConfig": map[string]any{"maxOutputTokens": 16},
			}
		},
		list: listGemini,
	}
}

// routeGemini says what a path of Google's API asks for: it has the model in it, and what
// is asked of it.
func routeGemini(method, path string) (endpoint, bool) {
	root, rest, ok := strings.Cut(path, "/models")
	if !ok || root != "/v1" && root != "/v1beta" {
		return endpoint{}, false
	}
	if rest == "" {
		return endpoint{kind: lists}, method == http.MethodGet
	}
	i := strings.LastIndexByte(rest, ':')
	if i < 0 || method == http.MethodGet {
		i = len(rest)
	}
	name, err := url.PathUnescape(strings.TrimPrefix(rest[:i], "/"))
	if err != nil || name == "" || rest[0] != '/' {
		return endpoint{}, false
	}
	e := endpoint{asked: wire.Asked{Model: name}, target: pathGemini + "/" + url.PathEscape(name) + rest[i:]}
	switch method + " " + rest[i:] {
	case "GET ":
		e.kind = lists
	case "POST :generateContent":
		e.kind = asks
	case "POST :streamGenerateContent":
		e.kind, e.asked.Stream = asks, true
	case "POST :countTokens":
		e.kind = counts
	default:
		return endpoint{}, false
	}
	return e, true
}

// queryGemini checks a query: it may have the form of the answer, which is that of events
// for a stream, and the key, which does not go on.
func queryGemini(e endpoint, query string) (sent string, credentials []string, ok bool) {
	fields, err := url.ParseQuery(query)
	if err != nil {
		return "", nil, false
	}
	form := "json"
	if e.asked.Stream {
		form = "sse"
	}
	ok = !e.asked.Stream || len(fields["alt"]) == 1
	for name, values := range fields {
		switch {
		case name == "key":
			credentials = values
		case name != "alt" || len(values) > 1 || values[0] != form:
			ok = false
		}
	}
	if e.asked.Stream {
		sent = "alt=sse"
	}
	return sent, credentials, ok
}

// listGemini has the models in the form of Google's API.
func listGemini(models []string, asked string) any {
	type model struct {
		Name    string   `json:"name"`
		Title   string   `json:"displayName"`
		Actions []string `json:"supportedGenerationMethods"`
	}
	var all []model
	for _, id := range models {
		m := model{"models/" + id, id, []string{"generateContent", "countTokens"}}
		if id == asked {
			return m
		}
		all = append(all, m)
	}
	return map[string]any{"models": all}
}
