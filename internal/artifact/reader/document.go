package reader

import (
	"strings"

	"securebench/internal/artifact"
)

// readDOCX reads the paragraphs and tables of a text. What is deleted, hidden or only
// spacing is left out.
func readDOCX(data []byte, f *artifact.File) error {
	p, err := openPack(data)
	if err != nil {
		return err
	}
	main, err := p.main("wordprocessingml.document", "a word-processing document")
	if err != nil {
		return err
	}
	root, err := p.tree(main)
	if err != nil {
		return err
	}
	relations, err := p.relations(main)
	if err != nil {
		return err
	}
	styles, err := p.tree(related(relations, "styles"))
	if err != nil {
		return err
	}
	w := &writing{styles: map[string]string{}}
	for _, s := range styles.all("style") {
		if s.attr(":type") == "paragraph" {
			w.styles[s.attr(":styleId")] = s.child("name").attr(":val")
		}
	}
	w.body(root.child("body"))
	f.Document = &artifact.Document{Blocks: w.blocks}
	return nil
}

// A writing collects the blocks of a text.
type writing struct {
	styles map[string]string // names of paragraphs' styles, by id
	blocks []artifact.Block
}

func (w *writing) body(n *node) {
	if n == nil {
		return
	}
	for _, c := range n.nodes {
		switch c.name {
		case "p":
			if text := runs(c); strings.TrimSpace(text) != "" {
				w.blocks = append(w.blocks, artifact.Block{Style: w.styles[c.child("pPr", "pStyle").attr(":val")], Text: text})
			}
		case "tbl":
			w.blocks = append(w.blocks, artifact.Block{Table: table(c, wordCell)})
		case "sdt":
			w.body(c.child("sdtContent"))
		case "ins", "customXml", "smartTag":
			w.body(c)
		}
	}
}

// table returns the texts of a table's cells.
func table(n *node, text func(*node) string) [][]string {
	rows := [][]string{}
	for _, tr := range n.all("tr") {
		row := []string{}
		for _, tc := range tr.all("tc") {
			row = append(row, text(tc))
		}
		rows = append(rows, row)
	}
	return rows
}

// wordCell returns the paragraphs of a cell, with those of tables in it.
func wordCell(n *node) string {
	w := &writing{}
	w.body(n)
	var lines []string
	for _, b := range w.blocks {
		for _, row := range b.Table {
			lines = append(lines, strings.Join(row, "\t"))
		}
		if b.Table == nil {
			lines = append(lines, b.Text)
		}
	}
	return strings.Join(lines, "\n")
}

// runs returns the text of a paragraph.
func runs(n *node) string {
	var out strings.Builder
	for _, c := range n.nodes {
		switch c.name {
		case "r":
			if hidden := c.child("rPr", "vanish"); !hidden.on() {
				out.WriteString(runs(c))
			}
		case "t":
			out.Write(c.text)
		case "tab", "ptab":
			out.WriteByte('\t')
		case "br", "cr":
			out.WriteByte('\n')
		case "noBreakHyphen":
			out.WriteByte('-')
		case "hyperlink", "ins", "moveTo", "smartTag", "fldSimple", "customXml", "sdt", "sdtContent":
			out.WriteString(runs(c))
		}
	}
	return out.String()
}

// readPPTX reads the texts and tables of slides, in the order in which they are shown.
// Slides that are hidden are left out.
func readPPTX(data []byte, f *artifact.File) error {
	p, err := openPack(data)
	if err != nil {
		return err
	}
	main, err := p.main("presentationml.presentation", "a presentation")
	if err != nil {
		return err
	}
	root, err := p.tree(main)
	if err != nil {
		return err
	}
	relations, err := p.relations(main)
	if err != nil {
		return err
	}
	f.Document = &artifact.Document{}
	seen := map[string]bool{}
	for _, id := range root.child("sldIdLst").all("sldId") {
		r, ok := relations[id.attr(":id")]
		if !ok || r.external || p.byName[r.target] == nil || seen[r.target] {
			return refuse("lacks a slide, or shows one twice")
		}
		seen[r.target] = true
		slide, err := p.tree(r.target)
		if err != nil {
			return err
		}
		if show := slide.attr("show"); show == "0" || show == "false" {
			continue
		}
		f.Document.Pages++
		f.Document.Blocks = append(f.Document.Blocks, shapes(slide.child("cSld", "spTree"), f.Document.Pages)...)
	}
	return nil
}

// shapes returns the texts and tables of shapes. The style of a text is the place that the
// slide's layout has for it, such as title.
func shapes(n *node, page int) []artifact.Block {
	var blocks []artifact.Block
	if n == nil {
		return nil
	}
	for _, c := range n.nodes {
		switch c.name {
		case "grpSp":
			blocks = append(blocks, shapes(c, page)...)
		case "sp":
			style := ""
			if place := c.child("nvSpPr", "nvPr", "ph"); place != nil {
				if style = place.attr("type"); style == "" {
					style = "body"
				}
			}
			for _, text := range drawingText(c.child("txBody")) {
				if strings.TrimSpace(text) != "" {
					blocks = append(blocks, artifact.Block{Page: page, Style: style, Text: text})
				}
			}
		case "graphicFrame":
			if t := c.child("graphic", "graphicData", "tbl"); t != nil {
				blocks = append(blocks, artifact.Block{Page: page, Table: table(t, func(tc *node) string { return strings.Join(drawingText(tc.child("txBody")), "\n") })})
			}
		}
	}
	return blocks
}
