package workspace

import "math"

// page is the allocation unit of a file system, in bytes.
const page = 4096

// Need is the amount of a workspace's limits that a tree uses.
type Need struct {
	Files int64 // and directories
	Bytes int64 // in whole pages
}

// FileNeed returns the need of a file of the given size.
func FileNeed(size int64) Need {
	return Need{Files: 1, Bytes: plus(size, page-1) / page * page}
}

// Plus returns the sum, or the largest number on overflow.
func (n Need) Plus(m Need) Need { return Need{plus(n.Files, m.Files), plus(n.Bytes, m.Bytes)} }

func plus(a, b int64) int64 {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}

// Need returns the need of the layout, including its root; asset returns that
// of an asset. It does no I/O.
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
