package workspace

import "math"

// page is what a file system gives out at a time, in bytes.
const page = 4096

// Need is what a tree takes of a workspace's limits.
type Need struct {
	Files int64 // and directories
	Bytes int64 // in whole pages
}

// FileNeed is what a file of that size takes.
func FileNeed(size int64) Need {
	return Need{Files: 1, Bytes: plus(size, page-1) / page * page}
}

// Plus returns the sum, or the largest number where that is beyond it.
func (n Need) Plus(m Need) Need { return Need{plus(n.Files, m.Files), plus(n.Bytes, m.Bytes)} }

func plus(a, b int64) int64 {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}

// Need returns what the layout takes, its root included; asset tells what an
// asset does. It does no I/O.
func (p *Layout) Need(asset func(path string) Need) Need {
	total, dirs := Need{Files: 1}, map[string]bool{}
	for _, e := range p.Entries {
		if e.Asset != "" {
			total = total.Plus(asset(e.Asset))
		} else {
			total = total.Plus(FileNeed(int64(len(e.Data))))
		}
		for dir := range parents(e.Path) {
			dirs[dir] = true
		}
	}
	return total.Plus(Need{Files: int64(len(dirs))})
}
