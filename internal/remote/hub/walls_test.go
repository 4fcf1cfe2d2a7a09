package hub

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"securebench/internal/agent"
	"securebench/internal/awaittest"
	"securebench/internal/candidate"
	"securebench/internal/digest"
	"securebench/internal/family"
	"securebench/internal/pipeline/attempt"
	"securebench/internal/pipeline/record"
	"securebench/internal/remote"
	"securebench/internal/remote/worker"
	"securebench/internal/task"
	"securebench/internal/verdict"
)

// raw connects with a credential as a worker does that does not keep to what workers do.
func (f *fleet) raw(c remote.Credential) (conn *nats.Conn, denied chan error) {
	f.Helper()
	tls, err := c.Client()
	if err != nil {
		f.Fatal(err)
	}
	public, err := c.Public()
	if err != nil {
		f.Fatal(err)
	}
	denied = make(chan error, 100)
	awaittest.Until(f, "the connection", func() bool { // the invitation is heard of within a second
		conn, err = nats.Connect("nats://"+f.hub.Addr(), nats.Nkey(public, c.Sign), nats.Secure(tls), nats.CustomInboxPrefix(remote.Inbox(c.Name)), nats.NoReconnect(),
			nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { denied <- err }))
		return err == nil
	})
	f.Cleanup(conn.Close)
	return conn, denied
}

// TestPermissions: a credential for agents allows nothing of what the other role does, of
// what another worker does, and of what the run alone does.
func TestPermissions(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	h := f.open()
	f.invite("other")
	conn, denied := f.raw(f.invite("mine", remote.Produce))
	produce, verify := remote.Stream(h.token, remote.Produce), remote.Stream(h.token, remote.Verify)
	for what, subject := range map[string]string{
		"pull the other role's jobs":     "$JS.API.CONSUMER.MSG.NEXT." + verify + "." + remote.Consumer(0),
		"acknowledge the other role's":   "$JS.ACK." + verify + ".all.1.1.1.1.0",
		"make a consumer":                "$JS.API.CONSUMER.CREATE." + produce,
		"make a durable consumer":        "$JS.API.CONSUMER.DURABLE.CREATE." + produce + ".mine",
		"read a stream":                  "$JS.API.STREAM.MSG.GET." + produce,
		"read a stream directly":         "$JS.API.DIRECT.GET." + verify,
		"look at a stream":               "$JS.API.STREAM.INFO." + verify,
		"list streams":                   "$JS.API.STREAM.NAMES",
		"purge a stream":                 "$JS.API.STREAM.PURGE." + produce,
		"delete a stream":                "$JS.API.STREAM.DELETE." + produce,
		"delete a message":               "$JS.API.STREAM.MSG.DELETE." + produce,
		"make a stream":                  "$JS.API.STREAM.CREATE.MINE",
		"queue a job":                    remote.Work(h.token, remote.Produce, 0, "job"),
		"queue a job of the other role":  remote.Work(h.token, remote.Verify, 0, "job"),
		"claim as another":               remote.Subject(h.token, remote.ClaimKind, "other.x", "job"),
		"beat as another":                remote.Subject(h.token, remote.BeatKind, "other.x", ""),
		"give a result as another":       remote.Subject(h.token, remote.ResultKind, "other.x", "job"),
		"say hello as another":           remote.HelloSubject("other.x"),
		"give orders to another":         remote.Notice("other.x"),
		"ask the server":                 "$SYS.REQ.SERVER.PING",
		"ask as the operator":            remote.OperatorSubject,
		"claim with another run's token": remote.Subject("0000000000000000", remote.ClaimKind, "mine.x", "job"),
	} {
		if err := conn.Publish(subject, []byte("{}")); err != nil {
			t.Fatal(err)
		}
		awaitDenied(t, what, denied)
	}
	for what, subject := range map[string]string{
		"hear everything":          ">",
		"hear the jobs":            "sb.>",
		"hear others' claims":      "sb." + h.token + ".claim.>",
		"hear others' answers":     "_INBOX_other.>",
		"hear the operator's":      remote.Inbox(remote.OperatorName) + ".>",
		"hear all inboxes":         "_INBOX.>",
		"hear the server's events": "$SYS.>",
		"hear the queue's events":  "$JS.EVENT.>",
		"answer others' greetings": "sb.hello.*.*",
	} {
		if _, err := conn.SubscribeSync(subject); err != nil {
			t.Fatal(err)
		}
		awaitDenied(t, what, denied)
	}
	if _, err := conn.Request(remote.HelloSubject("mine.x"), []byte("{}"), awaittest.Hung); err != nil { // the honest twin
		t.Errorf("saying hello: %v", err)
	}
	select {
	case err := <-denied:
		t.Errorf("what a worker may do: %v", err)
	default:
	}
}

