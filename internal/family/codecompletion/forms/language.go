package forms

import (
	"path"
	"slices"
	"strings"
)

// Python is the language of rows that name none.
const Python = "python"

// language is what is known of a language: the suffix of its files, and what
// fenced blocks call it beside its own name.
type language struct {
	suffix string
	names  []string
}

//nolint:gochecknoglobals // a constant table
var languages = map[string]language{
	Python:       {".py", []string{"py", "python3"}},
	"bash":       {".sh", []string{"sh", "shell"}},
	"c":          {".c", nil},
	"cpp":        {".cpp", []string{"c++", "cc", "cxx"}},
	"csharp":     {".cs", []string{"c#", "cs"}},
	"go":         {".go", []string{"golang"}},
	"haskell":    {".hs", []string{"hs"}},
	"java":       {".java", nil},
	"javascript": {".js", []string{"js", "node"}},
	"kotlin":     {".kt", []string{"kt"}},
	"lua":        {".lua", nil},
	"ocaml":      {".ml", []string{"ml"}},
	"perl":       {".pl", []string{"pl"}},
	"php":        {".php", nil},
	"ruby":       {".rb", []string{"rb"}},
	"rust":       {".rs", []string{"rs"}},
	"typescript": {".ts", []string{"ts"}},
}

// SourceFile returns the name of the file that holds a candidate, unless the row has a
// name of its own. javac wants the name of the public class.
func SourceFile(language string) string {
	if language == "java" {
		return "Main.java"
	}
	return "candidate" + languages[language].suffix
}

// isLocal reports whether a name is a path inside a folder, in its shortest form.
func isLocal(name string) bool {
	return name != "" && name != "." && path.Clean(name) == name && !path.IsAbs(name) &&
		name != ".." && !strings.HasPrefix(name, "../") && !strings.ContainsAny(name, "\\\x00")
}

// calls reports whether a fenced block with this word after the fence is in a
// language.
func (l language) calls(word, name string) bool {
	word = strings.ToLower(word)
	return word == name || slices.Contains(l.names, word)
}
