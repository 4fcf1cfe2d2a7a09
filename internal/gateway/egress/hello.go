package egress

import (
	"bufio"
	"encoding/binary"
	"errors"
	"io"
	"slices"
)

// Types of TLS records and of what is in them.
const (
	recordCipher    = 20
	recordHandshake = 22
	recordData      = 23

	clientHello = 1
	serverHello = 2

	extensionName    = 0
	extensionECH     = 0xfe0d
	extensionECHOld  = 0xffce // the draft before it, which encrypts the name alone
	recordHeader     = 5
	maxRecord        = 16 << 10
	maxHello         = 32 << 10
	maxHelloRecords  = 64
	maxHostName      = 255
	maxExtensions    = 64
	helloFixedLength = 2 + 32 // version and random
)

var (
	errNotTLS = errors.New("the connection does not begin with a TLS ClientHello")
	errName   = errors.New("the ClientHello names no host")
	errECH    = errors.New("the ClientHello encrypts its host name")
)

// readHello reads a ClientHello, which may be split over several records, and
// returns the bytes read and the host that it names. It reads no byte further.
func readHello(r *bufio.Reader) (raw []byte, name string, err error) {
	var message []byte
	for n := 0; len(message) < 4 || len(message) < 4+messageLength(message); n++ {
		header, err := r.Peek(recordHeader)
		if err != nil {
			return nil, "", err
		}
		size := int(binary.BigEndian.Uint16(header[3:]))
		if header[0] != recordHandshake || header[1] != 3 || size == 0 || size > maxRecord || n == maxHelloRecords {
			return nil, "", errNotTLS
		}
		record := make([]byte, recordHeader+size)
		if _, err := io.ReadFull(r, record); err != nil {
			return nil, "", err
		}
		raw = append(raw, record...)
		message = append(message, record[recordHeader:]...)
		if message[0] != clientHello || len(message) >= 4 && messageLength(message) > maxHello {
			return nil, "", errNotTLS
		}
	}
	if len(message) > 4+messageLength(message) {
		return nil, "", errNotTLS // a ClientHello ends with its record
	}
	name, err = helloName(message[4:])
	return raw, name, err
}

// messageLength is the length of a handshake message behind its header.
func messageLength(m []byte) int {
	return int(m[1])<<16 | int(m[2])<<8 | int(m[3])
}

// helloName returns the host that a ClientHello names, in lower case.
func helloName(body []byte) (string, error) {
	c := cursor{rest: body}
	c.take(helloFixedLength)
	c.vector(1)            // session
	ciphers := c.vector(2) // cipher suites
	compressions := c.vector(1)
	extensions := cursor{rest: c.vector(2)}
	if c.bad || len(c.rest) > 0 || len(ciphers) < 2 || len(compressions) < 1 {
		return "", errNotTLS
	}
	var seen []uint16
	var name string
	for len(extensions.rest) > 0 {
		kind := binary.BigEndian.Uint16(append(extensions.take(2), 0, 0))
		content := extensions.vector(2)
		if extensions.bad || slices.Contains(seen, kind) || len(seen) == maxExtensions {
			return "", errNotTLS
		}
		seen = append(seen, kind)
		switch kind {
		case extensionECH, extensionECHOld:
			return "", errECH
		case extensionName:
			var err error
			if name, err = serverName(content); err != nil {
				return "", err
			}
		}
	}
	if name == "" {
		return "", errName
	}
	return name, nil
}

// serverName reads the content of the extension server_name, which must have
// one entry.
func serverName(content []byte) (string, error) {
	c := cursor{rest: content}
	list := cursor{rest: c.vector(2)}
	kind := list.take(1)
	name := list.vector(2)
	if c.bad || list.bad || len(c.rest) > 0 || len(list.rest) > 0 || kind[0] != 0 || len(name) == 0 || len(name) > maxHostName {
		return "", errName
	}
	out := make([]byte, len(name))
	for i, b := range name {
		if b >= 'A' && b <= 'Z' {
			b += 'a' - 'A'
		}
		out[i] = b
	}
	return string(out), nil
}

// cursor reads a message from its start. After a read that does not fit, it is
// bad and empty.
type cursor struct {
	rest []byte
	bad  bool
}

// take returns the next n bytes; they are none if there are fewer.
func (c *cursor) take(n int) []byte {
	if c.bad || len(c.rest) < n {
		c.bad, c.rest = true, nil
		return nil
	}
	out := c.rest[:n:n]
	c.rest = c.rest[n:]
	return out
}

// vector returns the bytes behind a length of so many bytes.
func (c *cursor) vector(width int) []byte {
	n := 0
	for _, b := range c.take(width) {
		n = n<<8 | int(b)
	}
	return c.take(n)
}

// isRetry reports whether a record of a server's asks for a second ClientHello.
func isRetry(record []byte) bool {
	const at = recordHeader + 4 + 2 // the random follows
	return len(record) >= at+32 && record[0] == recordHandshake && record[recordHeader] == serverHello &&
		string(record[at:at+32]) == helloRetry
}

// helloRetry is the random of such a message (RFC 8446, 4.1.3).
const helloRetry = "\xcf\x21\xad\x74\xe5\x9a\x61\x11\xbe\x1d\x8c\x02\x1e\x65\xb8\x91" +
	"\xc2\xa2\x11\x16\x7a\xbb\x8c\x5e\x07\x9e\x09\xe2\xc8\xa8\x33\x9c"