func awaitDenied(t *testing.T, what string, denied chan error) {
	t.Helper()
	select {
	case err := <-denied:
		if !errors.Is(err, nats.ErrPermissionViolation) {
			t.Errorf("%s: %v", what, err)
		}
	case <-time.After(awaittest.Hung):
		t.Fatalf("%s: allowed", what)
	}
}

// TestTickets: a ticket opens what it is for, and nothing else.
func TestTickets(t *testing.T) {
	t.Parallel()
	f, g := newFleet(t), newGated()
	dir := t.TempDir()
	for _, name := range []string{"public", "eval"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(name), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	f.o.Files = family.Files{Public: root, Eval: root}
	public, eval := map[string]remote.File{"public": {Digest: digest.Bytes([]byte("public")), Size: 6}}, map[string]remote.File{"eval": {Digest: digest.Bytes([]byte("eval")), Size: 4}}
	p, v := f.o.Orders[remote.Produce], f.o.Orders[remote.Verify]
	p.Public, v.Public, v.Eval = public, public, eval
	mine, others := f.tree("tree", "sha256:1"), f.tree("other tree", "sha256:2")
	p.Trees = []remote.Tree{mine, others}
	f.o.Orders = map[remote.Role]remote.Order{remote.Produce: p, remote.Verify: v}
	h := f.open()
	scoring := newGated()
	f.start(f.invite("p", remote.Produce), g.site(1))
	f.start(f.invite("v", remote.Verify), site{verify: func(ctx context.Context, _ *site, req attempt.Verification) (family.Verdict, error) {
		scoring.began <- req.Case.Sandbox.ID()
		select {
		case <-scoring.finish:
			return family.Verdict{Outcome: verdict.Passed}, nil
		case <-ctx.Done():
			return family.Verdict{}, context.Cause(ctx)
		}
	}})
	go func() {
		c, err := f.o.Store.Put(task.Text, candidate.Stdout, strings.NewReader("scored"))
		if err != nil {
			t.Error(err)
			return
		}
		tk := newTask(t, "scored")
		_, _ = h.Verify(t.Context(), attempt.Verification{Case: family.Case{Attempt: 1, Sandbox: tk.TestSandbox(), Evaluator: tk.Evaluator()}, Candidate: c})
	}()
	<-scoring.began
	defer close(scoring.finish)
	go func() { _, _ = f.attempt(t.Context(), h, "task") }()
	<-g.began
	defer close(g.finish)
	ticketOf := func(role remote.Role, job bool) string {
		h.mu.Lock()
		defer h.mu.Unlock()
		for name, t := range h.tickets {
			if t.role == role && (t.job != nil) == job {
				return name
			}
		}
		return ""
	}
	awaittest.Until(t, "both workers", func() bool { return ticketOf(remote.Produce, false) != "" && ticketOf(remote.Verify, false) != "" })
	c := f.invite("x")
	tls, err := c.Client()
	if err != nil {
		t.Fatal(err)
	}
	web := &http.Client{Transport: &http.Transport{TLSClientConfig: tls}}
	defer web.CloseIdleConnections()
	base := "https://127.0.0.1:" + fmtPort(h)
	for _, tt := range []struct {
		what, method, path, ticket string
		want                       int
	}{
		{"no ticket", "GET", "/order", "", 403},
		{"a guessed ticket", "GET", "/order", "AAAA", 403},
		{"the order", "GET", "/order", ticketOf(remote.Produce, false), 200},
		{"a public file", "GET", "/file/" + public["public"].Digest, ticketOf(remote.Produce, false), 200},
		{"an evaluation file, for agents", "GET", "/file/" + eval["eval"].Digest, ticketOf(remote.Produce, false), 404},
		{"an evaluation file, for scoring", "GET", "/file/" + eval["eval"].Digest, ticketOf(remote.Verify, false), 200},
		{"a file by its name", "GET", "/file/eval", ticketOf(remote.Verify, false), 404},
		{"a request without a job", "GET", "/request", ticketOf(remote.Produce, false), 404},
		{"the request", "GET", "/request", ticketOf(remote.Produce, true), 200},
		{"a tree for agents", "GET", "/blob/" + mine.Digest, ticketOf(remote.Produce, true), 200},
		{"a tree of another image", "GET", "/blob/" + others.Digest, ticketOf(remote.Produce, true), 404},
		{"a tree without a job", "GET", "/blob/" + mine.Digest, ticketOf(remote.Produce, false), 404},
		{"a tree for agents, for scoring", "GET", "/blob/" + mine.Digest, ticketOf(remote.Verify, true), 404},
		{"a tree for agents, for scoring, without a job", "GET", "/blob/" + mine.Digest, ticketOf(remote.Verify, false), 404},
		{"the candidate that is scored", "GET", "/blob/" + digest.Bytes([]byte("scored")), ticketOf(remote.Verify, true), 200},
		{"a candidate, for agents", "GET", "/blob/" + digest.Bytes([]byte("task")), ticketOf(remote.Produce, true), 404},
		{"another kind of candidate", "PUT", "/blob/" + digest.Bytes([]byte("x")) + "?kind=patch", ticketOf(remote.Produce, true), 422},
		{"another digest", "PUT", "/blob/" + digest.Bytes([]byte("y")) + "?kind=text", ticketOf(remote.Produce, true), 422},
		{"the candidate", "PUT", "/blob/" + digest.Bytes([]byte("x")) + "?kind=text", ticketOf(remote.Produce, true), 200},
		{"a candidate without a job", "PUT", "/blob/" + digest.Bytes([]byte("x")) + "?kind=text", ticketOf(remote.Verify, false), 403},
		{"a value without a job", "PUT", "/value", ticketOf(remote.Verify, false), 403},
	} {
		r, err := http.NewRequestWithContext(t.Context(), tt.method, base+tt.path, strings.NewReader("x"))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+tt.ticket)
		res, err := web.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		_ = res.Body.Close()
		if res.StatusCode != tt.want {
			t.Errorf("%s: %s, want %d", tt.what, res.Status, tt.want)
		}
	}
}

