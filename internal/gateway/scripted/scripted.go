// Package scripted is a provider of models that plays scripts. Tests and people
// who try things out use it in a real provider's place: it speaks OpenAI's
// Responses API and chat Completions, Anthropic's messages API and Google's of Gemini, checks
// what it gets as a provider would, and records it.
//
// # Scripts
//
// A script is a YAML or JSON document:
//
//	key: sk-canary            # another credential gets 401; absent: any is right
//	open: true                # no credential is needed
//	models: [gpt-5.5]         # another model gets 404; absent: any is right
//	conversations:            # the first that fits is played
//	  - match: fizz           # is in what the user said; absent: always
//	    seen: buzz            # is anywhere in the request, as in JSON; absent: always
//	    turns:
//	      - run: ls -la
//	      - write: {path: solution.py, content: "print(1)\n"}
//	      - say: All done.
//	turns: []                 # played where no conversation matches
//
// One turn answers one request. It has a text, tool calls, or both:
//
//	say: TEXT                                  # without calls, the agent's last word
//	run: COMMAND                               # the agent's shell tool, whatever its name
//	read: PATH
//	write: {path: PATH, content: TEXT}
//	edit: {path: PATH, old: LINES, new: LINES} # whole lines
//	call: {name: N, namespace: S, arguments: {…}}  # any tool, as it is written
//
// and may change how it is answered:
//
//	usage: {input: N, cached: N, output: N, reasoning: N, omit: BOOL}  # instead of an estimate
//	refusal: TEXT  # the model declines, in the words that the API has for it
//	stop: length   # the text was cut because it reached the most tokens
//	delay: 2s      # before the first byte
//	pause: 10ms    # between two events
//	gzip: true     # compressed, if the client accepts that
//	headers: {X-Name: VALUE}
//	reflect: true  # give the credential back: headers, and text in many encodings
//	before: [FAULT…]  # what earlier requests of this turn get
//
// A fault is what one request gets, or several if it says times (-1: all):
//
//	status: 429                    # with headers, and message or body
//	close: true                    # the connection ends without an answer
//	cut: 3                         # the answer's stream ends after 3 events
//	hang: true                     # nothing, until the client leaves
//	endless: events | line | pings # a stream without an end
//	bomb: 1000000000               # a gzip body of so many bytes, nearly all equal
//	redirect: URL                  # with status, or 307
//	slow: 1s                       # between two bytes of an error
//	reflect: true                  # the credential in the headers and the message
//
// Turns are counted by marks in the identifiers of tool calls, which agents send
// back: a request that is repeated gets the same turn again, and conversations
// do not disturb each other. Whoever reads a task in turn 1 of turns can go on
// with turn 2 of the conversation that has seen it. After its last turn a
// conversation says "Done.".
package scripted

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"securebench/internal/source"
)

// EndBy has the last turn of each conversation run a command.
func (s *Script) EndBy(command string) {
	for i := range s.Conversations {
		turns := s.Conversations[i].Turns
		turns[len(turns)-1].Run = command
	}
}

// WriteFiles makes each conversation one answer with the files that it writes, whole, each
// below its name. What else it does is left out.
func (s *Script) WriteFiles() {
	for i := range s.Conversations {
		var said strings.Builder
		for _, t := range s.Conversations[i].Turns {
			if t.Write != nil {
				fmt.Fprintf(&said, "%s\n```\n%s```\n", path.Base(t.Write.Path), t.Write.Content)
			}
		}
		s.Conversations[i].Turns = []Turn{{Say: said.String()}}
	}
}

// Script is what a [Server] plays.
type Script struct {
	Key           string         `json:"key"`
	Open          bool           `json:"open"`
	Models        []string       `json:"models"`
	Conversations []Conversation `json:"conversations"`
	Turns         []Turn         `json:"turns"`
}

// Conversation is the part of a script for requests that contain a text.
type Conversation struct {
	Match string `json:"match"`
	Seen  string `json:"seen"`
	Turns []Turn `json:"turns"`
}

// Turn is the answer to one request.
type Turn struct {
	Say   string `json:"say"`
	Run   string `json:"run"`
	Read  string `json:"read"`
	Write *File  `json:"write"`
	Edit  *Edit  `json:"edit"`
	Call  *Call  `json:"call"`

	Refusal string            `json:"refusal"`
	Stop    string            `json:"stop"`
	Usage   *Usage            `json:"usage"`
	Delay   Duration          `json:"delay"`
	Pause   Duration          `json:"pause"`
	Gzip    bool              `json:"gzip"`
	Headers map[string]string `json:"headers"`
	Reflect bool              `json:"reflect"`
	Before  []Fault           `json:"before"`
}

