// Package access says where a provider of models is and how it is asked: the base URL
// and the query of the operator, headers, the key, and where the key may go. The relay,
// the model harness and the judge have it from here alike.
package access

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"securebench/internal/gateway/upstream"
	"securebench/internal/lazyregexp"
	"securebench/internal/redact"
)

// Address is what an operator says of where a provider is, and of what opens it.
type Address struct {
	API       string
	BaseURL   string // in the form of [Clean]
	KeyEnv    string // the variable that holds the key, "" for none
	KeyNamed  bool   // the operator names that variable, and not only the API
	Headers   []Header
	PlainHTTP bool // keys may go to private addresses in plain text
}

// Fault says why keys cannot go where they are sent, "" if they can.
func (a Address) Fault() string {
	keyed := a.KeyEnv != "" && a.KeyNamed
	for _, h := range a.Headers {
		keyed = keyed || len(h.Variables()) > 0
	}
	switch {
	case !keyed || !Crosses(a.BaseURL):
		return ""
	case Public(a.BaseURL):
		return "must be https, because the key would cross the internet in plain text"
	case !a.PlainHTTP:
		return "must be https, because the key would cross the network in plain text"
	}
	return ""
}

// Variables returns the names of all variables that hold keys.
func (a Address) Variables() (out []string) {
	if a.KeyEnv != "" {
		out = append(out, a.KeyEnv)
	}
	for _, h := range a.Headers {
		out = append(out, h.Variables()...)
	}
	return out
}

// KeyOptional reports whether a provider there may want no key.
func (a Address) KeyOptional() bool {
	return a.KeyEnv == "" || strings.HasPrefix(a.BaseURL, "http://")
}

// ErrNoKey is wrapped by the error of [Address.Read] if there is no key.
var ErrNoKey = errors.New("it needs the key of its provider")

// Read takes the key and the values of headers from the environment. A key that only the
// API names is not sent where it would cross a network in plain text.
func (a Address) Read(get func(string) string) (Keys, error) {
	out := Keys{header: http.Header{}, secrets: map[string]string{}}
	if a.KeyEnv != "" {
		out.Key = strings.TrimSpace(get(a.KeyEnv))
	}
	switch {
	case out.Key == "" && !a.KeyOptional():
		return Keys{}, fmt.Errorf("%w: set %s in the environment or in the env file (auth: none, if the provider wants none)", ErrNoKey, a.KeyEnv)
	case out.Key != "" && Crosses(a.BaseURL) && !a.PlainHTTP:
		out.Key, out.Unsent = "", true
	case out.Key != "":
		out.secrets[a.KeyEnv] = out.Key
	}
	for _, h := range a.Headers {
		value, err := h.value(get)
		if err != nil {
			return Keys{}, err
		}
		out.header.Set(h.Name, value)
		for _, name := range h.Variables() {
			out.secrets[name] = strings.TrimSpace(get(name))
		}
	}
	return out, nil
}

// Keys are what opens a provider. They must not be printed.
type Keys struct {
	Key     string // "" sends none
	Unsent  bool   // there is a key, which may not be sent
	header  http.Header
	secrets map[string]string // by their variables
}

// String returns the name of the type: keys must not be printed.
func (Keys) String() string { return "access.Keys" }

// GoString is String, for %#v.
func (a Keys) GoString() string { return a.String() }

// Hide adds all that is secret to a registry: under the names of the variables, or under
// one name. What is shorter than [redact.MinKey] is a word like others.
func (a Keys) Hide(in *redact.Registry, as string) error {
	if a.secrets == nil && a.Key != "" {
		a.secrets = map[string]string{"key": a.Key}
	}
	for name, value := range a.secrets {
		if as != "" {
			name = as
		}
		if len(value) < redact.MinKey {
			continue
		}
		if err := in.Add(name, []byte(value)); err != nil {
			return err
		}
	}
	return nil
}

// part is how long a part of a key is that is not shown.
const part = 4

// form matches the words that keys begin with, such as sk-proj-. They are no secret, and
// what a provider says often has one of them.
var form = lazyregexp.New(`^(?:[a-z]+[-_])+`)