// TestSecretRefused: a candidate with a secret of the operator in it is not stored, even
// if the worker did not remove it.
func TestSecretRefused(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	f.o.Secrets = secretOf(t, "sk-aaaabbbbccccdddd")
	h := f.open()
	f.start(f.invite("a"), site{})
	if _, err := f.attempt(t.Context(), h, "has sk-aaaabbbbccccdddd in it"); err == nil || !strings.Contains(err.Error(), "secret") {
		t.Errorf("%v", err)
	}
	f.attempts(h, 1)
}

// TestLanes: no value of another lane is in anything that a worker for agents gets, or in
// the queue; the worker for scoring gets them, so the test looks in the right place.
func TestLanes(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	h := f.open()
	var mu sync.Mutex
	got := map[remote.Role][]byte{}
	note := func(r remote.Role, v any) {
		b, err := attempt.Encode(v)
		if err != nil {
			t.Error(err)
		}
		mu.Lock()
		defer mu.Unlock()
		got[r] = append(got[r], b...)
	}
	opened := func(r remote.Role) func(*worker.Options) {
		return func(o *worker.Options) {
			open := o.Open
			o.Open = func(ctx context.Context, set worker.Setting) (worker.Site, error) {
				note(r, set.Orders)
				return open(ctx, set)
			}
		}
	}
	done := make(chan struct{})
	go func() { defer close(done); f.attempts(h, 3) }()
	var queue bytes.Buffer
	s := h.broker.queues[remote.Produce]
	awaittest.Until(t, "the queue", func() bool {
		info, err := s.Info(t.Context())
		return err == nil && info.State.Msgs == 3
	})
	for seq := uint64(1); seq <= 3; seq++ {
		m, err := s.GetMsg(t.Context(), seq)
		if err != nil {
			t.Fatal(err)
		}
		queue.Write(m.Data)
		queue.WriteString(m.Subject)
	}
	f.start(f.invite("p", remote.Produce), site{produce: func(_ context.Context, s *site, req agent.Request) (attempt.Produced, error) {
		note(remote.Produce, req)
		return s.answer(req)
	}}, opened(remote.Produce))
	f.start(f.invite("v", remote.Verify), site{verify: func(_ context.Context, _ *site, req attempt.Verification) (family.Verdict, error) {
		note(remote.Verify, req)
		return family.Verdict{Outcome: verdict.Passed}, nil
	}}, opened(remote.Verify))
	<-done
	err := filepath.WalkDir(h.broker.dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return nil // the server is at work there
		}
		b, err := os.ReadFile(name)
		queue.Write(b)
		return err
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	journal, err := os.ReadFile(f.journal)
	if err != nil {
		t.Fatal(err)
	}
	queue.Write(journal)
	for _, canary := range []string{hiddenCanary, evaluationCanary} {
		for _, form := range []string{canary, hex.EncodeToString([]byte(canary)), base64.StdEncoding.EncodeToString([]byte(canary))} {
			if bytes.Contains(got[remote.Produce], []byte(form)) {
				t.Errorf("the worker for agents gets %s", form)
			}
			if bytes.Contains(queue.Bytes(), []byte(form)) {
				t.Errorf("the queue has %s", form)
			}
		}
		if !bytes.Contains(got[remote.Verify], []byte(canary)) {
			t.Errorf("the worker for scoring does not get %s: the test looks in the wrong place", canary)
		}
	}
	if !bytes.Contains(got[remote.Produce], []byte(publicCanary)) || bytes.Contains(queue.Bytes(), []byte(publicCanary)) || queue.Len() == 0 {
		t.Error("the public value is in the queue, or the worker for agents does not get it")
	}
}

