package worker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"securebench/internal/attended"
	"securebench/internal/pipeline/attempt"
	"securebench/internal/remote"
)

// held is a job that the worker has.
type held struct {
	remote.Held
	cancel context.CancelCauseFunc
	relay  string // ticket of its agent's way to the provider
	// came is what came with the first grant: a request and a candidate, if these are short.
	came remote.Grant
}

// errTaken ends a call that nobody waits for here any more.
var errTaken = errors.New("the hub has taken the job back")

// errLeft ends what is under way when the worker ends.
var errLeft = errors.New("the worker has left")

// work does jobs until the run has finished or the worker is to leave. It also cares for
// what former processes have left.
func (s *session) work(ctx context.Context, left []*folder) error {
	slots := s.Slots
	if slots == 0 {
		slots = s.site.Slots()
	}
	fetching, stop := context.WithCancel(ctx)
	defer stop()
	calls, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	s.assets.until(calls)
	defer cancel(nil)
	s.inherit(calls, left)
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		s.fetchAll(fetching, calls, slots)
	}()
	e := s.beatUntil(ctx)
	stop()
	<-stopped
	if e.done || e.err != nil {
		cancel(errLeft)
		s.jobs.Wait()
	} else {
		s.drain(cancel)
	}
	s.leave(false)
	switch {
	case e.err != nil:
		return e.err
	case e.done:
		return nil
	}
	return ErrDrained
}

// beatUntil says what the worker has until the session ends, and carries out the answers.
func (s *session) beatUntil(ctx context.Context) ending {
	pause := s.welcome().Lease / 4
	if s.Wait > 0 {
		pause = min(pause, max(s.Wait, again)) // whether the hub answers is known that soon
	}
	every := time.NewTicker(pause)
	defer every.Stop()
	for {
		select {
		case <-ctx.Done():
			return ending{drain: true}
		case <-every.C:
		case <-s.changed:
		}
		s.beat(ctx)
		if e := s.ended(); e.done || e.drain || e.err != nil {
			return e
		}
		if s.alone() && !s.busy() {
			return ending{err: s.nobody()}
		}
	}
}

// beat says what the worker has, and ends what it has no more. Without an answer it goes
// on: a hub that is away for a while loses nothing.
func (s *session) beat(ctx context.Context) {
	var p remote.Pulse
	b := remote.Beat{Jobs: s.has(), Draining: s.draining, Pulls: s.pullsTaken()}
	if s.ask(ctx, s.subject(remote.BeatKind, ""), b, &p) != nil {
		return
	}
	s.mu.Lock()
	s.pulls = s.pulls[len(b.Pulls):]
	for id, state := range p.Jobs {
		if h := s.active[id]; h != nil && (state == remote.Fenced || state == remote.Cancelled || state == remote.Done) {
			h.cancel(errTaken)
		}
	}
	s.end.done, s.end.drain = s.end.done || p.Done, s.end.drain || p.Drain
	s.mu.Unlock()
	if p.Hello {
		if err := s.hello(ctx); err != nil && ctx.Err() == nil {
			s.mu.Lock()
			s.end.err = err
			s.mu.Unlock()
		}
	}
}

// busy reports whether there is something that the hub may wait for.
func (s *session) busy() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.active) > 0 || s.heirs.Load() > 0
}

// pulled notes how long it took to pull an image.
func (s *session) pulled(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pulls = append(s.pulls, d.Milliseconds())
}

// pullsTaken is how long the first pulls took of which the run has not heard.
func (s *session) pullsTaken() []int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.pulls[:min(len(s.pulls), remote.MostPulls)])
}

// has lists what the worker has.
func (s *session) has() []remote.Held {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := []remote.Held{}
	for _, h := range s.active {
		if h.Grant > 0 {
			out = append(out, h.Held)
		}
	}
	return out
}

