package reader

import (
	"bytes"
	"compress/zlib"
	"errors"
	"io"
	"strconv"

	"securebench/internal/artifact"
	"securebench/internal/bounded"
)

// Bounds of PDF files.
const (
	maxObjects  = 500_000
	maxPages    = 20_000
	maxPDFDepth = 64
	maxStream   = 64 << 20 // bytes of a stream that is unpacked
)

// readPDF counts the pages of a PDF. Their text and their looks are for a renderer, in a
// sandbox of its own. The library for this (pdfcpu) prepares fonts and tables whenever the
// program starts, which takes longer than the rest of its start.
func readPDF(data []byte, f *artifact.File) error {
	if !bytes.HasPrefix(data, []byte("%PDF-1.")) && !bytes.HasPrefix(data, []byte("%PDF-2.")) {
		return refuse("does not begin as a PDF")
	}
	last := bytes.LastIndex(data, []byte("%%EOF"))
	if last < 0 || len(bytes.Trim(data[last+5:], "\x00 \t\r\n")) > 0 {
		return refuse("does not end as a PDF")
	}
	start := bytes.LastIndex(data[:last], []byte("startxref"))
	if start < 0 {
		return refuse("is a broken PDF: nothing says where its objects are")
	}
	p := &pdf{data: data, places: map[int]pdfPlace{}, streams: map[int]map[int]any{}}
	offset, ok := (&pdfLexer{data: data, at: start + 9}).value(0).(int)
	if !ok {
		return refuse("is a broken PDF: nothing says where its objects are")
	}
	if err := p.tables(offset); err != nil {
		return err
	}
	if p.trailer["Encrypt"] != nil {
		return refuse("is encrypted")
	}
	root, _ := p.resolve(p.trailer["Root"]).(pdfDict)
	pages, _ := p.resolve(root["Pages"]).(pdfDict)
	if pages == nil {
		return refuse("is a broken PDF: it has no list of pages")
	}
	n, err := p.count(root["Pages"], map[int]bool{}, 0)
	if err != nil {
		return err
	}
	if says, ok := p.resolve(pages["Count"]).(int); !ok || says != n || n == 0 {
		return refuse("has %d pages and says that it has %v", n, p.resolve(pages["Count"]))
	}
	f.Document = &artifact.Document{Pages: n}
	return nil
}

// A pdf is a file whose objects are found by their numbers.
type pdf struct {
	data    []byte
	trailer pdfDict
	places  map[int]pdfPlace
	streams map[int]map[int]any // objects of streams of objects
	spent   int                 // bytes that were unpacked
}

// A pdfPlace is where an object is: at an offset, or in a stream of objects.
type pdfPlace struct{ offset, stream int }

type (
	pdfDict map[string]any
	pdfName string
	pdfRef  int
	// A pdfWord is anything that is no value, such as obj.
	pdfWord string
)

// tables reads where the objects are, the newest table first.
func (p *pdf) tables(offset int) error {
	seen := map[int]bool{}
	for queue := []int{offset}; len(queue) > 0; {
		at := queue[0]
		queue = queue[1:]
		if at < 0 || at >= len(p.data) || len(seen) > 1000 {
			return refuse("is a broken PDF: its table of objects is not where it should be")
		}
		if seen[at] {
			continue
		}
		seen[at] = true
		l := &pdfLexer{data: p.data, at: at}
		var trailer pdfDict
		var err error
		if word, _ := l.value(0).(pdfWord); word == "xref" {
			trailer, err = p.table(l)
		} else {
			trailer, err = p.tableStream(at)
		}
		if err != nil {
			return err
		}
		if p.trailer == nil {
			p.trailer = trailer
		}
		for _, key := range []string{"XRefStm", "Prev"} {
			if next, ok := trailer[key].(int); ok {
				queue = append(queue, next)
			}
		}
	}
	return nil
}

// table reads a table of lines.
func (p *pdf) table(l *pdfLexer) (pdfDict, error) {
	for {
		first, ok := l.value(0).(int)
		if !ok {
			break // the word trailer
		}
		n, ok := l.value(0).(int)
		if !ok || n < 0 || first < 0 || n > maxObjects-len(p.places) {
			return nil, refuse("has a table of objects that is broken or too long")
		}
		for i := range n {
			offset, ok1 := l.value(0).(int)
			_, ok2 := l.value(0).(int)
			kind, ok3 := l.value(0).(pdfWord)
			if !ok1 || !ok2 || !ok3 {
				return nil, refuse("is a broken PDF: its table of objects cannot be read")
			}
			if _, known := p.places[first+i]; !known {
				p.places[first+i] = pdfPlace{offset: offset}
				if kind != "n" {
					p.places[first+i] = pdfPlace{offset: -1}
				}
			}
		}
	}
	trailer, ok := l.value(0).(pdfDict)
	if !ok {
		return nil, refuse("is a broken PDF: its table of objects has no end")
	}
	return trailer, nil
}

