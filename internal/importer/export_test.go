package importer

// Shuffle is shuffle, for its property test.
func Shuffle(choices []string, seed, id string) { shuffle(choices, seed, id) }
