package attended

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// stop makes a timer see what it would after the process has stood still for d.
func stop(t *Timer, d time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.timer.Stop()
	t.timer = time.AfterFunc(d+t.step-time.Since(t.since), t.tick)
}

func TestGapDoesNotCount(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ limit, after, gap, want time.Duration }{
		"none":                  {12 * time.Second, 4 * time.Second, 0, 12 * time.Second},
		"a busy machine":        {12 * time.Second, 4 * time.Second, tolerance, 12 * time.Second},
		"beyond the limit":      {12 * time.Second, 4 * time.Second, 25 * time.Second, 37 * time.Second},
		"for a day":             {12 * time.Second, 4 * time.Second, 24 * time.Hour, 24*time.Hour + 12*time.Second},
		"in the last moment":    {12 * time.Second, 11900 * time.Millisecond, 25 * time.Second, 12*time.Second + 25*time.Second + grace},
		"a moment, at the last": {12 * time.Second, 11900 * time.Millisecond, time.Second, 12*time.Second + time.Second + time.Second},
		"a limit below a beat":  {50 * time.Millisecond, 10 * time.Millisecond, time.Minute, 50*time.Millisecond + time.Minute + grace},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				start, timer := time.Now(), NewTimer(test.limit)
				time.Sleep(test.after)
				synctest.Wait()
				if test.gap > 0 {
					stop(timer, test.gap)
				}
				<-timer.C
				if took := time.Since(start); took != test.want {
					t.Errorf("it took %v, want %v", took, test.want)
				}
			})
		})
	}
}

// A machine on which every beat is late: the limit ends all the same.
func TestStarvedTimerEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const limit, late = time.Minute, 10 * time.Second
		start, timer := time.Now(), NewTimer(limit)
		for range 1000 {
			stop(timer, late)
			time.Sleep(late + beat)
			synctest.Wait()
		}
		beats := limit/beat + maxGrace/beat
		if !timer.over {
			t.Error("it never ends")
		}
		if most := start.Add(beats * (late + beat)); time.Now().Before(most) {
			t.Fatal("the test is too short")
		}
	})
}

// What ended while the process stood still is known before the time is up, wherever in
// its time it was stopped.
func TestEndBeatsDeadline(t *testing.T) {
	t.Parallel()
	for after := 100 * time.Millisecond; after < 12*time.Second; after += 700 * time.Millisecond {
		synctest.Test(t, func(t *testing.T) {
			ends := make(chan int, 1)
			ctx, cancel := WithTimeoutCause(t.Context(), 12*time.Second, errors.New("late"))
			defer cancel()
			time.Sleep(after)
			synctest.Wait()
			stop(ctx.Value(timerKey{}).(*Timer), 25*time.Second)
			time.AfterFunc(25*time.Second+time.Second, func() { ends <- 7 }) // told a moment after
			if end, _, err := Await(ctx, ends); end != 7 || err != nil {
				t.Errorf("stopped after %v: %d, %v", after, end, err)
			}
		})
	}
}

func TestKnownEndWins(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for range 100 {
		ends := make(chan int, 1)
		if _, _, err := Await(ctx, ends); !errors.Is(err, context.Canceled) {
			t.Fatalf("without an end: %v", err)
		}
		ends <- 1
		if end, open, err := Await(ctx, ends); end != 1 || !open || err != nil {
			t.Fatalf("with an end: %d, %v, %v", end, open, err)
		}
		close(ends)
		if _, open, err := Await(ctx, ends); open || err != nil {
			t.Fatalf("with the end of ends: %v, %v", open, err)
		}
	}
	ends := make(chan int, 1)
	if _, ok := Known(ends); ok {
		t.Error("an end that is not there is known")
	}
	ends <- 1
	if end, ok := Known(ends); !ok || end != 1 {
		t.Error("an end that is there is not known")
	}
}

func TestTimeoutOfContext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		late := errors.New("late")
		ctx, cancel := WithTimeoutCause(t.Context(), time.Minute, late)
		defer cancel()
		inner, stop := context.WithCancel(ctx)
		defer stop()
		time.Sleep(20 * time.Second)
		if got := Spent(inner); got != 20*time.Second {
			t.Errorf("%v are spent", got)
		}
		<-inner.Done()
		if !errors.Is(context.Cause(inner), late) || !errors.Is(ctx.Err(), context.DeadlineExceeded) {
			t.Errorf("%v, %v", context.Cause(inner), ctx.Err())
		}
		if got := Spent(ctx); got != time.Minute {
			t.Errorf("%v are spent", got)
		}
		ctx, cancel = WithTimeoutCause(t.Context(), time.Minute, late)
		cancel()
		if !errors.Is(ctx.Err(), context.Canceled) || errors.Is(context.Cause(ctx), late) {
			t.Errorf("canceled: %v, %v", ctx.Err(), context.Cause(ctx))
		}
	})
}

func TestPause(t *testing.T) {
	cause := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	if err := Pause(ctx, time.Microsecond); err != nil {
		t.Errorf("a pause: %v", err)
	}
	cancel(cause)
	if err := Pause(ctx, time.Hour); !errors.Is(err, cause) {
		t.Errorf("a pause that ends early: %v", err)
	}
}
