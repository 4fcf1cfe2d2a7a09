package viewer

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"securebench/internal/evidence"
	"securebench/internal/pipeline/record"
	"securebench/internal/redact"
	"securebench/internal/source"
)

// The bounds of a library: how deep and how many folders are looked through, how many
// runs there can be, how many rows are kept of runs that nobody looks at, and how many
// runs are checked at the same time.
const (
	maxDepth   = 8
	maxFolders = 100_000
	maxRuns    = 5000
	maxKept    = 1_000_000 // with texts in proportion
	checkers   = 2
)

// Library is the runs below a folder.
type Library struct {
	dir     string
	options Options
	turn    chan struct{} // to check a run

	mu      sync.Mutex
	runs    map[string]*shelf // by id
	looked  time.Time
	more    bool // runs that are not listed
	clock   int64
	last    compared
	changed chan struct{} // closed when something is known that was not
}

// shelf is the place of one run.
type shelf struct {
	id, path string
	mu       sync.Mutex // held while the run is checked
	stamp    string     // of the files that were checked
	took     time.Duration
	at       time.Time
	run      *Run // nil if it cannot be opened or was put away
	err      error
	// Of the library's lock:
	summary Summary
	used    int64
	rows    int
}

// OpenLibrary looks for the runs below a folder, or in it.
func OpenLibrary(dir string, o Options) (*Library, error) {
	if _, err := os.Stat(dir); err != nil {
		return nil, fmt.Errorf("looking for runs: %s (give the folder that holds them)", source.Words(err))
	}
	l := &Library{dir: dir, options: o, turn: make(chan struct{}, checkers), runs: map[string]*shelf{}, changed: make(chan struct{})}
	l.look()
	if len(l.runs) == 0 {
		return nil, fmt.Errorf("%s holds no run", redact.Quote(dir))
	}
	return l, nil
}

// lookEvery is how often the folder is looked through.
const lookEvery = 2 * time.Second

// look finds runs that are new, and forgets those that have gone.
func (l *Library) look() {
	l.mu.Lock()
	if time.Since(l.looked) < lookEvery {
		l.mu.Unlock()
		return
	}
	l.looked = time.Now()
	l.mu.Unlock()
	found, more := find(l.dir)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.more = more
	for id := range l.runs {
		if !slices.Contains(found, id) {
			delete(l.runs, id)
		}
	}
	for _, id := range found {
		if l.runs[id] == nil {
			shown := redact.EscapeShort(id, maxWord)
			l.runs[id] = &shelf{id: id, path: filepath.Join(l.dir, id), summary: Summary{ID: id, Path: shown, State: Checking}}
		}
	}
}

// find returns the paths of runs below a folder, relative to it. The folder itself is ".".
func find(dir string) (found []string, more bool) {
	folders := 0
	_ = filepath.WalkDir(dir, func(name string, e fs.DirEntry, err error) error {
		rel, relErr := filepath.Rel(dir, name)
		if err != nil || relErr != nil {
			return nil //nolint:nilerr // what cannot be read holds no run that could be shown
		}
		if len(found) >= maxRuns || folders >= maxFolders {
			more = true
			return fs.SkipAll
		}
		if !e.IsDir() {
			if e.Type().IsRegular() && strings.HasSuffix(rel, ".zip") && isBundle(name) {
				found = append(found, rel)
			}
			return nil
		}
		folders++
		if rel != "." && (strings.HasPrefix(e.Name(), ".") || strings.Count(rel, string(filepath.Separator)) >= maxDepth) {
			return fs.SkipDir
		}
		if isRun(name) {
			found = append(found, rel)
			return fs.SkipDir
		}
		return nil
	})
	return found, more
}

func isRun(dir string) bool {
	for _, name := range []string{record.ManifestName, record.LinesName} {
		if info, err := os.Lstat(filepath.Join(dir, name)); err == nil && info.Mode().IsRegular() {
			return true
		}
	}
	return false
}

func isBundle(name string) bool {
	run, err := evidence.OpenRun(name)
	if err != nil {
		return false
	}
	return run.Close() == nil
}

// stamp tells whether a run may have changed since it was checked.
func stamp(path string) string {
	var b strings.Builder
	for _, name := range []string{"", record.ManifestName, record.LinesName, record.StatementName} {
		if info, err := os.Stat(filepath.Join(path, name)); err == nil && (name != "" || info.Mode().IsRegular()) {
			fmt.Fprintf(&b, "%s %d %d\n", name, info.Size(), info.ModTime().UnixNano())
		}
	}
	fmt.Fprint(&b, busy(path))
	return b.String()
}

// busy reports whether a runner holds the run's lock.
func busy(path string) bool {
	root, err := os.OpenRoot(path)
	if err != nil {
		return false // a bundle
	}
	defer root.Close()
	held, err := record.Busy(source.FS(root))
	return err == nil && held
}

