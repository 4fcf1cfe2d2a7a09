package capture

import (
	"archive/tar"
	"io/fs"
	"strings"

	"securebench/internal/redact"
	"securebench/internal/sandbox/holder"
	"securebench/internal/verdict"
)

// MissingRoots is the key of a tree's metadata for the roots that were not there.
// They are the row's words, which only the evaluator may read: they must not be
// published.
const MissingRoots = "missing_roots"

// The other keys of a tree's metadata: what is not in the tree, or not wholly, and
// how many roots were not there. At most maxDropped paths are listed, each with
// at most ignoredLength characters.
const (
	droppedKey      = "dropped_paths"
	droppedCountKey = "dropped_path_count"
	missingCountKey = "missing_root_count"
	leftCountKey    = "left_behind_count"
	maxDropped      = 100
)

// The reasons for which something is not part of a tree.
const (
	droppedLink       = "link"         // it leads where no link may lead
	droppedPipe       = "pipe"         //
	droppedSocket     = "socket"       //
	droppedDevice     = "device"       //
	droppedUnreadable = "unreadable"   // its owner may not read it
	droppedSpecial    = "special_bits" // it is kept without setuid, setgid and sticky bits
	droppedXattrs     = "xattrs"       // it is kept without extended attributes
	droppedHardLink   = "hard_link"    // it is kept as a file of its own
	droppedElsewhere  = "not_captured" // it is where no system task's changes count
)

// A dropped path is not in the tree, or not with all that it had.
type dropped struct {
	Path   string `json:"path"`
	Reason string `json:"reason"`
}

// notes collects what a tree leaves out.
type notes struct {
	dropped []dropped
	count   int
	missing []string
	left    int64 // files and folders of a workspace of which named files are taken
}

func (n *notes) drop(path, reason string) {
	if n.count++; n.count <= maxDropped {
		n.dropped = append(n.dropped, dropped{path, reason})
	}
}

// noted returns the notes as metadata, without secrets.
func (j job) noted(n notes) verdict.Metadata {
	m := verdict.Metadata{}
	shown := func(path string) string {
		return redact.EscapeShort(string(j.Secrets.Bytes([]byte(path))), ignoredLength)
	}
	for i := range n.dropped {
		n.dropped[i].Path = shown(n.dropped[i].Path)
	}
	for i := range n.missing {
		n.missing[i] = shown(n.missing[i])
	}
	if n.count > 0 {
		m.Set(droppedKey, n.dropped)
		m.Set(droppedCountKey, n.count)
	}
	if n.left > 0 {
		m.Set(leftCountKey, n.left)
	}
	if len(n.missing) > 0 {
		m.Set(MissingRoots, n.missing)
		m.Set(missingCountKey, len(n.missing))
	}
	if len(m) == 0 {
		return nil
	}
	return m
}

// lost returns the reason for which an entry of an archive cannot be in a tree,
// or "".
func lost(h *tar.Header) string {
	switch h.PAXRecords[holder.RecordType] {
	case holder.Socket:
		return droppedSocket
	case holder.Unreadable:
		return droppedUnreadable
	}
	switch h.Typeflag {
	case tar.TypeReg, tar.TypeDir, tar.TypeSymlink, tar.TypeLink:
		return ""
	case tar.TypeFifo:
		return droppedPipe
	}
	return droppedDevice
}

// special reports whether a header has bits that no tree keeps.
func special(h *tar.Header) bool {
	return h.FileInfo().Mode()&(fs.ModeSetuid|fs.ModeSetgid|fs.ModeSticky) != 0
}

// lessened returns what an entry of an archive loses in a tree.
func lessened(h *tar.Header) (reasons []string) {
	if special(h) {
		reasons = append(reasons, droppedSpecial)
	}
	for key := range h.PAXRecords {
		if key == holder.RecordAttributes || strings.HasPrefix(key, "SCHILY.xattr.") {
			reasons = append(reasons, droppedXattrs)
			break
		}
	}
	if h.PAXRecords[holder.RecordLinks] != "" || h.Typeflag == tar.TypeLink {
		reasons = append(reasons, droppedHardLink)
	}
	return reasons
}
