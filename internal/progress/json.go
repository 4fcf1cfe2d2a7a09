package progress

import (
	"slices"
	"strconv"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"securebench/internal/redact"
)

// maxJSONText bounds a string in bytes.
const maxJSONText = 64 << 10

// jsonLine returns an event as one line: the name as "event", the time, then
// its fields in order, in ASCII. What the options don't ask for is left out.
func jsonLine(e Event, opts Options, now time.Time) string {
	if e.Name == NameAgentOutput && !opts.ShowAgentOutput {
		return ""
	}
	b := appendMember([]byte{'{'}, "event", e.Name)
	b = appendMember(append(b, ','), "time", now.UTC().Format(time.RFC3339Nano))
	for _, f := range e.Fields {
		v := f.Value
		switch s := v.(type) {
		case string:
			if f.Key == "stdout" || f.Key == "stderr" {
				if !opts.ShowCommandOutput {
					continue
				}
				s = message(s)
			}
			v = s[:min(len(s), maxJSONText)]
			if !isName(f.Key) {
				v = redact.Escape(s[:min(len(s), maxJSONText)])
			}
		}
		b = appendMember(append(b, ','), f.Key, v)
	}
	return string(append(b, "}\n"...))
}

// isName reports whether a field names something that its reader will look
// for: it is not changed, JSON's own escapes hold it.
func isName(key string) bool {
	return slices.Contains([]string{"task_id", "run_id", "output_dir", "output_path", "output"}, key)
}

// appendMember appends "key":value. A value that JSON cannot hold, such as
// NaN, becomes null: progress must not stop a run.
func appendMember(b []byte, key string, v any) []byte {
	val, err := json.Marshal(v, json.Deterministic(true), jsontext.AllowInvalidUTF8(true))
	if err != nil {
		val = []byte("null")
	}
	return append(append(strconv.AppendQuoteToASCII(b, key), ':'), redact.ASCII(val)...)
}
