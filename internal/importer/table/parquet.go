package table

import (
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"math"
	"math/big"
	"os"
	"slices"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/format"

	"securebench/internal/redact"
	"securebench/internal/source"
)

// maxNesting bounds how deep lists and objects of a column may be.
const maxNesting = 32

// columnar reads Parquet: one cursor for each leaf of the schema, from which a row is put
// together by the levels that its values have.
type columnar struct {
	name   string
	fields []*field
	leaves []*cursor // by their position in the schema; nil for what nobody wants
	row    int64
	rows   int64
}

// field is a node of the schema.
type field struct {
	name               string
	optional, repeated bool
	def, rep           int // the levels of a value that is there
	first, last        int // its leaves
	children           []*field
	list, mapping      bool
	text               func(parquet.Value) (source.Kind, string) // of a leaf
	kind               string                                    // of a leaf, in words
}

// openParquet reads the schema, at the end of the file.
func (f *File) openParquet(file *os.File) (err error) {
	defer f.damaged(&err)
	at := source.Pos{File: f.Name}
	head := make([]byte, 4)
	if _, err := file.ReadAt(head, 0); err != nil || string(head) != "PAR1" {
		return &source.Problem{Pos: at, Message: "the file is not in the format Parquet", Fix: "if it is text, give --read-as csv, tsv, json or jsonl; else fetch it again"}
	}
	opened, err := parquet.OpenFile(file, f.Size, parquet.SkipPageIndex(true), parquet.SkipBloomFilters(true), parquet.ReadBufferSize(1<<16))
	if err != nil {
		return &source.Problem{Pos: at, Message: fmt.Sprintf("the Parquet file is cut off or damaged: it has %d bytes, and no valid end", f.Size), Fix: "write or fetch it again"}
	}
	c := &columnar{name: f.Name, rows: opened.NumRows(), leaves: make([]*cursor, len(opened.Schema().Columns()))}
	classes := classesOf(opened)
	if p := namesOf(opened.Root(), at); p != nil {
		return p
	}
	for _, child := range opened.Root().Columns() {
		made, err := newField(child, 0)
		if err != nil {
			return &source.Problem{Pos: at, Message: fmt.Sprintf("the column %q %v", child.Name(), err), Fix: "write the file without it"}
		}
		c.fields = append(c.fields, made)
		f.Columns = append(f.Columns, Column{Name: child.Name(), Type: made.words(), Classes: classes[child.Name()]})
	}
	each(opened.Root(), func(leaf *parquet.Column) { c.leaves[leaf.Index()] = &cursor{column: leaf} })
	f.rows = c
	return nil
}

// namesOf refuses columns without names, with the same one, or with one that is no text.
func namesOf(c *parquet.Column, at source.Pos) *source.Problem {
	seen := map[string]bool{}
	for _, child := range c.Columns() {
		if name := child.Name(); name == "" || seen[name] || !utf8.ValidString(name) {
			return &source.Problem{Pos: at, Message: fmt.Sprintf("the column %q has no name, that of another, or one that is not UTF-8", name), Fix: "write the file with names of its columns that differ"}
		}
		seen[child.Name()] = true
		if p := namesOf(child, at); p != nil {
			return p
		}
	}
	if len(c.Columns()) == 0 && !c.Leaf() {
		return &source.Problem{Pos: at, Message: fmt.Sprintf("the column %q has no values", c.Name()), Fix: "write the file without it"}
	}
	return nil
}

// each calls do with the leaves below a column.
func each(c *parquet.Column, do func(*parquet.Column)) {
	if c.Leaf() {
		do(c)
	}
	for _, child := range c.Columns() {
		each(child, do)
	}
}

// damaged turns a panic of the module that reads Parquet into an error: the file is
// somebody else's.
func (f *File) damaged(err *error) {
	if r := recover(); r != nil {
		at := source.Pos{File: f.Name}
		if c, ok := f.rows.(*columnar); ok {
			at.Line = int(c.row) + 1
		}
		*err = &source.Problem{Pos: at, Message: "the Parquet file is damaged", Fix: "write or fetch it again"}
	}
}

// classesOf reads the names of classes that the library of the hub's data sets writes
// beside the schema. What has another form says nothing.
func classesOf(f *parquet.File) map[string][]string {
	text, ok := f.Lookup("huggingface")
	if !ok {
		return nil
	}
	var about struct {
		Info struct {
			Features map[string]struct {
				Names []string `json:"names"`
				Type  string   `json:"_type"`
			} `json:"features"`
		} `json:"info"`
	}
	if json.Unmarshal([]byte(text), &about) != nil {
		return nil
	}
	out := map[string][]string{}
	for name, feature := range about.Info.Features {
		if feature.Type == "ClassLabel" && len(feature.Names) > 0 {
			out[name] = feature.Names
		}
	}
	return out
}

