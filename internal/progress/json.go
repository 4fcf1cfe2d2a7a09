package progress

import (
	"strconv"
	"time"

	"github.com/go-json-experiment/json"

	"securebench/internal/redact"
)

// maxJSONText bounds a string in bytes.
const maxJSONText = 64 << 10

// jsonLine returns an event as one line: the name as "event", the time, then
// its fields in order. What the options don't ask for is left out.
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
			v = redact.Escape(s[:min(len(s), maxJSONText)])
		case []Failure:
			v = escaped(s)
		}
		b = appendMember(append(b, ','), f.Key, v)
	}
	return string(append(b, "}\n"...))
}

func escaped(in []Failure) []Failure {
	out := make([]Failure, len(in))
	for i, f := range in {
		out[i] = Failure{name(f.TaskID), f.Attempt, name(f.Outcome), name(f.Reason)}
	}
	return out
}

// appendMember appends "key":value. A value that JSON cannot hold, such as
// NaN, becomes null: progress must not stop a run.
func appendMember(b []byte, key string, v any) []byte {
	val, err := json.Marshal(v, json.Deterministic(true))
	if err != nil {
		val = []byte("null")
	}
	return append(append(strconv.AppendQuoteToASCII(b, key), ':'), val...)
}
