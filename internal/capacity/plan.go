package capacity

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"securebench/internal/sandbox"
)

// Footprint counts what is on the engine at the same time, at most.
type Footprint struct {
	Boxes  int // whose root is read-only
	Roots  int // boxes whose root can be written
	Spaces int // workspaces, and homes
	Halves int // boxes with the limits of [Half]
}

// minHalf is memory with which an interpreter can start, in bytes.
const minHalf = 64 << 20

// Half returns limits with half of the memory, if that is enough to start with, and next
// to no disk.
func Half(l sandbox.Limits) sandbox.Limits {
	l = l.WithDefaults()
	l.Memory, l.Disk = max(l.Memory/2, min(l.Memory, minHalf)), min(l.Disk, 1<<20)
	return l
}

// Amount is what a footprint may need. Workspaces and what a box can write beside
// its root are in memory; onDisk says that roots that can be written are not.
func (f Footprint) Amount(l sandbox.Limits, onDisk bool) Amount {
	l = l.WithDefaults()
	box, space := Amount{Memory: l.Memory}, Amount{Memory: l.Disk}
	out := box.times(int64(f.Boxes + f.Roots)).plus(space.times(int64(f.Boxes + f.Spaces)))
	out.Memory += Half(l).Memory * int64(f.Halves)
	if onDisk {
		return out.plus(Amount{Disk: l.Disk * int64(f.Roots)})
	}
	return out.plus(space.times(int64(f.Roots)))
}

// Load counts what a task has on the engine.
type Load struct {
	Agent, Verify Footprint
	// Kept is what the verifier keeps running between tasks, for each verification
	// that can take place at the same time.
	Kept Footprint
	// Once is what it keeps running, however many those are.
	Once Footprint
}

// needs are what a task may need of the machine.
type needs struct{ Agent, Verify Amount }

// alone is the need of a task whose verification begins after the agent's
// sandbox is gone.
func (n needs) alone() Amount { return n.Agent.max(n.Verify) }

// together is the need of a task whose verification is prepared while the agent
// works.
func (n needs) together() Amount { return n.Agent.plus(n.Verify) }

// The bounds of a plan.
const (
	mostWorkers = 4 // unless the operator asks for more
	core        = 1000
	// What stays for the engine, this process and the operating system: a share of
	// the machine, but at least so many bytes.
	reserveShare  = 16
	reserveMemory = 256 << 20
	reserveDisk   = 512 << 20
	// unknown is used for an unknown size: large, but sums don't overflow.
	unknown = math.MaxInt64 / 4
)

// Request is what a plan is made of.
type Request struct {
	Size   sandbox.Size // of the machine of the sandboxes
	Limits sandbox.Limits
	OnDisk bool // roots that can be written are on the disk
	// Sockets is the memory that sockets of each box can take beside its limit.
	Sockets int64
	Asked   int // workers, 0 if the operator asked for no number
	Cores   int // of this process, if the size has none
	// Loads are those of the tasks, with the first task that has it.
	Loads map[Load]string
}

// Plan says how many tasks run at the same time.
type Plan struct {
	Workers int
	// Slots is how many of the largest tasks fit the machine at the same time, whatever
	// the number of workers.
	Slots int64
	// Verifications is how many can take place at the same time: what verifiers
	// keep running is bounded by it.
	Verifications int
	Why           string // the number of workers, in a few words
	Usable        Amount // by sandboxes; parts that nobody knows are 0
	// Most is what the sandboxes may need at once.
	Most Amount

	room, cores *gate
	limits      sandbox.Limits
	onDisk      bool
	sockets     int64
}

// Choose plans. The error names a task that the machine cannot hold even by itself.
func Choose(r Request) (*Plan, error) {
	p := &Plan{limits: r.Limits.WithDefaults(), onDisk: r.OnDisk, sockets: r.Sockets}
	if r.Size.CPUs <= 0 {
		r.Size.CPUs = float64(max(1, r.Cores))
	}
	whole := usable(r.Size)
	once, kept, most, first := p.largest(r.Loads)
	if each := once.plus(kept).plus(most); !each.within(whole) {
		return nil, p.refuse(first, each, whole)
	}
	slots := fitting(kept.plus(most), whole.minus(once))
	perCore := max(1, int(r.Size.CPUs/p.limits.CPUs))
	if len(r.Loads) == 0 {
		perCore = max(1, int(r.Size.CPUs))
	}
	p.choose(r.Asked, perCore, slots)
	p.Verifications = int(min(int64(p.Workers), slots))
	reserved := once.plus(kept.times(int64(p.Verifications)))
	p.room = newGate(whole.minus(reserved))
	p.cores = newGate(Amount{CPUs: max(int64(r.Size.CPUs*core), int64(p.limits.CPUs*core))})
	p.Most = reserved.plus(most.times(int64(p.Verifications)))
	p.Usable = known(whole)
	return p, nil
}

