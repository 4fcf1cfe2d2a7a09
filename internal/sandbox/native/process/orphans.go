package process

import (
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// Family knows the children of this process that are sandboxes' first processes.
type Family struct {
	mu    sync.Mutex
	known map[int]bool
}

func (f *Family) add(pid int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.known == nil {
		f.known = map[int]bool{}
	}
	f.known[pid] = true
}

func (f *Family) remove(pid int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.known, pid)
}

// orphanTimeout bounds the wait for orphans to end. They do at once, since what
// they wait for is gone.
const orphanTimeout = 500 * time.Millisecond

// ReapOrphans reaps the processes that a killed runtime was making first processes
// of. Nothing else that this process starts has such a name. Others of this name
// are about to become the command of their sandbox.
func (f *Family) ReapOrphans() {
	for end := time.Now().Add(orphanTimeout); time.Now().Before(end); time.Sleep(time.Millisecond) {
		left := 0
		for _, pid := range children() {
			name, state := look(pid)
			if !strings.HasPrefix(name, "runc:[") {
				continue
			}
			if state != 'Z' || !f.reap(pid) {
				left++
			}
		}
		if left == 0 {
			return
		}
	}
}

// reap reaps a child that has ended, unless somebody waits for it.
func (f *Family) reap(pid int) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.known[pid] {
		return true
	}
	_, err := unix.Wait4(pid, nil, unix.WNOHANG|unix.WALL, nil)
	return err == nil
}

// children lists the children of this process.
func children() (pids []int) {
	tasks, err := os.ReadDir("/proc/self/task")
	if err != nil {
		return nil
	}
	for _, task := range tasks {
		text, err := os.ReadFile("/proc/self/task/" + task.Name() + "/children")
		if err != nil {
			continue // the thread has ended
		}
		for _, field := range strings.Fields(string(text)) {
			if pid, err := strconv.Atoi(field); err == nil {
				pids = append(pids, pid)
			}
		}
	}
	return pids
}

// look returns the name and the state of a process; proc_pid_stat(5). A process
// chooses its name, which is in parentheses.
func look(pid int) (name string, state byte) {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	begin, end := strings.IndexByte(string(text), '('), strings.LastIndexByte(string(text), ')')
	if err != nil || begin < 0 || end < begin || end+2 >= len(text) {
		return "", 0
	}
	return string(text[begin+1 : end]), text[end+2]
}
