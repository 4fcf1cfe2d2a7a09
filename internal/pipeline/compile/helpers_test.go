package compile_test

import (
	"slices"
	"strings"
)

func sortedWords(words []string) string {
	slices.Sort(words)
	return strings.Join(words, " ")
}
