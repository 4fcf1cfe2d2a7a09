package importer

// HeadersOf is headersOf, for its table and fuzz tests.
func HeadersOf(code, tests string) []string { return headersOf(code, tests) }

// NeedsOperators is needsOperators, for its table test.
func NeedsOperators(code, tests string) bool { return needsOperators(code, tests) }

// Shuffle is shuffle, for its property test.
func Shuffle(choices []string, seed, id string) { shuffle(choices, seed, id) }