// tableStream reads a table that is a stream.
func (p *pdf) tableStream(at int) (pdfDict, error) {
	d, body, err := p.object(at)
	if err != nil {
		return nil, err
	}
	dict, _ := d.(pdfDict)
	if dict["Type"] != pdfName("XRef") || body == nil {
		return nil, refuse("is a broken PDF: its table of objects is not where it should be")
	}
	if body, err = p.unpack(dict, body); err != nil {
		return nil, err
	}
	var widths [3]int
	list, _ := dict["W"].([]any)
	for i := range widths {
		if len(list) != 3 {
			return nil, refuse("is a broken PDF: its table of objects cannot be read")
		}
		w, ok := list[i].(int)
		if widths[i] = w; !ok || w < 0 || w > 8 {
			return nil, refuse("is a broken PDF: its table of objects cannot be read")
		}
	}
	index, _ := dict["Index"].([]any)
	if index == nil {
		index = []any{0, dict["Size"]}
	}
	for i := 0; i+1 < len(index); i += 2 {
		first, ok1 := index[i].(int)
		n, ok2 := index[i+1].(int)
		width := widths[0] + widths[1] + widths[2]
		if !ok1 || !ok2 || first < 0 || n < 0 || width == 0 || n > maxObjects-len(p.places) || n*width > len(body) {
			return nil, refuse("is a broken PDF: its table of objects cannot be read")
		}
		p.entries(body[:n*width], first, widths)
		body = body[n*width:]
	}
	return dict, nil
}

// entries reads the entries of a table that is a stream.
func (p *pdf) entries(body []byte, first int, widths [3]int) {
	width := widths[0] + widths[1] + widths[2]
	for i := 0; i*width < len(body); i++ {
		var fields [3]int
		entry := body[i*width : (i+1)*width]
		for j, w := range widths {
			for _, b := range entry[:w] {
				fields[j] = fields[j]<<8 | int(b)
			}
			entry = entry[w:]
		}
		if widths[0] == 0 {
			fields[0] = 1
		}
		if _, known := p.places[first+i]; known {
			continue
		}
		switch fields[0] {
		case 1:
			p.places[first+i] = pdfPlace{offset: fields[1]}
		case 2:
			p.places[first+i] = pdfPlace{offset: -1, stream: fields[1]}
		default:
			p.places[first+i] = pdfPlace{offset: -1}
		}
	}
}

// object reads the object at an offset, and the bytes of its stream if it is one.
func (p *pdf) object(at int) (any, []byte, error) {
	if at < 0 || at >= len(p.data) {
		return nil, nil, refuse("is a broken PDF: an object is not where it should be")
	}
	l := &pdfLexer{data: p.data, at: at}
	_, ok1 := l.value(0).(int)
	_, ok2 := l.value(0).(int)
	word, _ := l.value(0).(pdfWord)
	if !ok1 || !ok2 || word != "obj" {
		return nil, nil, refuse("is a broken PDF: an object is not where it should be")
	}
	v := l.value(0)
	dict, isDict := v.(pdfDict)
	if word, _ := l.value(0).(pdfWord); !isDict || word != "stream" {
		return v, nil, nil
	}
	if l.at < len(l.data) && l.data[l.at] == '\r' {
		l.at++
	}
	if l.at < len(l.data) && l.data[l.at] == '\n' {
		l.at++
	}
	length, ok := dict["Length"].(int)
	if ref, indirect := dict["Length"].(pdfRef); indirect {
		if place := p.places[int(ref)]; place.offset > 0 && place.offset != at {
			n, err := p.plain(place.offset)
			if err != nil {
				return nil, nil, err
			}
			length, ok = n.(int)
		}
	}
	if !ok || length < 0 || length > len(l.data)-l.at {
		return nil, nil, refuse("is a broken PDF: a stream has no length")
	}
	return v, l.data[l.at : l.at+length], nil
}

// plain reads an object that is a number, and no stream.
func (p *pdf) plain(at int) (any, error) {
	if at >= len(p.data) {
		return nil, refuse("is a broken PDF: an object is not where it should be")
	}
	l := &pdfLexer{data: p.data, at: at}
	l.value(0)
	l.value(0)
	l.value(0)
	return l.value(0), nil
}

