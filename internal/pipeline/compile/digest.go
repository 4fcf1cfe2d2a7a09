package compile

import (
	"crypto/sha256"
	"fmt"
	"hash"

	"securebench/internal/digest"
	"securebench/internal/pipeline/pack"
)

// PublicDigest accumulates the digest of a pack's public lane: exactly what an
// agent may see of the rows, so that the plain digest can be published. Use
// [newPublicDigest] to make one.
type PublicDigest struct{ sum hash.Hash }

// newPublicDigest returns the digest of no rows.
func newPublicDigest() *PublicDigest {
	return &PublicDigest{sha256.New()}
}

// Add adds a row; rows are added in file order. The hashed bytes are compact
// JSON with numbers as written, one value per line: the id, the family, then
// the name and value of each public resource in row order, and the row's
// variables if it has any.
func (d *PublicDigest) Add(row pack.Row) {
	fmt.Fprintf(d.sum, "%s\n%s\n", quote(row.ID), quote(row.Family))
	for _, r := range public(row) {
		fmt.Fprintf(d.sum, "%s:%s\n", quote(r.Name), r.Value)
	}
	if env := row.Environment.Get("env"); env != nil && len(env.Fields) > 0 {
		fmt.Fprintf(d.sum, "environment.env:%s\n", env.JSON())
	}
	fmt.Fprintln(d.sum)
}

// Sum returns the digest of the rows so far and of the public assets, whose
// tree has the digest assets.
func (d *PublicDigest) Sum(assets string) string {
	return digest.Bytes(fmt.Appendf(nil, "securebench public lane\nrows %x\nassets %s\n", d.sum.Sum(nil), assets))
}
