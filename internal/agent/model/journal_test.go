package model_test

import (
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"securebench/internal/agent/harness"
	"securebench/internal/agent/model"
	"securebench/internal/digest"
	"securebench/internal/gateway/access"
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
	b := newBench(t, access.Chat, "turns: [{say: \"Answer: 9\", usage: {input: 5, output: 2}}]", nil)
	ask := func(salt digest.Salt, attempt int, reused bool, lost int64) {
		t.Helper()
		j := openJournal(t, name, salt)
		b.Keep(j, nil)
		q := b.question("q")
		q.Attempt = attempt
		res, err := b.Ask(t.Context(), q, time.Minute, new(bytes.Buffer))
		if err != nil || res.Text != "Answer: 9" || res.Reused != reused {
			t.Fatalf("%+v: %v, want reused %v", res, err, reused)
		}
		// What it took is counted wherever its attempt gets a record.
		// So is a request whose answer was lost, with its bound.
		if res.Requests != 1+lost || res.Spent.Input != 5+3*lost || res.Spent.Output != 2+64*lost || len(res.Tries) != int(1+lost) || res.Latency <= 0 || res.First <= 0 {
			t.Errorf("reused %t: it took %+v", reused, res.Spending)
		}
		if err := j.Close(); err != nil {
			t.Fatal(err)
		}
	}
	ask(salt, 1, false, 0)
	ask(salt, 1, true, 0)
	ask(salt, 2, false, 0) // another sample
	other, err := digest.NewSalt()
	if err != nil {
		t.Fatal(err)
	}
	ask(other, 1, false, 0) // another run wrote it
	ask(salt, 2, true, 0)
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	forged := bytes.Replace(data, []byte("Answer: 9"), []byte("Answer: 8"), 2)
	write(t, name, forged)
	ask(salt, 1, false, 1)
	write(t, name, data[:len(data)-10]) // the write of the last line was cut short
	ask(other, 1, false, 1)
	ask(salt, 1, true, 0)
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

// TestCutQuestion: a question that was under way when a run was killed is counted by the
// run that resumes it: one request, and at most its tokens. It may be asked once more,
// whatever the budget. One that failed, or was answered, is not.
func TestCutQuestion(t *testing.T) {
	for _, api := range apis() {
		name := filepath.Join(t.TempDir(), "answers.jsonl")
		salt := digest.Salt{2}
		b := newBench(t, api, "turns: [{say: nine, usage: {input: 5, output: 2}, before: [{hang: true}]}]", func(m *harness.Model) { m.Requests = 1 })
		b.Keep(openJournal(t, name, salt), nil)
		ctx, kill := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() {
			_, err := b.Ask(ctx, b.question("q"), time.Minute, io.Discard)
			done <- err
		}()
		for len(b.server.Requests()) == 0 {
			time.Sleep(time.Millisecond)
		}
		kill()
		if err := <-done; err == nil {
			t.Fatal("it was answered")
		}
		for n, want := range []struct{ requests, output int64 }{{2, 64 + 2}, {2, 64 + 2}} { // the second is of the journal
			b.Keep(openJournal(t, name, salt), nil)
			res, _, err := b.put(t, "q")
			if counts := b.Counts(res); err != nil || res.Text != "nine" || counts["requests"] != want.requests || counts["output_tokens"] != want.output {
				t.Errorf("%s, resume %d: %+v, %v: %v", api, n, res, counts, err)
			}
		}
		f := newBench(t, api, "turns: [{before: [{status: 500, times: -1}]}]", nil)
		f.Keep(openJournal(t, name, salt), nil)
		_, _, failed := f.put(t, "other")
		f.Keep(openJournal(t, name, salt), nil)
		res, _, again := f.put(t, "other")
		if failed == nil || again == nil || len(res.Tries) > 8 { // four, and those of our own
			t.Errorf("%s: what failed is counted again: %+v", api, res)
		}
	}
}

// TestJournalOfTwo: two clients of a run share a journal, and neither takes the answers
// of the other or spends its budget, whatever they ask.
func TestJournalOfTwo(t *testing.T) {
	name := filepath.Join(t.TempDir(), "answers.jsonl")
	agent := newBench(t, access.Chat, "turns: [{say: nine, usage: {input: 5, output: 2}}]", func(m *harness.Model) { m.Requests = 1 })
	other, err := model.New(model.Config{Who: "judge", Keys: access.Keys{Key: key},
		Settings: harness.Model{Relay: harness.Relay{Address: access.Address{API: access.Chat, BaseURL: agent.url}, Model: "m-1", Requests: 1}, MaxTokens: 64}})
	if err != nil {
		t.Fatal(err)
	}
	judge := bench{other, agent.server, agent.url}
	for n, reused := range []bool{false, true} {
		j := openJournal(t, name, digest.Salt{3})
		for who, c := range map[string]bench{"agent": agent, "judge": judge} {
			c.Keep(j, nil)
			res, _, err := c.put(t, "q")
			if err != nil || res.Text != "nine" || res.Reused != reused || c.Counts(res)["requests"] != 1 {
				t.Errorf("part %d, %s: %+v, %v", n, who, res, err)
			}
		}
	}
	if n := len(agent.server.Requests()); n != 2 {
		t.Errorf("the provider was asked %d times, want once by each", n)
	}
}
