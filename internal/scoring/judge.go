package scoring

import "securebench/internal/judge/provider"

// JudgeSettings are what the tester YAML says of a judge.
type JudgeSettings = provider.Settings
