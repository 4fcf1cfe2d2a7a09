package harness

// parseClaudeCode reads the configuration of Anthropic's Claude Code CLI, which
// has a default model.
func parseClaudeCode(p *parser) Harness { return parseAgent(p, false) }