// usable is what sandboxes may have of a machine.
func usable(s sandbox.Size) Amount {
	part := func(all, least int64) int64 {
		if all <= 0 {
			return unknown
		}
		return max(0, min(all, unknown)-max(all/reserveShare, least))
	}
	return Amount{Memory: part(s.Memory, reserveMemory), Disk: part(s.Disk, reserveDisk)}
}

func known(a Amount) Amount {
	for _, part := range []*int64{&a.Memory, &a.Disk} {
		if *part == unknown {
			*part = 0
		}
	}
	return a
}

// largest returns what is kept once and for a verification, the most that any task
// needs by itself, and the task that needs the most memory.
func (p *Plan) largest(loads map[Load]string) (once, kept, most Amount, task string) {
	type lasting struct{ once, kept Footprint }
	seen := map[lasting]bool{}
	largest := int64(-1)
	for _, l := range slices.SortedFunc(maps.Keys(loads), func(a, b Load) int { return strings.Compare(loads[a], loads[b]) }) {
		if k := (lasting{l.Once, l.Kept}); !seen[k] {
			seen[k] = true
			once = once.plus(p.amount(l.Once))
			kept = kept.plus(p.amount(l.Kept))
		}
		alone := p.needs(l).alone()
		most = most.max(alone)
		if alone.Memory > largest {
			largest, task = alone.Memory, loads[l]
		}
	}
	return once, kept, most, task
}

// amount is what a footprint may need, with what its sockets hold.
func (p *Plan) amount(f Footprint) Amount {
	out := f.Amount(p.limits, p.onDisk)
	out.Memory += p.sockets * int64(f.Boxes+f.Roots+f.Halves)
	return out
}

// fitting returns how often an amount fits.
func fitting(each, whole Amount) int64 {
	n := int64(math.MaxInt32)
	for _, part := range [][2]int64{{each.Memory, whole.Memory}, {each.Disk, whole.Disk}} {
		if part[0] > 0 {
			n = min(n, part[1]/part[0])
		}
	}
	return n
}

// choose sets the number of workers.
func (p *Plan) choose(asked, perCore int, slots int64) {
	p.Slots = slots
	switch n := int64(min(perCore, mostWorkers)); {
	case asked > 0:
		p.Workers, p.Why = asked, "as asked for"
		if slots < int64(asked) {
			p.Why += fmt.Sprintf(", but the machine holds only %d such tasks at the same time", slots)
		}
	case slots < n:
		p.Workers, p.Why = int(slots), "as many as the machine's memory and disk hold"
	case perCore < mostWorkers:
		p.Workers, p.Why = perCore, "as many as the cores serve"
	default:
		p.Workers, p.Why = mostWorkers, "the default's most"
	}
}

// refuse is the error for a task that the machine cannot hold.
func (p *Plan) refuse(task string, each, whole Amount) error {
	if each.Memory > whole.Memory {
		return fmt.Errorf("task %q may need %s of memory at once (with limits.memory %s and limits.disk %s for each sandbox), and the sandboxes' machine has %s for it: lower these limits in the tester YAML, or use a larger machine",
			task, Bytes(each.Memory), Bytes(p.limits.Memory), Bytes(p.limits.Disk), Bytes(whole.Memory))
	}
	return fmt.Errorf("task %q may need %s of disk at once (limits.disk is %s for each sandbox), and the engine's disk has %s for it: make room, or lower limits.disk in the tester YAML",
		task, Bytes(each.Disk), Bytes(p.limits.Disk), Bytes(whole.Disk))
}

func (p *Plan) needs(l Load) needs {
	return needs{p.amount(l.Agent), p.amount(l.Verify)}
}

// Line says in one line what was chosen.
func (p *Plan) Line() string {
	text := fmt.Sprintf("%d at the same time (%s)", p.Workers, p.Why)
	if p.Most.Memory > 0 {
		text += fmt.Sprintf(", which may need %s of memory", Bytes(p.Most.Memory))
		if p.Usable.Memory > 0 {
			text += " of " + Bytes(p.Usable.Memory)
		}
	}
	if p.Most.Disk > 0 && p.Usable.Disk > 0 {
		text += fmt.Sprintf(" and %s of the engine's disk of %s", Bytes(p.Most.Disk), Bytes(p.Usable.Disk))
	}
	return text
}

// Bytes writes a number of bytes for people.
func Bytes(n int64) string {
	for _, unit := range []struct {
		name string
		size int64
	}{{"TiB", 1 << 40}, {"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}} {
		if n >= unit.size {
			text := fmt.Sprintf("%.1f", float64(n)/float64(unit.size))
			return strings.TrimSuffix(text, ".0") + " " + unit.name
		}
	}
	return fmt.Sprintf("%d bytes", n)
}

// errUnplanned says that a task was not among the loads of the plan.
var errUnplanned = errors.New("the task needs more than any that was planned")
