package forms

import (
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"

	"securebench/internal/family"
	"securebench/internal/verdict"
)

// redeclared refuses a candidate in Go that gives a word of the language, which the
// tests in its package use, a meaning of its own: with "const true = false" what is
// wrong would be what the tests expect. Names that the tests do not use are left to
// it, such as min, which was free for long.
func redeclared(candidate []byte, tests string) *family.Failure {
	files := token.NewFileSet()
	row, err := parser.ParseFile(files, "tests.go", tests, parser.SkipObjectResolution)
	if err != nil {
		return nil // the compiler says why
	}
	own, err := parser.ParseFile(files, "candidate.go", candidate, parser.SkipObjectResolution)
	if err != nil {
		return family.Fail(verdict.TestsFailed, "the candidate does not parse")
	}
	if own.Name.Name != row.Name.Name {
		return nil
	}
	used := map[string]bool{}
	ast.Inspect(row, func(n ast.Node) bool {
		if id, ok := n.(*ast.Ident); ok && types.Universe.Lookup(id.Name) != nil {
			used[id.Name] = true
		}
		return true
	})
	for _, name := range declared(own) {
		if used[name] {
			return family.Fail(verdict.TestsFailed, "the candidate declares %q, a word of the language that the tests use", name)
		}
	}
	return nil
}

// declared lists the names that a file declares in its package.
func declared(f *ast.File) (names []string) {
	for _, d := range f.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			if d.Recv == nil {
				names = append(names, d.Name.Name)
			}
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				switch spec := spec.(type) {
				case *ast.TypeSpec:
					names = append(names, spec.Name.Name)
				case *ast.ValueSpec:
					for _, id := range spec.Names {
						names = append(names, id.Name)
					}
				}
			}
		}
	}
	return names
}