// newField reads a node of the schema.
func newField(c *parquet.Column, depth int) (*field, error) {
	if depth > maxNesting {
		return nil, errors.New("is nested too deep")
	}
	f := &field{name: c.Name(), optional: c.Optional(), repeated: c.Repeated(), def: c.MaxDefinitionLevel(), rep: c.MaxRepetitionLevel(), first: math.MaxInt}
	each(c, func(leaf *parquet.Column) {
		f.first, f.last = min(f.first, leaf.Index()), max(f.last, leaf.Index()+1)
	})
	if c.Leaf() {
		var err error
		f.text, f.kind, err = leafOf(c)
		return f, err
	}
	for _, child := range c.Columns() {
		made, err := newField(child, depth+1)
		if err != nil {
			return nil, err
		}
		f.children = append(f.children, made)
	}
	one := f.children[0]
	if logical := c.Type().LogicalType(); len(f.children) == 1 && one.repeated && logical != nil {
		switch logical.Value.(type) {
		case *format.ListType:
			f.list = true
		case *format.MapType:
			f.mapping = len(one.children) == 2
		}
	}
	return f, nil
}

// words says what a column's values are.
func (f *field) words() string {
	switch {
	case f.list:
		return "list of " + f.children[0].element().words()
	case f.mapping:
		return "map"
	case len(f.children) > 0:
		names := make([]string, len(f.children))
		for i, child := range f.children {
			names[i] = child.name
		}
		return "object (" + list(names) + ")"
	case f.repeated:
		return "list of " + f.kind
	}
	return f.kind
}

// element is what a list is of: below the repeated node of a schema of three levels, or
// that node itself in older ones.
func (f *field) element() *field {
	if len(f.children) == 1 && f.name != "array" {
		return f.children[0]
	}
	return f.once()
}

// once is one of the values of a repeated node.
func (f *field) once() *field {
	one := *f
	one.repeated = false
	return &one
}

// leafOf returns how the values of a leaf are written, and what they are in words.
func leafOf(c *parquet.Column) (func(parquet.Value) (source.Kind, string), string, error) {
	if logical := c.Type().LogicalType(); logical != nil {
		if text, kind := logicalLeaf(logical.Value); text != nil {
			return text, kind, nil
		}
		if d, ok := logical.Value.(*format.DecimalType); ok {
			return decimal(int(d.Scale)), "number", nil
		}
	}
	switch c.Type().Kind() {
	case parquet.Boolean:
		return func(v parquet.Value) (source.Kind, string) { return source.Bool, strconv.FormatBool(v.Boolean()) }, "true or false", nil
	case parquet.Int32:
		return func(v parquet.Value) (source.Kind, string) {
			return source.Number, strconv.FormatInt(int64(v.Int32()), 10)
		}, "integer", nil
	case parquet.Int64:
		return func(v parquet.Value) (source.Kind, string) { return source.Number, strconv.FormatInt(v.Int64(), 10) }, "integer", nil
	case parquet.Float:
		return func(v parquet.Value) (source.Kind, string) { return number(float64(v.Float()), 32) }, "number", nil
	case parquet.Double:
		return func(v parquet.Value) (source.Kind, string) { return number(v.Double(), 64) }, "number", nil
	case parquet.ByteArray, parquet.FixedLenByteArray:
		return textOrBytes, "bytes", nil
	}
	return nil, "", errors.New("has values of a type that is not supported")
}

// logicalLeaf is leafOf for what a schema says of the meaning of values.
func logicalLeaf(t format.LogicalTypeValue) (func(parquet.Value) (source.Kind, string), string) {
	switch t := t.(type) {
	case *format.StringType, *format.EnumType, *format.JsonType:
		return func(v parquet.Value) (source.Kind, string) { return source.String, string(v.ByteArray()) }, "text"
	case *format.IntType:
		if !t.IsSigned {
			return func(v parquet.Value) (source.Kind, string) {
				if v.Kind() == parquet.Int32 {
					return source.Number, strconv.FormatUint(uint64(v.Uint32()), 10)
				}
				return source.Number, strconv.FormatUint(v.Uint64(), 10)
			}, "integer"
		}
	case *format.DateType:
		return func(v parquet.Value) (source.Kind, string) {
			return source.String, time.Unix(0, 0).UTC().AddDate(0, 0, int(v.Int32())).Format(time.DateOnly)
		}, "date"
	case *format.TimestampType:
		return timestamp(t.Unit), "time"
	case *format.NullType:
		return func(parquet.Value) (source.Kind, string) { return source.Null, "" }, "nothing"
	}
	return nil, ""
}

