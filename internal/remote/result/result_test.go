package result_test

import (
	"bytes"
	"errors"
	"testing"

	"securebench/internal/pipeline/attempt"
	"securebench/internal/remote"
	"securebench/internal/remote/result"
)

// FuzzRead: whatever a worker sends as a result, something comes of the job only if it
// is the holder's, has the job's nonce and grant, and can be read.
func FuzzRead(f *testing.F) {
	good, err := attempt.Encode(remote.Result{Nonce: "n", Grant: 2, Value: []byte(`{"verdict":{"outcome":"passed","containment":"passive"}}`)})
	if err != nil {
		f.Fatal(err)
	}
	f.Add("w.1", good)
	f.Add("w.2", good)
	f.Add("w.1", bytes.Replace(good, []byte(`"n"`), []byte(`"m"`), 1))
	f.Add("w.1", bytes.Replace(good, []byte(`2`), []byte(`1`), 1))
	f.Add("w.1", bytes.Replace(good, []byte(`passed`), []byte(`\xff`), 1))
	f.Add("w.1", []byte(`{"nonce":"n","grant":2,"put":"sha256:x"}`))
	f.Add("w.1", []byte(`{"nonce":"n","grant":2,"value":{"produced":{}}}`))
	f.Add("w.1", []byte(`{"nonce":"n","grant":2,"value":{"completed":{}}}`))
	f.Add("w.1", []byte(`{"nonce":"n","grant":2,"value":{"failed":{"message":"x","phase":"verify"}}}`))
	job := result.Job{Kind: "v", Nonce: "n", Holder: "w.1", Grant: 2}
	f.Fuzz(func(t *testing.T, who string, data []byte) {
		var m remote.Result
		if attempt.Decode(data, &m) != nil {
			return
		}
		out, err := job.Read(who, m)
		late, other := errors.Is(err, result.ErrLate), errors.Is(err, result.ErrOther)
		if fits := who == "w.1" && m.Nonce == "n" && m.Grant == 2; fits == (late || other) {
			t.Errorf("%q of %q: %v", data, who, err)
		}
		if err == nil && (out.Verdict == nil) == (out.Failed == nil) {
			t.Errorf("%q is taken as %+v", data, out)
		}
	})
}
