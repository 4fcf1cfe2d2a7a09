package reader_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"securebench/internal/artifact"
)

// FuzzCSV: a table is rectangular, and the same once it is written again.
func FuzzCSV(f *testing.F) {
	for _, seed := range []string{"a,b\n1,2\n", "\ufeffa,b\r\n\"1\",\"2,3\"\r\n", "a\n\"\"\n", "a,b\n1,\"2\n3,4\n", "a\r1\r", "a,b\n1\n", "a\x00", "\"a\"\"\r\"\n"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		file, reason := read(t, data, artifact.CSV)
		if reason != "" {
			return
		}
		var again strings.Builder
		for _, row := range file.Table.Rows {
			if len(row) != len(file.Table.Rows[0]) {
				t.Errorf("rows of %d and %d fields", len(row), len(file.Table.Rows[0]))
			}
			for i, field := range row {
				again.WriteString([]string{"", ","}[min(i, 1)] + `"` + strings.ReplaceAll(field, `"`, `""`) + `"`)
			}
			again.WriteString("\n")
		}
		if strings.Contains(again.String(), "\r\n") { // of a field "\r\r\n"
			return
		}
		if second, reason := read(t, []byte(again.String()), artifact.CSV); reason != "" || !cmp.Equal(file.Table, second.Table) {
			t.Errorf("%q: %s\n%v\n%v", data, reason, file, second)
		}
	})
}

// FuzzJSON: what is read as JSON is JSON to the standard library as well.
func FuzzJSON(f *testing.F) {
	for _, seed := range []string{`{"a":[1,2.5,null,"\u00e9"]}`, "\ufeff1", `{"a":1,"a":2}`, "[1]x", "NaN", strings.Repeat("[", 1_001), "\"\xff\""} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if file, reason := read(t, data, artifact.JSON); reason == "" && !json.Valid([]byte(*file.Text)) {
			t.Errorf("%q is not JSON", data)
		}
	})
}