// timestamp writes a point in time.
func timestamp(unit format.TimeUnit) func(parquet.Value) (source.Kind, string) {
	of := time.Unix
	switch unit.Value.(type) {
	case *format.MilliSeconds:
		of = func(n, _ int64) time.Time { return time.UnixMilli(n) }
	case *format.MicroSeconds:
		of = func(n, _ int64) time.Time { return time.UnixMicro(n) }
	case *format.NanoSeconds:
		of = func(n, _ int64) time.Time { return time.Unix(0, n) }
	}
	return func(v parquet.Value) (source.Kind, string) {
		return source.String, of(v.Int64(), 0).UTC().Format(time.RFC3339Nano)
	}
}

// decimal writes a number of so many digits after its point.
func decimal(scale int) func(parquet.Value) (source.Kind, string) {
	const most = 100
	return func(v parquet.Value) (source.Kind, string) {
		n := new(big.Int)
		switch v.Kind() {
		case parquet.Int32:
			n.SetInt64(int64(v.Int32()))
		case parquet.Int64:
			n.SetInt64(v.Int64())
		default:
			b := v.ByteArray()
			if n.SetBytes(b); len(b) > 0 && b[0] >= 0x80 { // two's complement
				n.Sub(n, new(big.Int).Lsh(big.NewInt(1), uint(8*len(b))))
			}
		}
		if scale < 0 || scale > most {
			return source.String, n.String()
		}
		down := new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(scale)), nil)
		return source.Number, new(big.Rat).SetFrac(n, down).FloatString(scale)
	}
}

// number writes a number; one that is none has no value, as pandas means it.
func number(x float64, bits int) (source.Kind, string) {
	if math.IsNaN(x) {
		return source.Null, ""
	}
	if math.IsInf(x, 0) {
		return source.String, strconv.FormatFloat(x, 'g', -1, bits)
	}
	b, err := json.Marshal(x)
	if bits == 32 {
		b, err = json.Marshal(float32(x))
	}
	if err != nil {
		return source.Null, ""
	}
	return source.Number, string(b)
}

// textOrBytes writes bytes of which the schema says nothing: as text if they are text,
// else in base64.
func textOrBytes(v parquet.Value) (source.Kind, string) {
	if utf8.Valid(v.ByteArray()) {
		return source.String, string(v.ByteArray())
	}
	return source.String, base64.StdEncoding.EncodeToString(v.ByteArray())
}

// Want says which columns rows need; the others are not read.
func (f *File) Want(columns []string) {
	c, ok := f.rows.(*columnar)
	if !ok {
		return
	}
	for _, field := range c.fields {
		if !slices.Contains(columns, field.name) {
			for i := field.first; i < field.last; i++ {
				c.leaves[i] = nil
			}
		}
	}
}

func (c *columnar) close() error {
	var errs []error
	for _, leaf := range c.leaves {
		if leaf != nil {
			errs = append(errs, leaf.close())
		}
	}
	return errors.Join(errs...)
}

// next puts a row together.
func (c *columnar) next() (row *source.Node, err error) {
	if c.row == c.rows {
		return nil, io.EOF
	}
	c.row++
	at := source.Pos{File: c.name, Line: int(c.row)}
	defer func() {
		if r := recover(); r != nil {
			row, err = nil, &source.Problem{Pos: at, Message: "the Parquet file is damaged: " + redact.EscapeShort(fmt.Sprint(r), 200), Fix: "write or fetch it again"}
		}
	}()
	for i, leaf := range c.leaves {
		if leaf == nil {
			continue
		}
		if err := leaf.row(); err != nil {
			return nil, &source.Problem{Pos: at, Message: fmt.Sprintf("the values of the column %q cannot be read: the Parquet file is cut off or damaged", c.top(i)), Fix: "write or fetch it again"}
		}
	}
	row = &source.Node{Pos: at, Kind: source.Map, Fields: make([]source.Field, 0, len(c.fields))}
	for _, f := range c.fields {
		if c.leaves[f.first] == nil {
			continue
		}
		value, err := c.value(f, at)
		if err != nil {
			return nil, err
		}
		row.Fields = append(row.Fields, source.Field{Name: f.name, Pos: at, Value: value})
	}
	return row, nil
}

// top is the column that a leaf belongs to.
func (c *columnar) top(leaf int) string {
	for _, f := range c.fields {
		if leaf >= f.first && leaf < f.last {
			return f.name
		}
	}
	return ""
}

