package forms

import "testing"

// TestRedeclared: a candidate cannot change the words of Go that the tests use.
func TestRedeclared(t *testing.T) {
	t.Parallel()
	const tests = "package main\n\nfunc main() {\n\tvar got []bool = []bool{F(), len(\"a\") == int(1)}\n\tif !got[0] == true { panic(nil) }\n}\n"
	for _, tt := range []struct {
		name, candidate string
		refused         bool
	}{
		{"nothing of it", "package main\n\nfunc F() bool { true := 1; return true == 1 }\n", false},
		{"a name that the tests do not use", "package main\n\nfunc min(a, b int) int { return a }\n\nfunc F() bool { return min(1, 2) == 1 }\n", false},
		{"a method", "package main\n\ntype T struct{}\n\nfunc (T) len() int { return 1 }\n", false},
		{"another package", "package other\n\nconst true = false\n", false},
		{"a constant", "package main\n\nconst true = false\n", true},
		{"one of a group", "package main\n\nvar (\n\tx   = 1\n\ty, nil = 2, 3\n)\n", true},
		{"a function", "package main\n\nfunc len(string) int { return 1 }\n", true},
		{"a type", "package main\n\ntype (\n\tint = string\n)\n", true},
		{"an alias", "package main\n\ntype bool = any\n", true},
		{"no Go", "qwzxvbnk", true},
	} {
		if got := redeclared([]byte(tt.candidate), tests); (got != nil) != tt.refused {
			t.Errorf("%s: %v", tt.name, got)
		}
	}
	if got := redeclared([]byte("package main\n\nconst true = false\n"), "no Go"); got != nil {
		t.Errorf("tests that do not parse: %v", got)
	}
}