// File is a file that the agent is told to write.
type File struct {
	Path    string `json:"path"`
	Content string `json:"content"`
}

// Edit is a change of whole lines of a file.
type Edit struct {
	Path string `json:"path"`
	Old  string `json:"old"`
	New  string `json:"new"`
}

// Call is a tool call as it is written.
type Call struct {
	Name      string         `json:"name"`
	Namespace string         `json:"namespace"`
	Arguments map[string]any `json:"arguments"`
}

// Usage is what an answer claims to have used.
type Usage struct {
	Input     int64 `json:"input"`
	Cached    int64 `json:"cached"`
	Output    int64 `json:"output"`
	Reasoning int64 `json:"reasoning"`
	Omit      bool  `json:"omit"`
}

// Fault is what requests get instead of a turn's answer.
type Fault struct {
	Times    int               `json:"times"` // 0 is once, -1 always
	Status   int               `json:"status"`
	Headers  map[string]string `json:"headers"`
	Message  string            `json:"message"`
	Body     string            `json:"body"`
	Close    bool              `json:"close"`
	Cut      int               `json:"cut"`
	Hang     bool              `json:"hang"`
	Endless  string            `json:"endless"`
	Bomb     int64             `json:"bomb"`
	Redirect string            `json:"redirect"`
	Slow     Duration          `json:"slow"`
	Reflect  bool              `json:"reflect"`
	Delay    Duration          `json:"delay"`
}

// Duration is a time.Duration that scripts write as "1.5s".
type Duration struct{ time.Duration }

// UnmarshalText reads "1.5s".
func (d *Duration) UnmarshalText(text []byte) (err error) {
	d.Duration, err = time.ParseDuration(string(text))
	if err == nil && d.Duration < 0 {
		err = errors.New("a negative duration")
	}
	return err
}

// Parse reads a script. Errors name the file, the line and the column.
func Parse(file string, data []byte) (*Script, error) {
	n, err := source.ParseYAML(file, data)
	if err != nil {
		return nil, err
	}
	s := &Script{}
	if err := n.Decode(s); err != nil {
		return nil, err
	}
	for i := range s.all() {
		if err := s.all()[i].check(); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
	}
	return s, nil
}

// all returns every list of turns.
func (s *Script) all() []Conversation {
	return append(slices.Clone(s.Conversations), Conversation{Turns: s.Turns})
}

// stopLength says that an answer was cut.
const stopLength = "length"

func (c Conversation) check() error {
	for i, t := range c.Turns {
		if t.Stop != "" && t.Stop != stopLength {
			return fmt.Errorf("turn %d: stop: %q: want length", i+1, t.Stop)
		}
		for _, f := range t.Before {
			if err := f.check(); err != nil {
				return fmt.Errorf("turn %d: %w", i+1, err)
			}
		}
	}
	return nil
}

func (f Fault) check() error {
	kinds := 0
	for _, is := range []bool{f.Status != 0 && f.Redirect == "", f.Close, f.Cut > 0, f.Hang, f.Endless != "", f.Bomb > 0, f.Redirect != ""} {
		if is {
			kinds++
		}
	}
	switch {
	case kinds != 1:
		return errors.New("a fault needs exactly one of status, close, cut, hang, endless, bomb and redirect")
	case f.Status != 0 && (f.Status < 200 || f.Status > 599):
		return fmt.Errorf("status %d: want 200 to 599", f.Status)
	case !slices.Contains([]string{"", "events", "line", "pings"}, f.Endless):
		return fmt.Errorf("endless: %q: want events, line or pings", f.Endless)
	case f.Times < -1:
		return fmt.Errorf("times: %d: want -1 or more", f.Times)
	}
	return nil
}

// turns returns what a request gets.
func (s *Script) turns(prompt string, body []byte) (name string, turns []Turn) {
	for _, c := range s.Conversations {
		if strings.Contains(prompt, c.Match) && bytes.Contains(body, []byte(c.Seen)) {
			return cmp.Or(c.Match, c.Seen), c.Turns
		}
	}
	return "", s.Turns
}

// fault returns the fault of the nth request of a turn, which is its first for
// n = 0, or nil.
func (t Turn) fault(n int) *Fault {
	for i, f := range t.Before {
		if f.Times == -1 {
			return &t.Before[i]
		}
		if n -= max(f.Times, 1); n < 0 {
			return &t.Before[i]
		}
	}
	return nil
}
