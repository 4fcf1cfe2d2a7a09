package harness

import (
	"slices"
	"strings"

	"securebench/internal/gateway/access"
	"securebench/internal/lazyregexp"
	"securebench/internal/source"
	"securebench/internal/task"
	"securebench/internal/workspace"
)

// FilesDir is where the files of harness.config.files are mounted, read-only.
const FilesDir = "/opt/securebench/agent"

// The variables that tell a command where its files are and which model it has.
const (
	filesVar = "SECUREBENCH_AGENT_FILES"
	modelVar = "SECUREBENCH_MODEL"
)

// Files are an operator's files that an agent finds in its sandbox.
type Files struct {
	Paths []string // relative to the tester YAML and below it
	// Content takes what is in the only path, if that is a folder, and not the folder
	// itself.
	Content bool
}

// ReplacesImage reports whether an agent may run in another image than that of the
// row: nothing of the row's own image is what it works on, and its candidate is a
// text, or files that the row names.
func ReplacesImage(v task.AgentView) bool {
	env, kind := v.Environment(), v.Extraction().Kind
	return env.Checkout.Dir == "" && !env.MaterializeWorkdir && (kind == task.Text || kind == task.Code || len(v.Extraction().Files) > 0)
}

// files reads a path, or a list of them.
func (p *parser) files() *Files {
	n, what := p.get("files")
	if n == nil {
		return nil
	}
	items := []*source.Node{n}
	if n.Kind == source.List {
		items = n.Items
	}
	f := &Files{Content: n.Kind != source.List}
	for _, it := range items {
		s, problem := it.Str(what)
		if problem != nil {
			p.ps.Note(problem)
			return nil
		}
		clean, err := workspace.CleanPath(strings.TrimSuffix(s, "/"))
		if err != nil {
			p.ps.Add(it.Pos, "name a file or folder below the tester YAML, relative to it", "%s %q: %v", what, s, err)
			return nil
		}
		f.Paths = append(f.Paths, clean)
	}
	if len(f.Paths) == 0 {
		p.ps.Add(n.Pos, "name what the agent needs, or leave it out", "%s is empty", what)
		return nil
	}
	return f
}

// Requirements is the overlay with the packages of harness.config.requirements: modules
// in its folder lib, programs in bin.
func Requirements() Overlay { return Overlay{Program: "python", Target: "/opt/securebench/python"} }

// requirements reads the path of a file below the tester YAML.
func (p *parser) requirements() string {
	n, what := p.get("requirements")
	if n == nil {
		return ""
	}
	s, problem := n.Str(what)
	if problem != nil {
		p.ps.Note(problem)
		return ""
	}
	clean, err := workspace.CleanPath(s)
	if err != nil {
		p.ps.Add(n.Pos, "name a file below the tester YAML, relative to it", "%s %q: %v", what, s, err)
	}
	return clean
}

// imagePattern matches a reference of an image. It is compared with nothing else.
var imagePattern = lazyregexp.New(`^[A-Za-z0-9][A-Za-z0-9._/:@-]*$`)

// image reads the image of the agent.
func (p *parser) image() string {
	n, what := p.get("image")
	if n == nil {
		return ""
	}
	return p.token(n, what, imagePattern, "must be the name of an image", "write one such as my-agent:1")
}

// providerAPI is what is spoken with a provider: the API, its usual address and the usual
// variable of its key.
type providerAPI struct{ name, baseURL, key string }

// providerAPIs are those of all APIs, in the order of [access.APIs].
func providerAPIs() []providerAPI {
	const openai, key = "https://api.openai.com", "OPENAI_API_KEY"
	return []providerAPI{
		{access.Responses, openai, key},
		{access.Chat, openai, key},
		{access.Messages, "https://api.anthropic.com", "ANTHROPIC_API_KEY"},
		{access.Gemini, "https://generativelanguage.googleapis.com", "GEMINI_API_KEY"},
	}
}

// apis reads what the command speaks with its provider, nil if it has none.
func (p *parser) apis() []providerAPI {
	if !p.given("model") {
		for _, key := range append([]string{"api", "budget", "prices", "max_connections", "allow_external_tools"}, addressKeys()...) {
			if n, what := p.get(key); n != nil {
				p.ps.Add(n.Pos, "add harness.config.model, with which the command has a provider", "%s is about a provider, and the command has none", what)
			}
		}
		p.budget(&Relay{}) // what is wrong in them is said at once
		p.prices(&Relay{})
		p.connections(&Relay{})
		return nil
	}
	n, what := p.get("api")
	if n == nil {
		return providerAPIs()[:1]
	}
	items := []*source.Node{n}
	if n.Kind == source.List && len(n.Items) > 0 {
		items = n.Items
	}
	var out []providerAPI
	for _, it := range items {
		api, fix := p.providerAPI(it, out)
		if api == nil {
			p.ps.Add(it.Pos, fix, "%s must be one of: %s; or a list of those of one provider", what, strings.Join(access.APIs(), ", "))
			return providerAPIs()[:1]
		}
		out = append(out, *api)
	}
	return out
}

// providerAPI reads an API, nil if it is none or does not go with those before it.
func (p *parser) providerAPI(n *source.Node, before []providerAPI) (api *providerAPI, fix string) {
	all := providerAPIs()
	i := slices.IndexFunc(all, func(a providerAPI) bool { return n.Kind == source.String && strings.TrimSpace(n.Text) == a.name })
	switch {
	case i < 0:
		return nil, ""
	case slices.Contains(before, all[i]):
		return nil, "name each once"
	case len(before) > 0 && before[0].key != all[i].key:
		return nil, all[i].name + " has the key " + all[i].key
	}
	return &all[i], ""
}

// baseURLs are the variables that lead the providers' own libraries to the relay.
func baseURLs() []string {
	const root, v1 = "http://" + RelayAddress, "http://" + RelayAddress + "/v1"
	return []string{"ANTHROPIC_BASE_URL=" + root, "GOOGLE_GEMINI_BASE_URL=" + root, "OPENAI_API_BASE=" + v1, "OPENAI_BASE_URL=" + v1}
}
