// Package datatest finds the public data sets for tests, and keeps where they lie apart
// from the tests of many packages. They are not part of the project: SECUREBENCH_DATA names
// the folder that holds them, whole or in part, laid out as "make data" takes them. No test
// may expect a number of rows: what is expected comes from the data.
package datatest

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
)

// Dir returns the folder of the data sets, and skips the test without one.
func Dir(tb testing.TB) string {
	tb.Helper()
	dir := os.Getenv("SECUREBENCH_DATA")
	if dir == "" {
		tb.Skip("SECUREBENCH_DATA is not set: it names the folder with the data sets")
	}
	return dir
}

// Rows returns the name of a data set's file of rows.
func Rows(tb testing.TB, set string) string {
	tb.Helper()
	return first(tb, set+"/public/rows.jsonl", set+".jsonl")
}

// Solutions returns the name of the file of GSM8K's model solutions.
func Solutions(tb testing.TB) string {
	tb.Helper()
	return first(tb, "gsm8k/public/model_solutions.jsonl", "gsm8k-answers.jsonl")
}

// first returns the first file that is there, and skips the test without one.
func first(tb testing.TB, names ...string) string {
	tb.Helper()
	dir := Dir(tb)
	for _, name := range names {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if _, err := os.Stat(path); err == nil {
			return path
		}
	}
	tb.Skipf("%s has no %s", dir, names[0])
	return ""
}

// Lines returns the lines of a file.
func Lines(tb testing.TB, path string) [][]byte {
	tb.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		tb.Fatal(err)
	}
	return bytes.Split(bytes.TrimSpace(data), []byte("\n"))
}

// Recorded returns the name of the file of what models answered to a data set's rows.
func Recorded(tb testing.TB, set string) string {
	tb.Helper()
	return first(tb, set+"/public/outputs.jsonl", set+"-outputs.jsonl")
}
