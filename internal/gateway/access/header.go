package access

import (
	"fmt"
	"net/http"
	"strings"

	"securebench/internal/lazyregexp"
	"securebench/internal/redact"
)

// Header is a header that an operator adds to each request. In its text, ${NAME} stands
// for the value of a variable.
type Header struct{ Name, Text string }

var (
	headerName = lazyregexp.New("^[A-Za-z0-9!#$%&'*+.^_`|~-]{1,128}$")
	reference  = lazyregexp.New(`\$\{([^}]*)\}?`)
	variable   = lazyregexp.New(`^[A-Za-z_][A-Za-z0-9_]*$`)
)

// ours are headers that say how a request is carried, which is not the operator's to say.
const ours = " Host Content-Length Content-Type Content-Encoding Transfer-Encoding Accept-Encoding Connection Keep-Alive" +
	" Te Trailer Upgrade Expect "

// Fault says what is wrong with a header, without its text.
func (h Header) Fault() string {
	name := http.CanonicalHeaderKey(h.Name)
	switch {
	case !headerName.MatchString(h.Name):
		return "is not the name of a header"
	case strings.Contains(ours, " "+name+" ") || strings.HasPrefix(name, "Proxy-"):
		return "is set by securebench itself"
	case strings.ContainsFunc(h.Text, unprintable):
		return "has a character other than visible ASCII and blanks"
	case (h.Credential() || redact.NamesSecret(h.Name)) && len(h.Variables()) == 0:
		return "holds a key, so write the name of a variable, such as ${MY_KEY}"
	}
	for _, m := range reference.FindAllStringSubmatch(h.Text, -1) {
		if !variable.MatchString(m[1]) || !strings.HasSuffix(m[0], "}") {
			return "has a reference that is not ${NAME} of a variable"
		}
	}
	return ""
}

func unprintable(c rune) bool { return c < ' ' || c > '~' }

// Credential reports whether providers find a key in the header.
func (h Header) Credential() bool {
	switch http.CanonicalHeaderKey(h.Name) {
	case "Authorization", "Api-Key", "X-Api-Key", "X-Goog-Api-Key", "Cookie":
		return true
	}
	return false
}

// Variables returns the names of the variables in the text.
func (h Header) Variables() (out []string) {
	for _, m := range reference.FindAllStringSubmatch(h.Text, -1) {
		out = append(out, m[1])
	}
	return out
}

// HeaderFacts returns the operator's headers as a digest has them: those with values of the
// environment by their names only.
func (a Address) HeaderFacts() map[string]any {
	facts := map[string]any{}
	for _, h := range a.Headers {
		if facts[h.Name] = any(h.Text); len(h.Variables()) > 0 {
			facts[h.Name] = nil
		}
	}
	return facts
}

// value returns the text with the values of its variables.
func (h Header) value(get func(string) string) (string, error) {
	var missing string
	text := reference.ReplaceAllStringFunc(h.Text, func(ref string) string {
		name := strings.TrimSuffix(strings.TrimPrefix(ref, "${"), "}")
		v := strings.TrimSpace(get(name))
		if v == "" {
			missing = name
		}
		return v
	})
	switch {
	case missing != "":
		return "", fmt.Errorf("the header %s needs a value: set %s in the environment or in the env file", h.Name, missing)
	case strings.ContainsFunc(text, unprintable):
		return "", fmt.Errorf("the value of the header %s has a character that none has, such as a line end", h.Name)
	}
	return strings.TrimSpace(text), nil
}
