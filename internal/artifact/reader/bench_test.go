package reader_test

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/xuri/excelize/v2"

	"securebench/internal/artifact"
	"securebench/internal/artifact/reader"
)

func benchmark(b *testing.B, as artifact.Type, data []byte) {
	b.SetBytes(int64(len(data)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := reader.Read(data, as); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkCSV(b *testing.B) {
	var data bytes.Buffer
	for i := 0; data.Len() < 1_000_000; i++ {
		fmt.Fprintf(&data, "%d,%d.%d,\"name, %d\",2024-01-01,text\n", i, i*7919, i, i)
	}
	benchmark(b, artifact.CSV, data.Bytes())
}

// BenchmarkXLSX reads workbooks of 1 MB: of values, and of which each tenth cell is a
// formula.
func BenchmarkXLSX(b *testing.B) {
	for name, formulas := range map[string]bool{"values": false, "formulas": true} {
		b.Run(name, func(b *testing.B) {
			benchmark(b, artifact.XLSX, written(b, func(f *excelize.File) error {
				w, err := f.NewStreamWriter("Sheet1")
				if err != nil {
					return err
				}
				rows := 15_000
				if formulas {
					rows = 12_000
				}
				for r := 1; r <= rows; r++ {
					row := []any{}
					for c := range 10 {
						switch {
						case formulas && c == 9:
							row = append(row, excelize.Cell{Formula: fmt.Sprintf("SUM(A%d:H%d)+1", r, r)})
						case c == 8:
							row = append(row, fmt.Sprint("name ", r*7919%997))
						default:
							row = append(row, float64((r*7919+c*104729)%1_000_003)/7)
						}
					}
					if err := w.SetRow(fmt.Sprint("A", r), row); err != nil {
						return err
					}
				}
				return w.Flush()
			}))
		})
	}
}
