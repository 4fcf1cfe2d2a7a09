package wheels

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"

	"securebench/internal/durable"
	"securebench/internal/fault"
	"securebench/internal/lazyregexp"
	"securebench/internal/redact"
	"securebench/internal/registry"
	"securebench/internal/source"
)

// Resolve chooses a wheel for each requirement that a Python needs, among those that have
// one of its digests. What was chosen before, for the same requirements and the same
// Python, needs no registry. say gets a line before one is asked.
func (c *Cache) Resolve(ctx context.Context, all []Requirement, p Python, say func(string)) (Set, error) {
	needed, err := applicable(all, p)
	if err != nil {
		return Set{}, fault.As(fault.Config, err)
	}
	chosen := fmt.Sprintf("chosen-%x.json", sha256.Sum256([]byte(DigestOf(needed)+"\n"+p.String())))
	set := Set{Name: "requirements", Version: short(DigestOf(needed)), Installed: true}
	if set.Wheels = c.chosen(chosen, needed); set.Wheels != nil {
		return set, nil
	}
	conf, err := loadPip(c.getenv)
	if err != nil {
		return Set{}, fault.As(fault.Config, err)
	}
	r, err := openIndexes(conf, c.pause)
	if err != nil {
		return Set{}, fault.As(fault.Config, err)
	}
	defer r.close()
	say(fmt.Sprintf("choosing wheels of %d requirements for %s", len(needed), p))
	for _, q := range needed {
		w, err := r.choose(ctx, q, p)
		if err != nil {
			return Set{}, c.unchosen(ctx, q, err)
		}
		set.Wheels = append(set.Wheels, w)
	}
	text, err := json.Marshal(set.Wheels, json.Deterministic(true))
	if err != nil {
		return Set{}, err
	}
	if err := durable.WriteFile(c.root, chosen, text, 0o644); err != nil {
		return Set{}, cacheError(err)
	}
	return set, nil
}

// short is the beginning of a digest.
func short(sum string) string {
	_, sum, _ = strings.Cut(sum, ":")
	return sum[:12]
}

// applicable are the requirements whose markers a Python meets.
func applicable(all []Requirement, p Python) (out []Requirement, err error) {
	lines := map[string]int{}
	for _, r := range all {
		ok, err := p.meets(r.Marker)
		switch {
		case err != nil:
			return nil, fmt.Errorf("line %d: %s: %w", r.line, r, err)
		case !ok:
			continue
		case lines[r.Project] > 0:
			return nil, fmt.Errorf("line %d: %s is required twice, in line %d as well", r.line, r, lines[r.Project])
		}
		lines[r.Project] = r.line
		out = append(out, r)
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("nothing of it is for %s", p)
	}
	return out, nil
}

// String is the project with its version.
func (r Requirement) String() string { return r.Project + "==" + r.Version }

// chosen are the wheels that were chosen before, nil if that is not known, or not for
// these requirements.
func (c *Cache) chosen(name string, needed []Requirement) (out []Wheel) {
	text, err := source.ReadFileIn(c.root, name, MaxRequirements)
	if err != nil || json.Unmarshal(text, &out, json.RejectUnknownMembers(true)) != nil || len(out) != len(needed) {
		return nil
	}
	for i, w := range out {
		if w.Project != needed[i].Project || !slices.Contains(needed[i].SHA256, w.SHA256) || !isWheel(w.File) {
			return nil
		}
	}
	return out
}

var wheelName = lazyregexp.New(`^[A-Za-z0-9][A-Za-z0-9_.+!-]{0,200}\.whl$`)

// isWheel reports whether a name of a registry's is that of a wheel, and can name a file.
func isWheel(name string) bool { return wheelName.MatchString(name) && strings.Count(name, "-") >= 4 }

// unchosenError says why a requirement has no wheel.
type unchosenError struct{ why string }

// Error says it.
func (e *unchosenError) Error() string { return e.why }

// unchosen says whose fault it is that a requirement has no wheel.
func (c *Cache) unchosen(ctx context.Context, r Requirement, err error) error {
	var why *unchosenError
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.As(err, &why):
		return fault.Errorf(fault.Config, "line %d: %s: %w", r.line, r, err)
	case errors.Is(err, registry.ErrUnreachable):
		return fault.Errorf(fault.Infrastructure, "looking for %s: %w: check the network and pip's settings index-url, proxy and cert", r, err)
	}
	return fault.Errorf(fault.Config, "line %d: looking for %s: %w: check the name, and pip's setting index-url", r.line, r, err)
}

// choose returns the best wheel of a requirement, of the first registry that has one.
func (r *indexes) choose(ctx context.Context, q Requirement, p Python) (Wheel, error) {
	if len(r.all) == 0 {
		return Wheel{}, registry.ErrNotFound
	}
	var errs []error
	for _, index := range r.all {
		w, err := r.chooseFrom(ctx, index, q, p)
		if err == nil || ctx.Err() != nil {
			return w, err
		}
		errs = append(errs, err)
	}
	return Wheel{}, errors.Join(errs...)
}

func (r *indexes) chooseFrom(ctx context.Context, index *url.URL, q Requirement, p Python) (Wheel, error) {
	page, _, err := r.get(ctx, index.JoinPath(q.Project+"/"), maxPage, pageTypes)
	if err != nil {
		return Wheel{}, err
	}
	files, err := listedFiles(page)
	if err != nil {
		return Wheel{}, err
	}
	best, rank, wheels, others := Wheel{}, unfit, []string(nil), false
	for _, f := range files {
		sum := strings.ToLower(f.Hashes["sha256"])
		if !slices.Contains(q.SHA256, sum) {
			continue
		}
		project, _, _ := strings.Cut(f.Filename, "-")
		if !isWheel(f.Filename) || normal(project) != q.Project {
			others = true
			continue
		}
		wheels = append(wheels, f.Filename)
		if n := p.rank(f.Filename); n < rank {
			best, rank = Wheel{q.Project, f.Filename, sum}, n
		}
	}
	switch {
	case rank != unfit:
		return best, nil
	case len(wheels) > 0:
		return Wheel{}, &unchosenError{fmt.Sprintf("none of its wheels with one of the digests is for %s of the image: there is %s (choose another version, or compile the file for that Python)", p, redact.QuoteFew(wheels))}
	case others:
		return Wheel{}, &unchosenError{"its digests are those of source archives, and nothing is built here (choose a version with wheels, or bring the package with harness.config.files)"}
	}
	return Wheel{}, &unchosenError{"the registry has no file with one of its digests (compile the file anew, against this registry)"}
}

// hashOf returns the digest in the fragment of an address, "" if there is none.
func hashOf(address string) map[string]string {
	_, fragment, _ := strings.Cut(address, "#")
	for part := range strings.SplitSeq(fragment, "&") {
		if sum, ok := strings.CutPrefix(part, "sha256="); ok {
			if _, err := hex.DecodeString(sum); err == nil {
				return map[string]string{"sha256": sum}
			}
		}
	}
	return nil
}
