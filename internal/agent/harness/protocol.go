package harness

import "securebench/internal/sandbox"

// acp reads whether an agent is spoken to with the agent client protocol, which it has to
// speak.
func (p *parser) acp(who string, speaks bool) bool {
	n, what := p.get("protocol")
	switch {
	case n == nil:
		return false
	case n.Text != "acp":
		p.ps.Add(n.Pos, "write acp, or leave it out", "%s must be acp", what)
	case !speaks:
		p.ps.Add(n.Pos, "remove it", "%s: %s is not known to speak it", what, who)
	}
	return true
}

// client is the command that starts an agent which speaks the protocol and gives it a
// prompt: our own binary, in the sandbox.
func client(prompt string, agent []string) []string {
	return append([]string{sandbox.HelperPath, "sandbox-acp", prompt}, agent...)
}
