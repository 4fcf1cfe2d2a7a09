package workspace

import (
	"crypto/sha256"
	"encoding/hex"
	"hash/maphash"
	"strconv"
	"strings"
	"sync"

	"securebench/internal/lazyregexp"
)

// maxName bounds a directory name: file systems allow 255 bytes, and callers
// append to it.
const maxName = 200

var unsafeRun = lazyregexp.New(`[^A-Za-z0-9_.-]+`)

// DirName returns the directory name that the reference gives a task: the id
// itself if it is plain, else a plain form of it and eight hex digits of its
// SHA-256. The name may be very long, begin with a dash or equal another
// task's name; [Namer] resolves that.
func DirName(taskID string) string {
	plain := stem(taskID)
	switch plain {
	case "":
		return "task-" + idHash(taskID)[:8]
	case taskID:
		return taskID
	}
	return plain + "-" + idHash(taskID)[:8]
}

func stem(taskID string) string {
	return strings.Trim(unsafeRun.ReplaceAllString(taskID, "_"), "._")
}

func idHash(taskID string) string {
	sum := sha256.Sum256([]byte(taskID))
	return hex.EncodeToString(sum[:])
}

// Namer gives the tasks of one run distinct directory names, even on file
// systems that ignore case. A task gets the name of [DirName] if that is safe.
// Names depend on the order of the calls: name each task once, in pack order.
// A Namer keeps a hash of each name, not the name. The zero value is ready and
// safe for concurrent use.
type Namer struct {
	// Reserved are names that no task may get, in lower case.
	Reserved []string

	mu    sync.Mutex
	seed  maphash.Seed
	taken map[uint64]struct{} // hashes of folded names
}

// Name returns a new directory name for a task.
func (n *Namer) Name(taskID string) string {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.taken == nil {
		n.seed, n.taken = maphash.MakeSeed(), map[uint64]struct{}{}
		for _, name := range n.Reserved {
			n.taken[n.hash(name)] = struct{}{}
		}
	}
	name := DirName(taskID)
	if !safeName(name) || n.isTaken(name) {
		name = n.other(taskID)
	}
	n.taken[n.hash(name)] = struct{}{}
	return name
}

func (n *Namer) hash(name string) uint64 { return maphash.String(n.seed, strings.ToLower(name)) }

// isTaken may err on the safe side: a name with the hash of another counts as
// taken.
func (n *Namer) isTaken(name string) bool {
	_, ok := n.taken[n.hash(name)]
	return ok
}

// other returns a free name for a task that cannot have the reference's.
func (n *Namer) other(taskID string) string {
	short := strings.TrimLeft(stem(taskID), "-._")
	if short == "" {
		short = "task"
	}
	base := short[:min(len(short), 80)] + "-" + idHash(taskID)[:32]
	name := base
	// Whoever knows the scheme can choose ids that occupy its names.
	for i := 2; n.isTaken(name); i++ {
		name = base + "-" + strconv.Itoa(i)
	}
	return name
}

// safeName reports whether a name is short enough and cannot be mistaken for
// an option.
func safeName(name string) bool {
	return len(name) <= maxName && name[0] != '-'
}