// drain lets the calls end that are under way, for as long as they may.
func (s *session) drain(cancel context.CancelCauseFunc) {
	s.Say(fmt.Sprintf("leaving when %d calls have ended, in %s at the latest", len(s.has()), s.Grace))
	over, stop := context.WithCancel(context.Background())
	defer stop()
	s.draining = true
	s.beat(over)
	go func() { s.jobs.Wait(); stop() }()
	every := time.NewTicker(s.welcome().Lease / 4)
	defer every.Stop()
	grace := time.NewTimer(s.Grace)
	defer grace.Stop()
	for {
		select {
		case <-over.Done():
			return
		case <-every.C:
			s.beat(over)
		case <-grace.C:
			cancel(errLeft)
			s.jobs.Wait()
			return
		}
	}
}

// leave says that the worker has nothing and wants nothing. What it had, it returns, or it
// is lost.
func (s *session) leave(lost bool) {
	var p remote.Pulse
	_ = s.ask(context.Background(), s.subject(remote.BeatKind, ""), remote.Beat{Jobs: []remote.Held{}, Leaving: true, Lost: lost}, &p) // a lease later it is known anyway
}

// fetchAll fetches jobs and does so many at a time. While the result of one is sent, another
// is fetched and begins; as many results as calls are sent at the same time.
func (s *session) fetchAll(ctx, calls context.Context, slots int) {
	free, offers := make(chan struct{}, slots), make(chan struct{}, slots)
	for {
		select {
		case free <- struct{}{}:
		case <-ctx.Done():
			return
		}
		n := 1
		for more := true; more && n < mostPulled; {
			select {
			case free <- struct{}{}:
				n++
			default:
				more = false
			}
		}
		jobs := s.next(ctx, n)
		for _, m := range jobs {
			s.jobs.Go(func() {
				done := sync.OnceFunc(func() { <-free })
				defer done()
				s.take(calls, m, func() func() {
					offers <- struct{}{}
					done()
					return func() { <-offers }
				})
			})
		}
		for range n - len(jobs) {
			<-free
		}
		if ctx.Err() != nil {
			return
		}
	}
}

// mostPulled is how many jobs are pulled at once. All of them are claimed at once.
const mostPulled = 16

// next returns so many queued jobs at most, and none only after a while. Verifications
// come first: they end attempts.
func (s *session) next(ctx context.Context, n int) (jobs []*nats.Msg) {
	var mine []remote.Role
	for _, r := range []remote.Role{remote.Verify, remote.Produce} {
		if slices.Contains(s.welcome().Roles, r) {
			mine = append(mine, r)
		}
	}
	for range 2 {
		for _, r := range mine {
			if jobs = append(jobs, s.pull(ctx, r, n-len(jobs))...); len(jobs) == n {
				return jobs
			}
		}
		if len(jobs) > 0 || ctx.Err() != nil || !s.move(ctx, mine) {
			break
		}
	}
	if len(jobs) > 0 || ctx.Err() != nil {
		return jobs
	}
	return s.await(ctx, mine)
}

// awaitTime is how long a worker waits for a job before it asks anew.
const awaitTime = time.Second

// await waits for a job of any of these roles. What comes for the others meanwhile is read
// with the next answer.
func (s *session) await(ctx context.Context, roles []remote.Role) []*nats.Msg {
	ctx, stop := s.linked(ctx, awaitTime+askTime)
	defer stop()
	var err error
	for _, r := range roles {
		err = errors.Join(err, s.askFor(r, fmt.Sprintf(`{"batch":1,"expires":%d}`, awaitTime.Nanoseconds())))
	}
	for ended := 0; err == nil && ended < len(roles); ended++ {
		var m *nats.Msg
		if m, err = s.queue.NextMsgWithContext(ctx); err == nil && s.isJob(ctx, m) {
			return []*nats.Msg{m}
		}
	}
	if err != nil {
		_ = attended.Pause(ctx, again) // the hub is away
	}
	return nil
}

// askFor asks the queue of a role for jobs.
func (s *session) askFor(r remote.Role, ask string) error {
	return s.conn.PublishRequest("$JS.API.CONSUMER.MSG.NEXT."+s.home(r), s.queue.Subject, []byte(ask))
}