// value takes the next value of a node.
func (c *columnar) value(f *field, at source.Pos) (*source.Node, error) {
	n := &source.Node{Pos: at}
	switch v := c.leaves[f.first].peek(); {
	case f.repeated:
		return c.several(f, f.once(), at)
	case f.optional && v.DefinitionLevel() < f.def:
		c.skip(f)
		return n, nil
	case f.list:
		return c.several(f.children[0], f.children[0].element(), at)
	case f.mapping:
		return c.pairs(f.children[0], at)
	case len(f.children) > 0:
		n.Kind = source.Map
		for _, child := range f.children {
			value, err := c.value(child, at)
			if err != nil {
				return nil, err
			}
			n.Fields = append(n.Fields, source.Field{Name: child.name, Pos: at, Value: value})
		}
		return n, nil
	default:
		c.skip(f)
		if v.IsNull() {
			return n, nil
		}
		n.Kind, n.Text = f.text(v)
	}
	if n.Kind == source.String && !utf8.ValidString(n.Text) {
		return nil, &source.Problem{Pos: at, Message: fmt.Sprintf("the column %q has a text that is not UTF-8", c.top(f.first)), Fix: "write it as UTF-8, or as bytes"}
	}
	return n, nil
}

// several takes the elements of a repeated node.
func (c *columnar) several(repeated, element *field, at source.Pos) (*source.Node, error) {
	out := &source.Node{Pos: at, Kind: source.List}
	first := c.leaves[repeated.first]
	if first.peek().DefinitionLevel() < repeated.def {
		c.skip(repeated)
		return out, nil
	}
	for {
		item, err := c.value(element, at)
		if err != nil {
			return nil, err
		}
		out.Items = append(out.Items, item)
		if !first.more() || first.peek().RepetitionLevel() < repeated.rep {
			return out, nil
		}
	}
}

// pairs takes a map, whose keys become the names of an object.
func (c *columnar) pairs(repeated *field, at source.Pos) (*source.Node, error) {
	entries, err := c.several(repeated, repeated.once(), at)
	if err != nil {
		return nil, err
	}
	out := &source.Node{Pos: at, Kind: source.Map}
	for _, e := range entries.Items {
		key := e.Fields[0].Value
		if out.Get(key.Text) != nil {
			return nil, source.Problemf(at, "the column %q has a map with the key %q twice", c.top(repeated.first), key.Text)
		}
		out.Fields = append(out.Fields, source.Field{Name: key.Text, Pos: at, Value: e.Fields[1].Value})
	}
	return out, nil
}

// skip passes one value of each leaf below a node.
func (c *columnar) skip(f *field) {
	for i := f.first; i < f.last; i++ {
		c.leaves[i].taken++
	}
}

// cursor reads the values of one leaf.
type cursor struct {
	column *parquet.Column
	pages  parquet.Pages
	page   parquet.Page
	values parquet.ValueReader

	read  []parquet.Value // of the page, not yet of a row
	space [256]parquet.Value
	line  []parquet.Value // those of the row
	taken int             // of these
}

func (c *cursor) close() error {
	if c.page != nil {
		parquet.Release(c.page)
	}
	if c.pages == nil {
		return nil
	}
	return c.pages.Close()
}

// peek is the next value of the row.
func (c *cursor) peek() parquet.Value { return c.line[c.taken] }

// more reports whether the row has another.
func (c *cursor) more() bool { return c.taken < len(c.line) }

// row reads the values of the next row: all up to the first that begins another.
func (c *cursor) row() error {
	c.line, c.taken = c.line[:0], 0
	for {
		for i, v := range c.read {
			if v.RepetitionLevel() == 0 && len(c.line) > 0 {
				c.read = c.read[i:]
				return nil
			}
			c.line = append(c.line, v)
		}
		if c.read = nil; len(c.line) > 0 && c.column.MaxRepetitionLevel() == 0 {
			return nil
		}
		switch err := c.fill(); {
		case errors.Is(err, io.EOF) && len(c.line) > 0:
			return nil
		case err != nil:
			return err
		}
	}
}

// fill reads some values more. Those of the row are kept from the page that is left.
func (c *cursor) fill() error {
	if c.pages == nil {
		c.pages = c.column.Pages()
	}
	for {
		if c.page == nil {
			page, err := c.pages.ReadPage()
			if err != nil {
				return err
			}
			c.page, c.values = page, page.Values()
		}
		n, err := c.values.ReadValues(c.space[:])
		if c.read = c.space[:n]; n > 0 {
			return nil
		}
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		for i, v := range c.line {
			c.line[i] = v.Clone()
		}
		parquet.Release(c.page)
		c.page, c.values = nil, nil
	}
}