// TestSolutions: the program of a row's own solution, which is hidden, is run by a worker
// that verifies. One that produces is never given it, also if there is no other.
func TestSolutions(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	f.o.Here = &attempt.Local{Agent: &agent.Oracle{}, Store: f.o.Store}
	var began []remote.Role
	f.o.Starts = func(r remote.Role, _ record.AttemptKey, _ string) { began = append(began, r) }
	h := f.open()
	var mu sync.Mutex
	got := map[string]string{}
	solving := func(name string) site {
		return site{slots: 4, produce: func(_ context.Context, s *site, req agent.Request) (attempt.Produced, error) {
			mu.Lock()
			defer mu.Unlock()
			got[name] += strings.Join(req.Solution.Command, " ")
			return s.answer(req)
		}}
	}
	f.start(f.invite("agents", remote.Produce), solving("agents"))
	tk := newTask(t, "task")
	solve := func(s *agent.Solution) (attempt.Produced, error) {
		req := agent.Request{View: tk.Agent(), Attempt: 1, Solution: s}
		h.Ahead(t.Context(), &req, nil)
		p, err := h.Produce(t.Context(), req)
		return p, errors.Join(err, h.Release(t.Context(), keyOf("task")))
	}
	done := make(chan error, 1)
	go func() { _, err := solve(&agent.Solution{Command: []string{"sh", hiddenCanary}}); done <- err }()
	awaittest.Until(t, "the queue", func() bool {
		s, err := f.keys.Ask(t.Context(), h.Addr(), remote.Question{})
		return err == nil && s.Queues[1].Queued == 1 && strings.Contains(s.Queues[1].Nobody, "verify")
	})
	f.start(f.invite("scorers", remote.Verify), solving("scorers"))
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if got["agents"] != "" || got["scorers"] != "sh "+hiddenCanary || !slices.Equal(began, []remote.Role{remote.Produce}) {
		t.Errorf("%v, %v", got, began)
	}
	p, err := solve(&agent.Solution{Kind: task.Text, Data: []byte("4")}) // a text stays in this process
	if err != nil || p.Candidate == nil || got["scorers"] != "sh "+hiddenCanary {
		t.Errorf("%+v, %v, %v", p, got, err)
	}
}

// TestResult: what a worker sends as a result ends a job once, and only if it is the
// holder's; what the holder sends and cannot be read ends it as well.
func TestResult(t *testing.T) {
	t.Parallel()
	value := []byte(`{"verdict":{"outcome":"passed","containment":"passive"}}`)
	for what, tt := range map[string]struct {
		who  string
		r    remote.Result
		want remote.State
		ends bool
	}{
		"the holder's":         {"w.1", remote.Result{Nonce: "n", Grant: 2, Value: value}, remote.Committed, true},
		"another worker's":     {"w.2", remote.Result{Nonce: "n", Grant: 2, Value: value}, remote.Superseded, false},
		"of an earlier grant":  {"w.1", remote.Result{Nonce: "n", Grant: 1, Value: value}, remote.Superseded, false},
		"of another job":       {"w.1", remote.Result{Nonce: "m", Grant: 2, Value: value}, remote.Refused, false},
		"that cannot be read":  {"w.1", remote.Result{Nonce: "n", Grant: 2, Value: []byte(`{"verdict":1}`)}, remote.Refused, true},
		"that it has not put":  {"w.1", remote.Result{Nonce: "n", Grant: 2, Put: "sha256:x"}, remote.Refused, true},
		"of another operation": {"w.1", remote.Result{Nonce: "n", Grant: 2, Value: []byte(`{"produced":{}}`)}, remote.Refused, true},
	} {
		j := &job{order: order{role: remote.Verify, kind: "v"}, id: "j", nonce: "n", ended: make(chan *ending, 1), holder: "w.1", grant: 2}
		h := &Hub{Options: Options{Warn: func(string) {}}, jobs: map[string]*job{"j": j}, journal: &journal{last: map[string]grantLine{}}, tally: newTally()}
		if a := h.result(tt.who, "j", tt.r); a.State != tt.want || j.taken != tt.ends {
			t.Errorf("a result %s: %+v, ended %t, want %s, %t", what, a, j.taken, tt.want, tt.ends)
		}
		if tt.ends {
			if a := h.result(tt.who, "j", tt.r); a.State != remote.Superseded {
				t.Errorf("a result %s, again: %+v", what, a)
			}
		}
	}
}