// unpack returns the bytes of a stream.
func (p *pdf) unpack(dict pdfDict, body []byte) ([]byte, error) {
	filter := dict["Filter"]
	if list, ok := filter.([]any); ok && len(list) == 1 {
		filter = list[0]
	}
	parms, _ := dict["DecodeParms"].(pdfDict)
	if list, ok := dict["DecodeParms"].([]any); ok && len(list) == 1 {
		parms, _ = list[0].(pdfDict)
	}
	switch filter {
	case nil:
		return body, nil
	case pdfName("FlateDecode"):
	default:
		return nil, refuse("is a PDF whose objects are packed in an unknown way")
	}
	in, err := zlib.NewReader(bytes.NewReader(body))
	if err != nil {
		return nil, refuse("is a broken PDF: a stream cannot be unpacked")
	}
	out, err := bounded.ReadAll(in, maxStream)
	if p.spent += len(out); err != nil && !errors.Is(err, io.ErrUnexpectedEOF) || p.spent > maxUnpacked {
		return nil, refuse("is a PDF whose streams cannot be unpacked, or are too large")
	}
	predictor, _ := parms["Predictor"].(int)
	if predictor < 2 {
		return out, nil
	}
	columns, ok := parms["Columns"].(int)
	if !ok {
		columns = 1
	}
	if predictor < 10 || columns < 1 || columns > 1<<16 || parms["Colors"] != nil || parms["BitsPerComponent"] != nil && parms["BitsPerComponent"] != 8 {
		return nil, refuse("is a PDF whose objects are packed in an unknown way")
	}
	return unpredict(out, columns)
}

// unpredict undoes the filters of PNG, for rows of single bytes.
func unpredict(in []byte, columns int) ([]byte, error) {
	var out []byte
	above := make([]byte, columns)
	for ; len(in) > columns; in = in[columns+1:] {
		row := bytes.Clone(in[1 : columns+1])
		for i := range row {
			left, corner := 0, 0
			if i > 0 {
				left, corner = int(row[i-1]), int(above[i-1])
			}
			switch in[0] {
			case 0:
			case 1:
				row[i] += byte(left)
			case 2:
				row[i] += above[i]
			case 3:
				row[i] += byte((left + int(above[i])) / 2)
			case 4:
				row[i] += paeth(left, int(above[i]), corner)
			default:
				return nil, refuse("is a PDF whose objects are packed in an unknown way")
			}
		}
		out = append(out, row...)
		above = row
	}
	return out, nil
}

func paeth(left, up, corner int) byte {
	p := left + up - corner
	a, b, c := max(p-left, left-p), max(p-up, up-p), max(p-corner, corner-p)
	switch {
	case a <= b && a <= c:
		return byte(left)
	case b <= c:
		return byte(up)
	}
	return byte(corner)
}

// resolve returns the object that a reference stands for, nil if it is not there.
func (p *pdf) resolve(v any) any {
	for range maxPDFDepth {
		ref, ok := v.(pdfRef)
		if !ok {
			return v
		}
		place, known := p.places[int(ref)]
		switch {
		case !known:
			return nil
		case place.stream > 0:
			v = p.inStream(place.stream)[int(ref)]
		case place.offset >= 0:
			var err error
			if v, _, err = p.object(place.offset); err != nil {
				return nil
			}
		default:
			return nil
		}
	}
	return nil
}

// inStream returns the objects of a stream of objects.
func (p *pdf) inStream(number int) map[int]any {
	if found, ok := p.streams[number]; ok {
		return found
	}
	found := map[int]any{}
	p.streams[number] = found
	place := p.places[number]
	if place.stream > 0 || place.offset < 0 {
		return found
	}
	v, body, err := p.object(place.offset)
	dict, _ := v.(pdfDict)
	n, _ := dict["N"].(int)
	first, _ := dict["First"].(int)
	if err != nil || body == nil || dict["Type"] != pdfName("ObjStm") {
		return found
	}
	if body, err = p.unpack(dict, body); err != nil || first < 0 || first > len(body) {
		return found
	}
	head := &pdfLexer{data: body[:first]}
	for range min(max(n, 0), maxObjects) {
		id, ok1 := head.value(0).(int)
		at, ok2 := head.value(0).(int)
		if !ok1 || !ok2 || at < 0 || at > len(body)-first {
			break
		}
		found[id] = (&pdfLexer{data: body, at: first + at}).value(0)
	}
	return found
}

