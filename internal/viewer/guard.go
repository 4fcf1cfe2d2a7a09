package viewer

import (
	"crypto/subtle"
	"net"
	"net/http"
	"strings"
)

// policy is the policy on content of the pages of a server: nothing but what this server
// serves, no script or style in the text of a page, and no frame around it.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src data:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"

// guard lets requests pass that have the token in their path, name this server as their
// host, and come from its own pages or from no page. Any other page on this machine could
// ask too, and any user who sees the port.
type guard struct {
	token string
	hosts []string // as a browser names this server
	next  http.Handler
}

// ServeHTTP checks a request.
func (g *guard) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	for name, value := range map[string]string{
		"Content-Security-Policy": policy, "X-Content-Type-Options": "nosniff", "X-Frame-Options": "DENY", "Referrer-Policy": "no-referrer",
		"Cross-Origin-Resource-Policy": "same-origin", "Cross-Origin-Opener-Policy": "same-origin", "Cache-Control": "no-store",
	} {
		h.Set(name, value)
	}
	if !g.host(r.Host) {
		http.Error(w, "this is not the address of the viewer", http.StatusForbidden)
		return
	}
	if !own(r) {
		http.Error(w, "the request comes from another page", http.StatusForbidden)
		return
	}
	token, rest, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	if subtle.ConstantTimeCompare([]byte(token), []byte(g.token)) != 1 {
		http.Error(w, "the address lacks the token: open the one that securebench view printed", http.StatusForbidden)
		return
	}
	if r.Method != http.MethodGet && r.Method != http.MethodHead && r.Method != http.MethodPost {
		http.Error(w, "only GET and POST are known here", http.StatusMethodNotAllowed)
		return
	}
	again := r.Clone(r.Context())
	again.URL.Path = "/" + rest
	g.next.ServeHTTP(w, again)
}

// host reports whether a request names this server.
func (g *guard) host(name string) bool {
	for _, h := range g.hosts {
		if strings.EqualFold(h, name) {
			return true
		}
	}
	return false
}

// own reports whether a request comes from a page of this server, or from none: the
// operator opened an address.
func own(r *http.Request) bool {
	if origin := r.Header.Get("Origin"); origin != "" && !strings.EqualFold(origin, "http://"+r.Host) {
		return false
	}
	if r.Method == http.MethodPost && r.Header.Get("Origin") == "" {
		return false
	}
	switch r.Header.Get("Sec-Fetch-Site") {
	case "", "none", "same-origin":
		return true
	}
	return false
}

// hosts are the names of a server that listens at an address.
func hosts(a net.Addr) []string {
	out := []string{a.String()}
	if _, port, err := net.SplitHostPort(a.String()); err == nil {
		out = append(out, "localhost:"+port)
	}
	return out
}
