package config

import (
	"securebench/internal/lazyregexp"
	"securebench/internal/source"
)

// IsTester reports whether the file is a tester YAML and not a pack's
// manifest, by a key that only the former has.
func IsTester(path string) bool {
	data, err := source.ReadFile(path, maxFile)
	if err != nil {
		return false
	}
	n, err := source.ParseYAML(path, data)
	if err != nil { // LoadTester reports the error
		return versionKey.Match(data)
	}
	return n.Get("schema_version") != nil
}

var versionKey = lazyregexp.New(`(?m)^["']?schema_version\b`)
