// Package lazyregexp compiles regular expressions when they are first used. A process
// that starts a sandbox, or is its first process, needs hardly any of the program's,
// and would compile all of them before it does anything.
package lazyregexp

import (
	"os"
	"regexp"
	"strings"
	"sync"
)

// Regexp is a regular expression for a package's variable. Its methods are those of
// [regexp.Regexp].
type Regexp struct {
	expr     string
	once     sync.Once
	compiled *regexp.Regexp
}

// New returns a regular expression. One that is wrong panics when it is first used, and
// in tests of packages at once.
func New(expr string) *Regexp {
	r := &Regexp{expr: expr}
	if strings.HasSuffix(os.Args[0], ".test") { //nolint:forbidigo // package testing belongs to tests
		r.Regexp()
	}
	return r
}

// Regexp returns the compiled expression.
func (r *Regexp) Regexp() *regexp.Regexp {
	r.once.Do(func() { r.compiled = regexp.MustCompile(r.expr) })
	return r.compiled
}

// Match reports whether b has a match.
func (r *Regexp) Match(b []byte) bool { return r.Regexp().Match(b) }

// MatchString reports whether s has a match.
func (r *Regexp) MatchString(s string) bool { return r.Regexp().MatchString(s) }

// FindString returns the first match in s.
func (r *Regexp) FindString(s string) string { return r.Regexp().FindString(s) }

// FindStringIndex returns where the first match in s is.
func (r *Regexp) FindStringIndex(s string) []int { return r.Regexp().FindStringIndex(s) }

// FindStringSubmatch returns the first match in s and its groups.
func (r *Regexp) FindStringSubmatch(s string) []string { return r.Regexp().FindStringSubmatch(s) }

// FindStringSubmatchIndex returns where the first match in s and its groups are.
func (r *Regexp) FindStringSubmatchIndex(s string) []int {
	return r.Regexp().FindStringSubmatchIndex(s)
}

// FindAllStringSubmatchIndex returns where the first n matches in s and their groups are,
// all for -1.
func (r *Regexp) FindAllStringSubmatchIndex(s string, n int) [][]int {
	return r.Regexp().FindAllStringSubmatchIndex(s, n)
}

// FindSubmatch returns the first match in b and its groups.
func (r *Regexp) FindSubmatch(b []byte) [][]byte { return r.Regexp().FindSubmatch(b) }

// FindAll returns the first n matches in b, all for -1.
func (r *Regexp) FindAll(b []byte, n int) [][]byte { return r.Regexp().FindAll(b, n) }

// FindAllString returns the first n matches in s, all for -1.
func (r *Regexp) FindAllString(s string, n int) []string { return r.Regexp().FindAllString(s, n) }

// FindAllStringIndex returns where the first n matches in s are, all for -1.
func (r *Regexp) FindAllStringIndex(s string, n int) [][]int {
	return r.Regexp().FindAllStringIndex(s, n)
}

// FindAllStringSubmatch returns the first n matches in s and their groups, all for -1.
func (r *Regexp) FindAllStringSubmatch(s string, n int) [][]string {
	return r.Regexp().FindAllStringSubmatch(s, n)
}

// FindAllSubmatch returns the first n matches in b and their groups, all for -1.
func (r *Regexp) FindAllSubmatch(b []byte, n int) [][][]byte { return r.Regexp().FindAllSubmatch(b, n) }

// ReplaceAllString returns s with each match replaced.
func (r *Regexp) ReplaceAllString(s, by string) string { return r.Regexp().ReplaceAllString(s, by) }

// ReplaceAllFunc returns b with each match replaced by what by makes of it.
func (r *Regexp) ReplaceAllFunc(b []byte, by func([]byte) []byte) []byte {
	return r.Regexp().ReplaceAllFunc(b, by)
}

// ReplaceAllStringFunc returns s with each match replaced by what by makes of it.
func (r *Regexp) ReplaceAllStringFunc(s string, by func(string) string) string {
	return r.Regexp().ReplaceAllStringFunc(s, by)
}
