package relay

import (
	"net/http"
	"strings"
)

// maxHeaderValue bounds a header that is passed on.
const maxHeaderValue = 8 << 10

// header returns the headers of a request to the provider.
func (r *Relay) header(d *dialect, from http.Header, stream bool) http.Header {
	out := http.Header{
		"Content-Type":    {"application/json"},
		"Accept":          {"application/json"},
		"Accept-Encoding": {"identity"},
		"User-Agent":      {""}, // none, unless the agent has one
	}
	if stream {
		out.Set("Accept", d.accept)
	}
	for name := range strings.FieldsSeq(d.passed) {
		if v := from.Get(name); v != "" && len(v) <= maxHeaderValue && !strings.ContainsFunc(v, unprintable) {
			out.Set(name, v)
		}
	}
	if d.features != nil {
		d.features(r, from, out)
	}
	r.endpoints[d.api].Sign(out)
	return out
}

func unprintable(c rune) bool { return c < ' ' || c > '~' }
