package access

import (
	"net/netip"
	"net/url"
	"strconv"
	"strings"

	"securebench/internal/loopback"
	"securebench/internal/redact"
)

// The APIs of providers, by their names in configurations.
const (
	Responses = "openai_responses"   // of OpenAI: POST /v1/responses
	Chat      = "openai_chat"        // of OpenAI and many others: POST /v1/chat/completions
	Messages  = "anthropic_messages" // of Anthropic: POST /v1/messages
	Gemini    = "gemini"             // of Google: POST /v1beta/models/MODEL:generateContent
	// Completions is of OpenAI once, and of servers such as vLLM: POST /v1/completions. No
	// agent speaks it: it is asked how likely texts are.
	Completions = "openai_completions"
)

// APIs returns the names of those that agents speak.
func APIs() []string { return []string{Responses, Chat, Messages, Gemini} }

// Short returns the name of an API without whose it is, as --api takes it.
func Short(api string) string { return api[strings.IndexByte(api, '_')+1:] }

// style is how an API is addressed.
type style struct {
	version string // with which the paths of its documentation begin
	always  bool   // operators write addresses without the version, also below a path
	key     string // the header of the key
	prefix  string // of the key in it
	// dated is a header that says which version of the API is spoken, unless it is there.
	dated, date string
}

// styleOf returns how an API of a name is addressed.
func styleOf(api string) style {
	switch api {
	case Messages:
		return style{version: "/v1", always: true, key: "X-Api-Key", dated: "Anthropic-Version", date: "2023-06-01"}
	case Gemini:
		return style{version: "/v1beta", key: "X-Goog-Api-Key"}
	}
	return style{version: "/v1", key: "Authorization", prefix: "Bearer "}
}

// Clean returns the normal form of a base URL as an operator writes it, or what is wrong
// with it. The form has no slash at its end, and no version that the API's own addresses
// can do without. The value is never quoted: it may have a password in it.
func Clean(api, text string) (clean, fault string) {
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Opaque != "" || u.Hostname() == "":
		return "", "is not a URL with a host"
	case u.User != nil:
		return "", "contains a user name or a password, where only the environment may hold a key"
	case strings.Contains(text, "#"):
		return "", "has a fragment"
	case strings.Contains(u.EscapedPath(), "%") || strings.Contains(text, "\\") || strings.Contains(u.Path+"/", "/../") ||
		strings.Contains(u.Path+"/", "/./") || strings.Contains(u.Path, "//"):
		return "", "has a path that is not in its plain form"
	case strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r > '~' }):
		return "", "has a character other than visible ASCII"
	case !validPort(u):
		return "", "has a port that is not from 1 to 65535"
	case u.Scheme != "https" && u.Scheme != "http":
		return "", "must begin with https:// or http://"
	}
	if fault := queryFault(u.RawQuery); fault != "" {
		return "", fault
	}
	s := styleOf(api)
	u.Host = strings.ToLower(u.Host)
	u.Path = strings.TrimRight(u.Path, "/")
	for u.Path == s.version || s.always && strings.HasSuffix(u.Path, s.version) {
		u.Path = strings.TrimSuffix(u.Path, s.version)
	}
	clean = plain(u)
	if u.RawQuery != "" {
		clean += "?" + u.RawQuery
	}
	return clean, ""
}

// plain returns an address without its query, whose path is in its plain form and stays so.
func plain(u *url.URL) string {
	return (&url.URL{Scheme: u.Scheme, Host: u.Host}).String() + u.Path
}

// queryFault says what is wrong with the query of a base URL.
func queryFault(query string) string {
	values, err := url.ParseQuery(query)
	if err != nil {
		return "has a query that is not in its plain form"
	}
	for name := range values {
		if redact.NamesSecret(name) || strings.EqualFold(name, "sig") {
			return "has a key in its query, where only the environment may hold one"
		}
	}
	return ""
}

func validPort(u *url.URL) bool {
	if u.Port() == "" {
		return !strings.HasSuffix(u.Host, ":")
	}
	port, err := strconv.ParseUint(u.Port(), 10, 16)
	return err == nil && port > 0
}

// Crosses reports whether requests to a base URL cross a network in plain text.
func Crosses(base string) bool {
	u, err := url.Parse(base)
	return err == nil && u.Scheme == "http" && !loopback.IsHost(u.Hostname())
}

// Public reports whether the host of a base URL is an address that is not private.
func Public(base string) bool {
	u, err := url.Parse(base)
	if err != nil {
		return true
	}
	a, err := netip.ParseAddr(u.Hostname())
	return err == nil && !private(a)
}

// private reports whether an address is of this machine, or of a network of somebody's
// own. Those of the link are not among them: at one of them clouds serve credentials.
func private(a netip.Addr) bool {
	a = a.Unmap()
	return a.Zone() == "" && (a.IsLoopback() || a.IsPrivate())
}