// isJob reports whether a message of the queue is a job, and not the news that there is
// none.
func (s *session) isJob(ctx context.Context, m *nats.Msg) bool {
	if strings.HasPrefix(m.Reply, "$JS.ACK.") {
		return true
	}
	if status := m.Header.Get("Status"); status == "409" || status == "503" {
		_ = attended.Pause(ctx, again)
	}
	return false
}

// move asks for pools with jobs of roles of which the worker's own has none, and reports
// whether there are any.
func (s *session) move(ctx context.Context, roles []remote.Role) bool {
	var p remote.Pulse
	if s.welcome().Pools < 2 || s.ask(ctx, s.subject(remote.BeatKind, ""), remote.Beat{Jobs: []remote.Held{}, Dry: roles}, &p) != nil {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.run.Home == nil {
		s.run.Home = map[remote.Role]int{}
	}
	for r, pool := range p.Home {
		s.run.Home[r] = pool
	}
	return len(p.Home) > 0
}

// home is the consumer of the pool of a role that the worker asks.
func (s *session) home(r remote.Role) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return remote.Stream(s.run.Token, r) + "." + remote.Consumer(s.run.Home[r])
}

// pull asks the queue of a role for so many jobs at most that are there.
func (s *session) pull(ctx context.Context, r remote.Role, n int) (jobs []*nats.Msg) {
	ctx, stop := s.linked(ctx, askTime)
	defer stop()
	err := s.askFor(r, fmt.Sprintf(`{"batch":%d,"no_wait":true}`, n))
	for err == nil && len(jobs) < n {
		var m *nats.Msg
		if m, err = s.queue.NextMsgWithContext(ctx); err != nil {
			break
		}
		if !s.isJob(ctx, m) { // there are no more
			return jobs
		}
		jobs = append(jobs, m) // it may answer an earlier question
	}
	if err != nil {
		_ = attended.Pause(ctx, again) // the hub is away
	}
	return jobs
}

// take claims a job, does it and offers what came of it. offering lets another one begin
// when the call has been made, and returns what ends the offer.
func (s *session) take(calls context.Context, m *nats.Msg, offering func() func()) {
	var q remote.Job
	if attempt.Decode(m.Data, &q) != nil {
		return // the hub queues what it waits for again
	}
	ctx, cancel := context.WithCancelCause(calls)
	defer cancel(nil)
	h := &held{Held: remote.Held{ID: q.ID, Nonce: q.Nonce}, cancel: cancel}
	s.mu.Lock()
	busy := s.active[q.ID] != nil
	if !busy {
		s.active[q.ID] = h
	}
	s.mu.Unlock()
	if busy { // with an earlier call for the same attempt
		s.giveBack(m)
		return
	}
	defer func() {
		s.mu.Lock()
		delete(s.active, q.ID)
		s.mu.Unlock()
	}()
	ticket, ok := s.claim(ctx, h)
	if !ok {
		s.giveBack(m)
		return
	}
	s.do(ctx, h, ticket, offering)
}

// giveBack returns a job to the queue, for later.
func (s *session) giveBack(m *nats.Msg) {
	_ = m.Respond(fmt.Appendf(nil, `-NAK {"delay": %d}`, (s.welcome().Lease / 8).Nanoseconds())) // a lease later it comes again anyway
}

// claim asks for a job, and returns the ticket for it.
func (s *session) claim(ctx context.Context, h *held) (ticket string, ok bool) {
	var g remote.Grant
	for {
		err := s.ask(ctx, s.subject(remote.ClaimKind, h.ID), remote.Claim{Nonce: h.Nonce, Grant: h.Grant}, &g)
		if err == nil && (g.State != remote.Later || h.Grant == 0) {
			break
		}
		if attended.Pause(ctx, again) != nil {
			return "", false
		}
	}
	switch g.State {
	case remote.OK:
		s.mu.Lock()
		if h.Grant == 0 {
			h.came = g
		}
		h.Grant, h.relay = g.Grant, g.Relay
		s.mu.Unlock()
		return g.Ticket, true
	case remote.Later:
		s.poke() // the hub may not know this worker
	}
	return "", false
}
