// Package provider is the way to a judge's model: what the tester YAML says of it, and
// the client that asks it, with a key, a budget and a journal of its own.
package provider

import (
	"strings"
	"unicode"

	"securebench/internal/agent/harness"
	"securebench/internal/config"
	"securebench/internal/judge"
	"securebench/internal/lazyregexp"
	"securebench/internal/source"
)

// Settings are what the tester YAML says of a judge.
type Settings struct {
	judge.Settings
	Model harness.Model
	// Trusted is the digest of a comparison with people's labels, "" for none.
	Trusted string
	Section config.Judge
}

// Decide returns the value of judge.decide.
func (s *Settings) Decide() string {
	if s.Unanimous {
		return judge.Unanimous
	}
	return judge.Majority
}

// Related reports whether two models have the same name or are of one vendor's family, by
// the first word of their names.
func Related(a, b string) bool {
	family := func(name string) string {
		name = strings.ToLower(name[strings.LastIndexByte(name, '/')+1:])
		if i := strings.IndexFunc(name, func(r rune) bool { return !unicode.IsLetter(r) }); i > 0 {
			name = name[:i]
		}
		if name == "o" || name == "chatgpt" { // o3 is of those who make gpt
			return "gpt"
		}
		return name
	}
	return a != "" && b != "" && (a == b || family(a) == family(b))
}

// Facts are the settings on which verdicts depend.
func (s *Settings) Facts() map[string]any {
	m := s.Model
	facts := map[string]any{"model": m.Model, "api": m.API, "base_url": m.BaseURL, "reasoning_effort": m.Effort, "max_tokens": m.MaxTokens,
		"votes": s.Votes, "decide": s.Decide(), "unchecked": s.Unchecked, "prompt_version": judge.PromptVersion}
	if len(m.Headers) > 0 {
		facts["headers"] = m.HeaderFacts()
	}
	return facts
}

var checkDigest = lazyregexp.New(`^sha256:[0-9a-f]{64}$`)

// Parse reads the judge's section, and reports everything that is wrong. It returns nil
// if there is none.
func Parse(c config.Judge) (*Settings, source.Problems) {
	if c.Config == nil {
		return nil, nil
	}
	s := &Settings{Section: c, Settings: judge.Settings{Votes: judge.DefaultVotes}}
	var ps source.Problems
	s.Model, ps = harness.ParseAsked("judge", c.Config, "votes", "decide", "canaries", "trusted")
	if n := c.Config.Given("votes"); n != nil {
		i, problem := n.Int("judge.votes", 1, judge.MaxVotes)
		if problem == nil && i%2 == 0 {
			problem = source.Problemf(n.Pos, "judge.votes is %d, with which there can be as many votes for as against", i)
			problem.Fix = "write 1, 3, 5, 7 or 9"
		}
		ps.Note(problem)
		s.Votes = int(i)
	}
	s.Unanimous = word(&ps, c.Config, "decide", judge.Majority, judge.Unanimous) == judge.Unanimous
	s.Unchecked = word(&ps, c.Config, "canaries", "required", "off") == "off"
	if n := c.Config.Given("trusted"); n != nil {
		s.Trusted = n.Text
		if n.Kind != source.String || !checkDigest.MatchString(n.Text) {
			ps.Add(n.Pos, `write the digest that "securebench judge check" prints`, "judge.trusted must be sha256: and 64 hexadecimal digits")
		}
	}
	return s, ps
}

// word reads a key whose values are words, the first of which is the default.
func word(ps *source.Problems, section *source.Node, key string, words ...string) string {
	n := section.Given(key)
	if n == nil {
		return words[0]
	}
	for _, w := range words {
		if n.Kind == source.String && strings.TrimSpace(n.Text) == w {
			return w
		}
	}
	ps.Add(n.Pos, "", "judge.%s must be one of: %s", key, strings.Join(words, ", "))
	return words[0]
}

// WithModel returns a judge's section with the model of the command line in it.
func WithModel(c config.Judge, model string) config.Judge {
	if model == "" {
		return c
	}
	at := source.Pos{File: "--judge"}
	n := &source.Node{Kind: source.Map, Pos: at}
	if c.Config != nil {
		n.Pos = c.Config.Pos
		for _, f := range c.Config.Fields {
			if f.Name != "model" {
				n.Fields = append(n.Fields, f)
			}
		}
	}
	n.Fields = append(n.Fields, source.Field{Name: "model", Pos: at, Value: &source.Node{Kind: source.String, Pos: at, Text: model}})
	return config.Judge{Config: n, Pos: n.Pos}
}
