package config

import (
	"regexp"

	"securebench/internal/source"
)

// IsTester distinguishes a tester YAML from a pack's manifest by the key that
// only the former has.
func IsTester(path string) bool {
	data, err := source.ReadFile(path, maxFile)
	if err != nil {
		return false
	}
	n, err := source.ParseYAML(path, data)
	if err != nil { // LoadTester says what is wrong with it
		return versionKey.Match(data)
	}
	return n.Get("schema_version") != nil
}

var versionKey = regexp.MustCompile(`(?m)^["']?schema_version\b`)
