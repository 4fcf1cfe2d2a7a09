package enginetest

import (
	"flag" //nolint:depguard // of go test
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// turns are the tests that use engines: a few on the machine at a time, however many
// packages, checkouts and tests run. Others wait.
type turns struct {
	dir     string
	most    int
	waiting chan struct{} // as many tests of this process as may wait

	mu   sync.Mutex
	held map[string]*turn // by top-level test
}

// newTurns makes turns in a folder. A test that waits counts as one of those that go
// test runs in parallel (-parallel), and so do the parts of a test that has its turn:
// half of them are left for these, or both would wait for each other.
func newTurns(dir string, most int) *turns {
	return &turns{dir: dir, most: most, waiting: make(chan struct{}, parallel()/2), held: map[string]*turn{}}
}

func parallel() int {
	if f := flag.Lookup("test.parallel"); f != nil {
		if n, err := strconv.Atoi(f.Value.String()); err == nil {
			return n
		}
	}
	return runtime.GOMAXPROCS(0)
}

// turn is that of a test and its parts, which open engines one after the other or at
// the same time.
type turn struct {
	once  sync.Once
	users int
	file  *os.File // locked; nil if none became free
}

// ofMachine are the turns of this machine.
var ofMachine = sync.OnceValues(func() (*turns, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return nil, err
	}
	dir := filepath.Join(cache, "securebench-test", "turns")
	return newTurns(dir, 4*runtime.NumCPU()), os.MkdirAll(dir, 0o755)
})

// takeTurn gives a test its turn on this machine, until its end.
func takeTurn(t testing.TB) {
	t.Helper()
	m, err := ofMachine()
	if err != nil {
		t.Fatalf("taking turns: %v", err)
	}
	m.take(t)
}

// take gives a test its turn, until its end.
func (m *turns) take(t testing.TB) {
	t.Helper()
	name, _, _ := strings.Cut(t.Name(), "/")
	m.mu.Lock()
	own := m.held[name]
	if own == nil {
		own = &turn{}
		m.held[name] = own
	}
	own.users++
	m.mu.Unlock()
	t.Cleanup(func() { m.release(name, own) })
	var err error
	own.once.Do(func() { own.file, err = m.wait() })
	if err != nil {
		t.Fatalf("taking turns: %v", err)
	}
}

func (m *turns) release(name string, own *turn) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if own.users--; own.users > 0 {
		return
	}
	delete(m.held, name)
	if own.file != nil {
		_ = own.file.Close() // which unlocks it
	}
}

// longest is how long a test waits for its turn: others are no more than a burden.
const longest = time.Minute

// wait returns a locked file. If none becomes free soon, or too many tests wait, the test
// goes on without one.
func (m *turns) wait() (file *os.File, err error) {
	free := func() bool {
		for i := range m.most {
			if file, err = lockNow(filepath.Join(m.dir, strconv.Itoa(i))); file != nil || err != nil {
				return true
			}
		}
		return false
	}
	if free() {
		return file, err
	}
	select {
	case m.waiting <- struct{}{}:
		defer func() { <-m.waiting }()
		for end := time.Now().Add(longest); time.Now().Before(end) && !free(); {
			time.Sleep(50 * time.Millisecond)
		}
	default:
	}
	return file, err
}

// lockNow locks a file, or returns nil if it is locked.
func lockNow(name string) (*os.File, error) {
	file, err := os.OpenFile(name, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	switch err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err {
	case nil:
		return file, nil
	case syscall.EWOULDBLOCK:
		return nil, file.Close()
	default:
		_ = file.Close()
		return nil, fmt.Errorf("locking %s: %w", name, err)
	}
}
