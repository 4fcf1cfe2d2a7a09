package harness

import (
	"strings"

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
// text.
func ReplacesImage(v task.AgentView) bool {
	env, kind := v.Environment(), v.Extraction().Kind
	return env.Checkout.Dir == "" && !env.MaterializeWorkdir && (kind == task.Text || kind == task.Code)
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

// providerAPI is what a command speaks with its provider.
type providerAPI struct{ name, baseURL, key string }

func providerAPIs() []providerAPI {
	return []providerAPI{
		{"openai_responses", "https://api.openai.com", "OPENAI_API_KEY"},
		{"anthropic_messages", "https://api.anthropic.com", "ANTHROPIC_API_KEY"},
	}
}

// api reads what the command speaks with its provider, nil if it has none.
func (p *parser) api() *providerAPI {
	if !p.given("model") {
		for _, key := range []string{"api", "base_url", "budget", "prices", "allow_external_tools", "auth"} {
			if n, what := p.get(key); n != nil {
				p.ps.Add(n.Pos, "add harness.config.model, with which the command has a provider", "%s is about a provider, and the command has none", what)
			}
		}
		p.budget(&Relay{}) // what is wrong in them is said at once
		p.prices(&Relay{})
		return nil
	}
	all := providerAPIs()
	n, what := p.get("api")
	if n == nil {
		return &all[0]
	}
	for i := range all {
		if n.Kind == source.String && strings.TrimSpace(n.Text) == all[i].name {
			return &all[i]
		}
	}
	p.ps.Add(n.Pos, "", "%s must be one of: %s, %s", what, all[0].name, all[1].name)
	return &all[0]
}

// baseURLs are the variables that lead the providers' own libraries to the relay.
func baseURLs() []string {
	return []string{"ANTHROPIC_BASE_URL=http://" + RelayAddress, "OPENAI_BASE_URL=http://" + RelayAddress + "/v1"}
}
