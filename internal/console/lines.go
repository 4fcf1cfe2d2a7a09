package console

import (
	"fmt"
	"os"
	"strings"

	"github.com/charmbracelet/x/ansi"

	"securebench/internal/redact"
	"securebench/internal/source"
)

// ErrorLines splits the message of an error into the messages of its joined
// errors. Any other line break comes from an untrusted name and does not start
// a new line.
func ErrorLines(err error) []string {
	var inner []error
	switch e := err.(type) { //nolint:errorlint // this walks the tree
	case *os.PathError, *os.LinkError: // their parts are a name and a cause
	case interface{ Unwrap() error }:
		inner = []error{e.Unwrap()}
	case interface{ Unwrap() []error }:
		inner = e.Unwrap()
	}
	msg := err.Error()
	out, rest := []string{""}, msg
	add := func(lines ...string) {
		out[len(out)-1] += lines[0]
		out = append(out, lines[1:]...)
	}
	for _, e := range inner {
		if e == nil {
			continue
		}
		before, after, ok := strings.Cut(rest, e.Error())
		if !ok {
			continue
		}
		if before == "\n" && len(inner) > 1 { // as errors.Join puts them together
			out, before = append(out, ""), ""
		}
		add(oneLine(before, err))
		add(ErrorLines(e)...)
		rest = after
	}
	add(oneLine(rest, err))
	return out
}

// oneLine converts a part of an error's message to one line for a terminal.
func oneLine(text string, err error) string {
	if text == "" { // as between joined errors; there can be many
		return ""
	}
	return redact.Escape(source.Reword(text, err))
}

// Uncoloured returns what a program printed for a terminal as a text: without the sequences
// that colour it or move a cursor, and with each state of a line that was drawn again on a
// line of its own. A sequence without an end takes the rest of the text with it.
func Uncoloured(text string) string {
	return strings.ReplaceAll(ansi.Strip(strings.ReplaceAll(text, "\r\n", "\n")), "\r", "\n")
}

// ShellQuote quotes a word for a shell. Characters that a terminal would not
// show are escaped byte by byte, in a form that bash and similar shells
// accept.
func ShellQuote(word string) string {
	if word != "" && strings.Trim(word, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_=+:,./@%") == "" {
		return word
	}
	if redact.Escape(word) == word {
		return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
	}
	var b strings.Builder
	for _, c := range []byte(word) {
		if c > ' ' && c < 0x7f && c != '\'' && c != '\\' {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, `\x%02x`, c)
		}
	}
	return "$'" + b.String() + "'"
}
