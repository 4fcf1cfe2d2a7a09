package egress

import (
	"bufio"
	"errors"
	"net/http"
	"strconv"
	"strings"
)

// The bounds of a request's head.
const (
	maxHead   = 64 << 10
	maxFields = 128
)

// request is the head of a request.
type request struct {
	method string
	target string
	old    bool // HTTP/1.0
	header http.Header
	length int64 // of the body, -1 if it comes in chunks
}

// readRequest reads a request's head. It takes only what every server reads
// alike: lines end in CRLF, no field is continued on a second line, and there is
// one statement of the body's length. If it refuses, what it has read of the
// request line is in the result.
func readRequest(r *bufio.Reader) (*request, *refusal) {
	req := &request{header: http.Header{}}
	lines := &lineReader{r: r, left: maxHead}
	line, refused := lines.next()
	if refused != nil {
		return req, refused
	}
	parts := strings.Split(line, " ")
	if len(parts) == 3 {
		req.method, req.target = parts[0], parts[1]
	}
	switch {
	case len(parts) != 3, !token(req.method), len(req.method) > 32, req.target == "", !visible(req.target):
		return req, malformed("the request line is invalid")
	case parts[2] == "HTTP/1.0":
		req.old = true
	case parts[2] != "HTTP/1.1":
		return req, malformed("the version is not HTTP/1.1")
	}
	if refused := lines.fields(req.header); refused != nil {
		return req, refused
	}
	req.length, refused = bodyLength(req)
	if refused == nil {
		refused = checkHost(req)
	}
	return req, refused
}

// bodyLength returns the length of a request's body, -1 if it is chunked.
func bodyLength(req *request) (int64, *refusal) {
	lengths, codings := req.header["Content-Length"], req.header["Transfer-Encoding"]
	switch {
	case len(lengths)+len(codings) > 1:
		return 0, malformed("the body's length is stated more than once")
	case len(codings) == 1 && (req.old || !strings.EqualFold(codings[0], "chunked")):
		return 0, malformed("the transfer coding is not chunked")
	case len(codings) == 1:
		return -1, nil
	case len(lengths) == 0:
		return 0, nil
	}
	n, err := strconv.ParseInt(lengths[0], 10, 64)
	if err != nil || strings.Trim(lengths[0], "0123456789") != "" {
		return 0, malformed("the content length is not a number")
	}
	return n, nil
}

// checkHost requires one Host field. Of CONNECT and HTTP/1.0, some honest
// clients leave it out; what it says is never used.
func checkHost(req *request) *refusal {
	n := len(req.header["Host"])
	if n > 1 || n == 0 && !req.old && req.method != "CONNECT" {
		return malformed("the request has %d Host fields", n)
	}
	return nil
}

// lineReader reads lines up to a number of bytes.
type lineReader struct {
	r    *bufio.Reader
	left int
}

// next returns a line without its CRLF.
func (l *lineReader) next() (string, *refusal) {
	var line []byte
	for {
		part, err := l.r.ReadSlice('\n')
		if l.left -= len(part); l.left < 0 {
			return "", tooLarge("the request's head is too large")
		}
		line = append(line, part...)
		if err == nil {
			break
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return "", malformed("the request ends within its head")
		}
	}
	text, found := strings.CutSuffix(string(line), "\r\n")
	if !found || strings.ContainsAny(text, "\r\x00") {
		return "", malformed("a line does not end in CRLF")
	}
	return text, nil
}

// fields reads header fields, and the empty line after them.
func (l *lineReader) fields(h http.Header) *refusal {
	for n := 0; ; n++ {
		line, refused := l.next()
		if refused != nil || line == "" {
			return refused
		}
		if n == maxFields {
			return tooLarge("the request has too many header fields")
		}
		name, value, found := strings.Cut(line, ":")
		value = strings.Trim(value, " \t")
		if !found || !token(name) || !fieldValue(value) {
			return malformed("a header field is invalid")
		}
		h.Add(name, value)
	}
}

// token reports whether s is a token of RFC 9110. A space is none, so it also
// finds continued lines and names with a space before their colon.
func token(s string) bool {
	return s != "" && strings.Trim(s, "!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ") == ""
}

// visible reports whether s has printable ASCII characters only, and no space.
func visible(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r > '~' })
}

// fieldValue reports whether s has no control characters.
func fieldValue(s string) bool {
	for _, b := range []byte(s) {
		if b < ' ' && b != '\t' || b == 0x7f {
			return false
		}
	}
	return true
}
