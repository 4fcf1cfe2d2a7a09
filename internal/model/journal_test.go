package model_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
	"time"

	"securebench/internal/digest"
	"securebench/internal/harness"
	"securebench/internal/model"
)

// openJournal opens a journal's file under a salt.
func openJournal(t testing.TB, name string, salt digest.Salt) *model.Journal {
	t.Helper()
	f, err := os.OpenFile(name, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	j, err := model.OpenJournal(f, func(key string, answer []byte) string { return salt.Keyed("answer", key, answer) })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := j.Close(); err != nil {
			t.Error(err)
		}
	})
	return j
}

// TestJournal: what was answered is not asked again, whatever became of the
// process; anything else is.
func TestJournal(t *testing.T) {
	salt, err := digest.NewSalt()
	if err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(t.TempDir(), "answers.jsonl")
	b := newBench(t, harness.ChatAPI, "turns: [{say: \"Answer: 9\", usage: {input: 5, output: 2}}]", nil)
	ask := func(salt digest.Salt, attempt int, reused bool) {
		t.Helper()
		j := openJournal(t, name, salt)
		b.Keep(j)
		q := b.question("q")
		q.Attempt = attempt
		res, err := b.Ask(t.Context(), q, time.Minute, new(bytes.Buffer))
		if err != nil || res.Text != "Answer: 9" || res.Reused != reused {
			t.Fatalf("%+v: %v, want reused %v", res, err, reused)
		}
		// What it took is counted wherever its attempt gets a record.
		if res.Requests != 1 || res.Spent.Input != 5 || res.Spent.Output != 2 || len(res.Tries) != 1 || res.Latency <= 0 || res.First <= 0 {
			t.Errorf("reused %t: it took %+v", reused, res.Spending)
		}
		if err := j.Close(); err != nil {
			t.Fatal(err)
		}
	}
	ask(salt, 1, false)
	ask(salt, 1, true)
	ask(salt, 2, false) // another sample
	other, err := digest.NewSalt()
	if err != nil {
		t.Fatal(err)
	}
	ask(other, 1, false) // another run wrote it
	ask(salt, 2, true)
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	forged := bytes.Replace(data, []byte("Answer: 9"), []byte("Answer: 8"), 2)
	write(t, name, forged)
	ask(salt, 1, false)
	write(t, name, data[:len(data)-10]) // the write of the last line was cut short
	ask(other, 1, false)
	ask(salt, 1, true)
}

func write(t testing.TB, name string, data []byte) {
	t.Helper()
	if err := os.WriteFile(name, data, 0o600); err != nil {
		t.Fatal(err)
	}
}

// FuzzJournal: no file makes a journal give an answer that the run did not write.
func FuzzJournal(f *testing.F) {
	f.Add([]byte(""))
	f.Add([]byte("{\"key\":\"k\",\"mac\":\"m\",\"answer\":{\"text\":\"t\",\"usage\":{\"input_tokens\":1,\"cached_input_tokens\":0,\"output_tokens\":1,\"reasoning_tokens\":0}}}\n"))
	f.Add([]byte("{}\n\n{\"key\""))
	f.Fuzz(func(t *testing.T, data []byte) {
		name := filepath.Join(t.TempDir(), "answers.jsonl")
		write(t, name, data)
		j := openJournal(t, name, digest.Salt{1})
		if n := j.Len(); n != 0 {
			t.Errorf("%d answers", n)
		}
	})
}
