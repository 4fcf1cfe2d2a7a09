package reader

import (
	"bytes"
	"encoding/csv"
	"errors"
	"io"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"securebench/internal/artifact"
)

// plain returns a text without its byte order mark.
func plain(data []byte) ([]byte, error) {
	data = bytes.TrimPrefix(data, []byte("\ufeff"))
	if i := bytes.IndexByte(data, 0); i >= 0 {
		return nil, refuse("is no text: it has a NUL in line %d", line(data, i))
	}
	if utf8.Valid(data) {
		return data, nil
	}
	i := 0
	for {
		c, n := utf8.DecodeRune(data[i:])
		if c == utf8.RuneError && n == 1 {
			return nil, refuse("is not in UTF-8: line %d", line(data, i))
		}
		i += n
	}
}

// line returns the number of the line that a byte is in.
func line(data []byte, at int) int { return 1 + bytes.Count(data[:at], []byte("\n")) }

func readText(data []byte, f *artifact.File) error {
	data, err := plain(data)
	if err != nil {
		return err
	}
	text := string(data)
	f.Text = &text
	return nil
}

func readJSON(data []byte, f *artifact.File) error {
	data, err := plain(data)
	if err != nil {
		return err
	}
	decoder := jsontext.NewDecoder(bytes.NewReader(data))
	for values := 0; ; {
		_, err := decoder.ReadToken()
		switch {
		case errors.Is(err, io.EOF) && values == 1:
			text := string(data)
			f.Text = &text
			return nil
		case errors.Is(err, io.EOF) && values == 0:
			return refuse("has no JSON value")
		case errors.Is(err, jsontext.ErrDuplicateName):
			return refuse("has an object with a key twice, in line %d", jsonLine(data, err))
		case err != nil:
			return refuse("is not JSON: line %d", jsonLine(data, err))
		case decoder.StackDepth() > maxDepth:
			return refuse("is nested more than %d deep", maxDepth)
		}
		if decoder.StackDepth() == 0 {
			if values++; values > 1 {
				return refuse("has more than one JSON value: line %d", line(data, int(decoder.InputOffset())))
			}
		}
	}
}

// jsonLine returns the line of an error in JSON.
func jsonLine(data []byte, err error) int {
	if syntax, ok := errors.AsType[*jsontext.SyntacticError](err); ok {
		return line(data, min(int(syntax.ByteOffset), len(data)))
	}
	return line(data, len(data))
}

// readCSV reads RFC 4180, in which every row has as many fields. What is more lenient sees
// other rows: a quote in the middle of a field, or a carriage return alone, can hide some.
func readCSV(data []byte, f *artifact.File) error {
	data, err := plain(data)
	if err != nil {
		return err
	}
	if err := scanCSV(data); err != nil {
		return err
	}
	in := csv.NewReader(bytes.NewReader(data))
	table := &artifact.Table{}
	for {
		row, err := in.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return csvFault(err, len(row), in.FieldsPerRecord)
		}
		table.Rows = append(table.Rows, row)
	}
	if len(table.Rows) == 0 {
		return refuse("has no rows")
	}
	f.Table = table
	return nil
}

func csvFault(err error, fields, want int) error {
	at := 0
	if parse, ok := errors.AsType[*csv.ParseError](err); ok {
		at = parse.StartLine
	}
	switch {
	case errors.Is(err, csv.ErrFieldCount):
		return refuse("has %d fields in line %d, and %d in the first", fields, at, want)
	case errors.Is(err, csv.ErrBareQuote), errors.Is(err, csv.ErrQuote):
		return refuse("has a quote out of place in the row of line %d", at)
	}
	return refuse("is not CSV: line %d", at)
}

// scanCSV finds what encoding/csv takes without a word: a carriage return that is neither
// quoted nor before a line feed, and more fields than there is room for.
func scanCSV(data []byte) error {
	quoted, cells := false, 0
	for i, c := range data {
		switch {
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '\r' && (i+1 == len(data) || data[i+1] != '\n'):
			return refuse("has a carriage return without a line feed in line %d", line(data, i))
		case c == ',', c == '\n':
			cells++
		}
	}
	if cells > maxCells {
		return refuse("has more than %d fields", maxCells)
	}
	return nil
}
