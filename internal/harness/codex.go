package harness

// parseCodex reads the configuration of OpenAI's Codex CLI.
func parseCodex(p *parser) Harness { return parseAgent(p, true) }