// Apart reports whether a text of the provider's has no part of what is secret: some repeat
// the beginning and the end of a key that they refuse. Keys shorter than [redact.MinKey]
// are words, as local servers take them.
func (a Keys) Apart(text string) bool {
	for _, secret := range append(slices.Collect(maps.Values(a.secrets)), a.Key) {
		if len(secret) < redact.MinKey {
			continue
		}
		secret = form.ReplaceAllString(secret, "")
		for i := 0; i+part <= len(secret); i++ {
			if strings.Contains(text, secret[i:i+part]) {
				return false
			}
		}
	}
	return true
}

// Endpoint is a provider's address, with what opens it.
type Endpoint struct {
	style   style
	base    string // scheme, host and path, with the version
	host    string
	query   string // of the operator
	keys    Keys
	secrets redact.Registry
	plain   bool // a key crosses what is between here and there in plain text
	private bool // it may go to private addresses so, and not only to this machine
}

// New checks an address, and that keys may go there.
func New(at Address, a Keys) (*Endpoint, error) {
	clean, fault := Clean(at.API, at.BaseURL)
	if fault != "" {
		return nil, errors.New("the provider's base URL " + fault)
	}
	if strings.ContainsFunc(a.Key, func(c rune) bool { return c <= ' ' || c > '~' }) {
		return nil, errors.New("the provider's key has a character that no key has, such as a blank or a line end")
	}
	u, err := url.Parse(clean)
	if err != nil {
		return nil, errors.New("the provider's base URL is not a URL")
	}
	e := &Endpoint{style: styleOf(at.API), host: u.Host, query: u.RawQuery, keys: a, private: at.PlainHTTP}
	e.plain = u.Scheme == "http" && (a.Key != "" || len(a.secrets) > 0)
	if e.plain && Crosses(clean) && (!at.PlainHTTP || Public(clean)) {
		return nil, errors.New("the provider's base URL must be https, because the key would cross the network in plain text")
	}
	if err := a.Hide(&e.secrets, "provider_key"); err != nil {
		return nil, fmt.Errorf("the provider's key: %w", err)
	}
	if u.Path == "" || e.style.always {
		u.Path += e.style.version
	}
	e.base = plain(u)
	return e, nil
}

// String returns the host: keys must not be printed.
func (e *Endpoint) String() string { return e.host }

// GoString is String, for %#v.
func (e *Endpoint) GoString() string { return e.String() }

// URL returns the address of a path of the API, with its version as the API's
// documentation has it. Of the query, what the operator's own names is left out.
func (e *Endpoint) URL(path, query string) string {
	own, _ := url.ParseQuery(e.query) // which is in its plain form
	parts := []string{e.query}
	for part := range strings.SplitSeq(query, "&") {
		if name, _, _ := strings.Cut(part, "="); !own.Has(name) {
			parts = append(parts, part)
		}
	}
	parts = slices.DeleteFunc(parts, func(p string) bool { return p == "" })
	address := e.base + strings.TrimPrefix(path, e.style.version)
	if len(parts) > 0 {
		address += "?" + strings.Join(parts, "&")
	}
	return address
}

// Quote quotes what the body of an error says, in one line behind a colon, "" if that is not
// known or has a part of a key.
func (e *Endpoint) Quote(body []byte) string {
	said := upstream.Words(e.secrets.Bytes(body))
	if said == "" || !e.keys.Apart(said) {
		return ""
	}
	return ": " + redact.QuoteShort(said, maxWords)
}

// maxWords bounds what is quoted.
const maxWords = 300

// Sign adds the key and the operator's headers to those of a request. Both replace what
// is there. It also adds the version of the API, if it has a header that is missing.
func (e *Endpoint) Sign(h http.Header) {
	if name := e.style.dated; name != "" && h.Get(name) == "" {
		h.Set(name, e.style.date)
	}
	if e.keys.Key != "" {
		h.Set(e.style.key, e.style.prefix+e.keys.Key)
	}
	for name, values := range e.keys.header {
		h[name] = values
	}
}
