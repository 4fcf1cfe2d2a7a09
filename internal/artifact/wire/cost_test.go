package wire_test

import (
	"bytes"
	"fmt"
	"testing"

	"securebench/internal/artifact"
	"securebench/internal/artifact/wire"
)

// BenchmarkWorkbook passes a workbook of 135,000 cells, as a file of 1 MB has them.
func BenchmarkWorkbook(b *testing.B) {
	var s artifact.Sheet
	for i := range 135_000 {
		s.Cells = append(s.Cells, artifact.Cell{Row: i/3 + 1, Column: i%3 + 1, Value: artifact.Value{Kind: artifact.String, Text: fmt.Sprint("item ", i)}})
	}
	f := &artifact.File{Type: artifact.XLSX, Workbook: &artifact.Workbook{Sheets: []artifact.Sheet{s}}}
	var out bytes.Buffer
	b.Run("write", func(b *testing.B) {
		for b.Loop() {
			out.Reset()
			if err := wire.Write(&out, f); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("read", func(b *testing.B) {
		message := out.String()
		for b.Loop() {
			if _, err := wire.Read(message); err != nil {
				b.Fatal(err)
			}
		}
	})
}