// Get returns a run, checked.
func (l *Library) Get(ctx context.Context, id string) (*Run, Summary, error) {
	l.look()
	l.mu.Lock()
	s := l.runs[id]
	l.mu.Unlock()
	if s == nil {
		return nil, Summary{}, errUnknown
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := l.check(ctx, s); err != nil {
		return nil, Summary{}, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.clock++
	s.used = l.clock
	return s.run, s.summary, s.err
}

// path is where a run is.
func (l *Library) path(id string) (string, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if s := l.runs[id]; s != nil {
		return s.path, nil
	}
	return "", errUnknown
}

// restFactor is how much longer than its check took a run is left alone after it.
const restFactor = 4

// check checks a run unless it is as it was. The error is the context's.
func (l *Library) check(ctx context.Context, s *shelf) error {
	now := stamp(s.path)
	if s.stamp == now && (s.run != nil || s.err != nil) {
		return nil
	}
	if s.run != nil && time.Since(s.at) < restFactor*s.took {
		return nil // it is being written
	}
	select {
	case l.turn <- struct{}{}:
		defer func() { <-l.turn }()
	case <-ctx.Done():
		return ctx.Err()
	}
	began := time.Now()
	run, err := Load(ctx, s.path, l.options)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	s.run, s.err, s.stamp, s.at, s.took = run, err, now, time.Now(), time.Since(began)
	var summary Summary
	switch {
	case err != nil:
		summary = unreadable(err)
	case run.summary.State == Unfinished && busy(s.path):
		summary = run.summary
		summary.State = Running
	default:
		summary = run.summary
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	summary.ID, summary.Path = s.summary.ID, s.summary.Path
	s.summary, s.rows = summary, 0
	if run != nil {
		s.rows = run.weight()
	}
	l.tell()
	l.putAway(s)
	return nil
}

// tell wakes those that wait for news.
func (l *Library) tell() {
	close(l.changed)
	l.changed = make(chan struct{})
}

// putAway forgets the rows of runs that were not looked at for the longest time.
func (l *Library) putAway(but *shelf) {
	var kept []*shelf
	rows := 0
	for _, s := range l.runs {
		rows += s.rows
		if s != but && s.rows > 0 {
			kept = append(kept, s)
		}
	}
	slices.SortFunc(kept, func(a, b *shelf) int { return int(a.used - b.used) })
	for _, s := range kept {
		if rows <= maxKept {
			return
		}
		if s.mu.TryLock() {
			rows -= s.rows
			s.run, s.stamp, s.rows = nil, "", 0
			s.mu.Unlock()
		}
	}
}

// List is the runs of a library.
type List struct {
	Dir  string    `json:"dir"`
	Runs []Summary `json:"runs"`
	More bool      `json:"more,omitzero"`
	// Compared are the pairs of runs whose comparison is in a folder, by id.
	Compared [][2]string `json:"compared,omitzero"`
}

// List returns the runs, of which some may not be checked yet.
func (l *Library) List() List {
	l.look()
	l.mu.Lock()
	defer l.mu.Unlock()
	out := List{Dir: redact.EscapeShort(l.dir, maxWord), Runs: []Summary{}, More: l.more}
	for _, s := range l.runs {
		out.Runs = append(out.Runs, s.summary)
	}
	slices.SortFunc(out.Runs, func(a, b Summary) int { return strings.Compare(a.ID, b.ID) })
	return out
}

// News returns a channel that is closed when something about a run is known that was not.
func (l *Library) News() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.changed
}

// Check checks the runs until the context ends, again and again those that change.
func (l *Library) Check(ctx context.Context) {
	for ctx.Err() == nil {
		l.look()
		l.mu.Lock()
		all := make([]*shelf, 0, len(l.runs))
		for _, s := range l.runs {
			all = append(all, s)
		}
		l.mu.Unlock()
		slices.SortFunc(all, func(a, b *shelf) int { return strings.Compare(a.id, b.id) })
		for _, s := range all {
			l.refresh(ctx, s)
		}
		select {
		case <-ctx.Done():
		case <-time.After(lookEvery):
		}
	}
}

// refresh checks a run that changed, and one that is not kept only if it did.
func (l *Library) refresh(ctx context.Context, s *shelf) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l.mu.Lock()
	known := s.summary.State != Checking && s.run == nil && s.err == nil
	l.mu.Unlock()
	if known {
		return // it was put away
	}
	if err := l.check(ctx, s); err != nil && !errors.Is(err, context.Canceled) {
		l.mu.Lock()
		s.summary.Evidence = redact.EscapeShort(err.Error(), maxWord)
		l.mu.Unlock()
	}
}
