package relay

import (
	"net/http"
	"slices"
	"strings"

	"securebench/internal/gateway/relay/steps"
	"securebench/internal/gateway/relay/wire"
)

// dialect is what the relay knows of an API beside how its bodies are read: data, and
// small functions where that is not enough.
type dialect struct {
	api    API
	name   string // as people call it
	wire   *wire.Dialect
	steps  *steps.Dialect
	served string // the request for an answer, as people write it
	// route says what a path asks for, if the API has it.
	route func(method, path string) (endpoint, bool)
	// query checks the query of a request. It returns what of it goes to the provider, and
	// the credentials in it.
	query func(e endpoint, query string) (sent string, credentials []string, ok bool)
	needs string // what a refusal of a query says
	// passed are the headers that the provider gets from the agent, if they are there.
	// They name the program, the conversation and the form of the request. All others are
	// left out, above all those that name an account.
	passed string
	// accept is what is accepted in answer to a request for a stream.
	accept string
	// features adds a header that only in part may be passed on; nil if there is none.
	features func(r *Relay, from, to http.Header)
	// stops is the status that makes agents give up, and tooLarge that of a body that is
	// too long.
	stops, tooLarge int
	// flat gives agents every error of the provider's with the status stops.
	flat    bool
	refusal func(status int, why reason, message string) any
	// probe is a request for a few tokens.
	probe func(model string) (path string, body map[string]any)
	// list has the models, or the one that is asked for.
	list func(models []string, asked string) any
}

// endpoint is what a request asks for.
type endpoint struct {
	dialect *dialect
	kind    kind
	target  string     // the path at the provider, with the version of the API
	query   string     // what of the query goes there
	asked   wire.Asked // what the path says
}

// kind is what comes of a request.
type kind string

// The kinds.
const (
	asks   kind = "ask"
	counts kind = "count" // the tokens of a request, which costs nothing
	lists  kind = "list"  // the models, which the relay does itself
)

// dialects are those that the relay can serve.
func dialects() []*dialect { return []*dialect{responses(), messages(), chat(), gemini()} }

// dialectOf returns the dialect of an API, nil if there is none.
func dialectOf(api API) *dialect {
	all := dialects()
	if i := slices.IndexFunc(all, func(d *dialect) bool { return d.api == api }); i >= 0 {
		return all[i]
	}
	return nil
}

// exact returns the route of an API whose paths are always the same.
func exact(paths map[string]kind) func(method, path string) (endpoint, bool) {
	return func(method, path string) (endpoint, bool) {
		k, ok := paths[method+" "+path]
		return endpoint{kind: k, target: path}, ok
	}
}

// without allows no query.
func without(_ endpoint, query string) (string, []string, bool) { return "", nil, query == "" }

// route returns what a request asks for. ok says whether that is served.
func (r *Relay) route(method, path string) (e endpoint, ok bool) {
	for _, d := range r.dialects {
		if e, ok = d.route(method, path); ok {
			e.dialect = d
			return e, true
		}
	}
	return endpoint{dialect: r.dialects[0]}, false
}

// notServed refuses a request to another endpoint than those that are served. It names
// these: an agent that speaks another API is a mistake of the settings.
func (r *Relay) notServed(method, path string) *refusal {
	var served, set, other, spoken []string
	for _, d := range dialects() {
		needs := "an agent that speaks " + d.name + " needs api: " + string(d.api)
		_, fits := d.route(method, path)
		switch {
		case slices.ContainsFunc(r.dialects, func(own *dialect) bool { return own.api == d.api }):
			served, set = append(served, d.served), append(set, string(d.api))
		case fits:
			spoken = append(spoken, needs)
		default:
			other = append(other, needs)
		}
	}
	if spoken != nil {
		other = spoken
	}
	return &refusal{http.StatusForbidden, notAllowed, "only " + strings.Join(served, " and ") + " is served here, because harness.config says api: " +
		strings.Join(set, ", ") + "; " + strings.Join(other, ", ")}
}
