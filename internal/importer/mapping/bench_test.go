package mapping_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/parquet-go/parquet-go"

	"securebench/internal/families"
	"securebench/internal/importer/mapping"
)

// question is a row of a large table.
type question struct {
	Question string   `parquet:"question,snappy"`
	Choices  []string `parquet:"choices,list,snappy"`
	Answer   int64    `parquet:"answer"`
}

// BenchmarkMillion makes a pack of a million rows of Parquet, and reports the seconds, those
// of processors, and the most memory that the process had while it did so.
func BenchmarkMillion(b *testing.B) {
	const n = 1_000_000
	at := largeTable(b, n)
	for i := 0; b.Loop(); i++ {
		if err := os.WriteFile("/proc/self/clear_refs", []byte("5"), 0); err != nil { // the peak so far is forgotten
			b.Fatal(err)
		}
		before := processor(b)
		sum, err := mapping.Import(context.Background(), []mapping.Table{{Path: at, Name: at}}, families.All(), filepath.Join(b.TempDir(), strconv.Itoa(i)),
			mapping.Options{Family: "multiple_choice", Map: []string{"question=question", "choices=choices", "answer=answer"}, ID: "large", Dataset: "large"})
		if err != nil || sum.Rows != n {
			b.Fatalf("%d rows, %v", sum.Rows, err)
		}
		b.ReportMetric(b.Elapsed().Seconds()/float64(i+1), "s/op")
		b.ReportMetric(processor(b)-before, "processor-s")
		b.ReportMetric(peak(b), "peak-MB")
	}
}

// largeTable writes n rows in groups of the size that writers have.
func largeTable(b *testing.B, n int) string {
	b.Helper()
	at := filepath.Join(b.TempDir(), "large.parquet")
	f, err := os.Create(at)
	if err != nil {
		b.Fatal(err)
	}
	w := parquet.NewGenericWriter[question](f, parquet.MaxRowsPerRowGroup(100_000))
	rows := make([]question, 1000)
	for i := range n / len(rows) {
		for j := range rows {
			k := i*len(rows) + j
			rows[j] = question{fmt.Sprintf("What comes after %d, if every number is followed by the next one, and none is left out on the way?", k),
				[]string{strconv.Itoa(k + 1), strconv.Itoa(k - 1), strconv.Itoa(k + 2), "no number"}, int64(k % 4)}
		}
		if _, err := w.Write(rows); err != nil {
			b.Fatal(err)
		}
	}
	if err := errors.Join(w.Close(), f.Close()); err != nil {
		b.Fatal(err)
	}
	return at
}

// processor is how long processors have worked for this process, which says what an import
// takes where others work as well.
func processor(b *testing.B) float64 {
	b.Helper()
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		b.Fatal(err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano()).Seconds()
}

// peak is the most memory that this process had, in millions of bytes.
func peak(b *testing.B) float64 {
	b.Helper()
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		b.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), "VmHWM:")
	kib, err := strconv.Atoi(strings.Fields(rest)[0])
	if err != nil {
		b.Fatal(err)
	}
	return float64(kib) * 1024 / 1e6
}
