package record

import (
	"bytes"
	"maps"
	"os"
	"path/filepath"
	"testing"
)

// TestAccounts: what an attempt without a record had used is there, once, when the run
// goes on, from lines that this run wrote whole.
func TestAccounts(t *testing.T) {
	d, err := Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	if err := d.Begin(false); err != nil {
		t.Fatal(err)
	}
	use := func(n int64) map[string]int64 { return map[string]int64{"requests": n} }
	begin := func() (former int64, note func(map[string]int64) error) {
		a, _, err := d.Accounts(nil)
		if err != nil {
			t.Fatal(err)
		}
		counts, note := a.Begin("t", 1)
		if again, _ := a.Begin("t", 1); again != nil {
			t.Errorf("a second try has used %v before", again)
		}
		return counts["requests"], note
	}
	noted := func(note func(map[string]int64) error, n int64) {
		t.Helper()
		if err := note(use(n)); err != nil {
			t.Fatal(err)
		}
	}
	first, note := begin()
	noted(note, 1)
	noted(note, 2)
	_, again := d.accounts.Begin("t", 1) // a try that failed was before
	noted(again, 3)
	_, other := d.accounts.Begin("other", 1)
	noted(other, 9)
	if n, _ := begin(); first != 0 || n != 5 {
		t.Errorf("%d requests at first and %d after a kill, want 0 and 5", first, n)
	}
	name := filepath.Join(d.path, SpentName)
	whole, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	for what, tt := range map[string]struct {
		content []byte
		want    int64
	}{
		"cut short": {whole[:len(whole)-1], 5}, // the line of the other
		"forged":    {bytes.Replace(whole, []byte(`"requests":5`), []byte(`"requests":4`), 1), 2},
		"another's": {bytes.ReplaceAll(whole, []byte(`"task":"other"`), []byte(`"task":"t"`)), 5},
		"not JSON":  {append([]byte("x\n"), whole...), 5},
	} {
		if err := os.WriteFile(name, tt.content, 0o600); err != nil {
			t.Fatal(err)
		}
		if n, _ := begin(); n != tt.want {
			t.Errorf("%s: %d requests, want %d", what, n, tt.want)
		}
	}
	l := storedLine()
	l.TaskID, l.Attempt = "t", 1
	if err := d.Append(l); err != nil {
		t.Fatal(err)
	}
	if n, _ := begin(); n != 0 {
		t.Errorf("%d requests, though the attempt has its record", n)
	}
	if !maps.Equal(SumUsage(use(1), use(2)), use(3)) {
		t.Error("counts are not added")
	}
}

// TestUsedByAll: what all attempts have used is known when a run is resumed: those without a
// record, those with one, and earlier ones of the same attempt whose record was dropped.
// Of a complete run it is what the records say, and stays that when it is killed again.
func TestUsedByAll(t *testing.T) {
	d, err := Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	if err := d.Begin(false); err != nil {
		t.Fatal(err)
	}
	use := func(n int64) map[string]int64 { return map[string]int64{"requests": n} }
	begin := func(recorded, want int64) *Accounts {
		t.Helper()
		var before map[string]int64
		if recorded > 0 {
			before = use(recorded)
		}
		a, used, err := d.Accounts(before)
		if err != nil || used["requests"] != want {
			t.Errorf("%v were used, want %d, %v", used, want, err)
		}
		return a
	}
	attempt := func(a *Accounts, task string, recorded bool, requests ...int64) {
		_, note := a.Begin(task, 1)
		for _, n := range requests {
			if err := note(use(n)); err != nil {
				t.Fatal(err)
			}
		}
		if recorded {
			l := storedLine()
			l.TaskID, l.Attempt = task, 1
			if err := d.Append(l); err != nil {
				t.Fatal(err)
			}
		}
	}
	a := begin(0, 0)
	attempt(a, "killed", false, 1, 4)
	attempt(a, "recorded", true, 7, 6)
	attempt(a, "silent", true)
	a = begin(99, 10)
	attempt(a, "recorded", true, 1, 2) // again: its record was dropped
	attempt(a, "killed", false)
	attempt(a, "killed", true, 5)
	begin(99, 17)
	if err := d.Settled(false); err != nil {
		t.Fatal(err)
	}
	a = begin(13, 13)
	attempt(a, "recorded", false, 1)
	begin(99, 14)
}

// TestAccountsOfTwoKills: what an attempt had used before a first kill is not forgotten
// at a second one, although a try between them ended before it noted anything.
func TestAccountsOfTwoKills(t *testing.T) {
	d, err := Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	if err := d.Begin(false); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		silent int // tries that note nothing, before one that notes
		noted  int64
		want   int64 // that the process before had used
	}{{0, 10, 0}, {1, 1, 10}, {0, 12, 11}, {0, 0, 12}} {
		a, _, err := d.Accounts(nil)
		if err != nil {
			t.Fatal(err)
		}
		former, note := a.Begin("t", 1)
		if former["requests"] != tt.want {
			t.Errorf("%+v: %v were used before", tt, former)
		}
		for range tt.silent {
			_, note = a.Begin("t", 1)
		}
		if tt.noted == 0 {
			continue
		}
		if err := note(map[string]int64{"requests": tt.noted}); err != nil {
			t.Fatal(err)
		}
	}
}

// TestAccountsAreClosed: what an agent asks while its run ends is an error, and no race.
func TestAccountsAreClosed(t *testing.T) {
	d, err := Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Begin(false); err != nil {
		t.Fatal(err)
	}
	a, _, err := d.Accounts(nil)
	if err != nil {
		t.Fatal(err)
	}
	_, note := a.Begin("t", 1)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for note(map[string]int64{"requests": 1}) == nil {
		}
	}()
	if err := d.Close(); err != nil {
		t.Error(err)
	}
	<-ended
}
