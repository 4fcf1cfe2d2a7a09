package catalogue

import (
	"securebench/internal/agent/events"
)

// ACP says how an agent is started that speaks the agent client protocol on its standard
// input and output. A client in its sandbox then gives it the prompt, allows what it asks
// for, and prints what it does.
type ACP struct {
	Command []Item `json:"command"` // without a prompt
}

// ACPFormat is how the output of the client is read.
func ACPFormat(name string) *events.Format {
	is := func(kind string) map[string]string { return map[string]string{"type": kind} }
	return &events.Format{Name: name, Rules: []events.Rule{
		{Where: is("message"), Message: "text", Part: true},
		{Where: is("call"), Call: []string{"name", "about"}},
		{Where: is("done"), Done: []string{"name", "status"}},
		{Where: is("error"), Error: "text"},
	}}
}