// count returns the number of pages below a node of the tree of pages.
func (p *pdf) count(v any, seen map[int]bool, depth int) (int, error) {
	if ref, ok := v.(pdfRef); ok {
		if seen[int(ref)] {
			return 0, refuse("has a page twice, or a circle of pages")
		}
		seen[int(ref)] = true
	}
	node, ok := p.resolve(v).(pdfDict)
	if !ok || depth > maxPDFDepth {
		return 0, refuse("is a broken PDF: a page is not there")
	}
	kids, tree := p.resolve(node["Kids"]).([]any)
	if !tree {
		return 1, nil
	}
	pages := 0
	for _, kid := range kids {
		n, err := p.count(kid, seen, depth+1)
		if err != nil {
			return 0, err
		}
		if pages += n; pages > maxPages {
			return 0, refuse("has more than %d pages", maxPages)
		}
	}
	return pages, nil
}

// A pdfLexer reads values.
type pdfLexer struct {
	data []byte
	at   int
}

func pdfSpace(c byte) bool {
	return c == 0 || c == '\t' || c == '\n' || c == '\f' || c == '\r' || c == ' '
}

func pdfDelimiter(c byte) bool { return bytes.IndexByte([]byte("()<>[]{}/%"), c) >= 0 }

func (l *pdfLexer) space() {
	for l.at < len(l.data) {
		switch c := l.data[l.at]; {
		case pdfSpace(c):
			l.at++
		case c == '%':
			for l.at < len(l.data) && l.data[l.at] != '\n' && l.data[l.at] != '\r' {
				l.at++
			}
		default:
			return
		}
	}
}

// value reads the next value; it is a word if it is none, nil at the end.
func (l *pdfLexer) value(depth int) any {
	l.space()
	if l.at >= len(l.data) || depth > maxPDFDepth {
		l.at = len(l.data)
		return nil
	}
	rest := l.data[l.at:]
	switch c := rest[0]; {
	case c == '/':
		l.at++
		return pdfName(l.token())
	case c == '(':
		return l.text()
	case bytes.HasPrefix(rest, []byte("<<")):
		l.at += 2
		return l.dict(depth)
	case bytes.HasPrefix(rest, []byte(">>")):
		l.at += 2
		return pdfWord(">>")
	case c == '<':
		n := bytes.IndexByte(rest, '>')
		if n < 0 {
			n = len(rest) - 1
		}
		l.at += n + 1
		return string(rest[1:max(n, 1)])
	case c == '[':
		l.at++
		return l.array(depth)
	case pdfDelimiter(c):
		l.at++
		return pdfWord(rest[:1])
	}
	return l.number(l.token())
}

// token reads up to the next space or delimiter.
func (l *pdfLexer) token() string {
	from := l.at
	for l.at < len(l.data) && !pdfSpace(l.data[l.at]) && !pdfDelimiter(l.data[l.at]) {
		l.at++
	}
	return string(l.data[from:l.at])
}

// number returns the number, the reference or the word that a token begins.
func (l *pdfLexer) number(token string) any {
	n, err := strconv.Atoi(token)
	if err != nil {
		if x, err := strconv.ParseFloat(token, 64); err == nil {
			return x
		}
		return pdfWord(token)
	}
	back := l.at
	l.space()
	if generation := l.token(); generation != "" && len(generation) < 6 && generation[0] >= '0' && generation[0] <= '9' {
		l.space()
		if l.token() == "R" {
			return pdfRef(n)
		}
	}
	l.at = back
	return n
}

func (l *pdfLexer) text() string {
	from := l.at
	for depth := 0; l.at < len(l.data); {
		c := l.data[l.at]
		l.at++
		switch c {
		case '\\':
			l.at++
		case '(':
			depth++
		case ')':
			if depth--; depth == 0 {
				return string(l.data[from:l.at])
			}
		}
	}
	l.at = len(l.data)
	return ""
}

func (l *pdfLexer) array(depth int) []any {
	list := []any{}
	for {
		v := l.value(depth + 1)
		if word, ok := v.(pdfWord); v == nil || ok && word == "]" {
			return list
		}
		list = append(list, v)
	}
}

func (l *pdfLexer) dict(depth int) pdfDict {
	d := pdfDict{}
	for {
		key, ok := l.value(depth + 1).(pdfName)
		if !ok {
			return d
		}
		d[string(key)] = l.value(depth + 1)
	}
}
