package catalogue

import (
	"maps"
	"slices"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"securebench/internal/agent/events"
)

// Agent describes an agent.
type Agent struct {
	Name      string     `json:"name"`
	About     string     `json:"about"` // one line for people
	Program   Package    `json:"program"`
	Providers []Provider `json:"providers"` // at least one; the first unless another is chosen
	Models    Models     `json:"models"`
	// Command is what an attempt runs, and Version what prints the program's version.
	Command []Item `json:"command"`
	// ACP is another way in, or the only one; nil if there is none.
	ACP     *ACP   `json:"acp"`
	Version []Item `json:"version"`
	Env     []Item `json:"env"` // NAME=VALUE
	// Owns are prefixes of variables that set the agent up, which rows and operators
	// leave alone.
	Owns   []string       `json:"owns"`
	Config jsontext.Value `json:"config"` // the agent's own configuration
	Files  []File         `json:"files"`  // below its home, before it starts
	Output Output         `json:"output"`
	Work   Work           `json:"work"`
	// Settings say what becomes of a setting of the configuration, by its name: words of
	// the command, in the place of {settings}. One that is not there is not supported.
	Settings map[string][]string `json:"settings"`
	Accepts  Accepts             `json:"accepts"` // what operators may add to it

	Own  bool `json:"-"` // the operator's
	text []byte
}

// Provider is what an agent speaks with its provider.
type Provider struct {
	API     string            `json:"api"`
	BaseURL string            `json:"base_url"`
	Keys    []string          `json:"keys"` // variables that may name the key, the usual one first
	Words   map[string]string `json:"words"`
}

// Models says what models an agent's configuration names.
type Models struct {
	Default string `json:"default"` // "" if a model has to be named
	Small   bool   `json:"small"`   // there is a second one, for small matters
	// Names begin the names of models, and whatever does not begin so is an alias, which
	// the program turns into a name; "" if there are no aliases.
	Names string `json:"names"`
	// Aliases are parts of the names that they mean, and Choices those that are not.
	Aliases []string `json:"aliases"`
	Choices []string `json:"choices"`
	// Probe is set beside the variables when the program is asked what an alias means.
	Probe []string `json:"probe"`
}

// File is a text that lies below the agent's home.
type File struct {
	Path string `json:"path"`
	Text string `json:"text"`
}

// Work says how an agent works whose model does not call tools until it calls none.
type Work struct {
	Last  string `json:"last"`  // the command by which its model ends the work
	Files bool   `json:"files"` // its model calls nothing: it writes whole files in its answers
}

// Output says how an agent's standard output is read.
type Output struct {
	// Name is what its lines begin with; "" is the agent's own.
	Name   string        `json:"name"`
	Reader string        `json:"reader"` // of this program, instead of Events
	Events []events.Rule `json:"events"`
}

// Format returns how the output is read, nil if it is text.
func (a Agent) Format() *events.Format {
	o := a.Output
	if o.Reader == "" && len(o.Events) == 0 {
		return nil
	}
	if o.Name == "" {
		o.Name = a.Name
	}
	return &events.Format{Name: o.Name, Reader: o.Reader, Rules: o.Events}
}

// SettingNames are the settings that a description may have.
func SettingNames() []string { return []string{"reasoning_effort", "max_turns", "system_prompt"} }

// Set returns the words of a command that a setting becomes: in them {value} is its value,
// and {quoted} that as JSON.
func (a Agent) Set(name, value string) []string {
	quoted, _ := json.Marshal(value) // any text can be
	v := Values{Words: map[string]string{"value": value, "quoted": string(quoted)}}
	return v.Expand([]Item{{Then: a.Settings[name]}})
}

// Item is a word of a command or a variable, or several of which a condition decides.
type Item struct {
	If   string   `json:"if"`
	Then []string `json:"then"`
}

// Values are what placeholders stand for, and which conditions hold.
type Values struct {
	Words map[string]string
	Lists map[string][]string // of items that are nothing but the placeholder
	Holds map[string]bool
}

// Clone returns values that share nothing.
func (v Values) Clone() Values {
	return Values{maps.Clone(v.Words), maps.Clone(v.Lists), maps.Clone(v.Holds)}
}

// Expand returns the words that items stand for.
func (v Values) Expand(items []Item) (out []string) {
	for _, it := range items {
		if !v.holds(it.If) {
			continue
		}
		for _, text := range it.Then {
			if name, ok := whole(text); ok {
				if list, ok := v.Lists[name]; ok {
					out = append(out, list...)
					continue
				}
			}
			out = append(out, v.Text(text))
		}
	}
	return slices.Clip(out)
}
