package upper

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

const bufSize = 64 << 10

// same reports whether a sandbox would find no difference between what is in the
// upper layer and what is below it, except for times.
func (c *comparer) same(now, was found, name string) (bool, error) {
	if now.st.Mode != was.st.Mode || c.owner(now.in.layer, &now.st) != c.owner(was.in.layer, &was.st) {
		return false, nil
	}
	switch now.st.Mode & unix.S_IFMT {
	case unix.S_IFLNK:
		a, err := readLink(now.in.dir, name)
		if err != nil {
			return false, err
		}
		b, err := readLink(was.in.dir, name)
		return a == b, err
	case unix.S_IFCHR, unix.S_IFBLK:
		return now.st.Rdev == was.st.Rdev, nil
	case unix.S_IFREG:
		if now.st.Size != was.st.Size || now.st.Size > maxCompared {
			return false, nil
		}
		return c.both(now, was, name, 0, func(a, b *os.File) (bool, error) {
			if err := c.refuse(a, "metacopy"); err != nil {
				return false, err
			}
			if same, err := c.sameAttributes(a, b); err != nil || !same {
				return false, err
			}
			return c.sameContent(a, b)
		})
	case unix.S_IFDIR:
		return c.both(now, was, name, unix.O_DIRECTORY, c.sameAttributes)
	}
	return true, nil
}

// both opens the same name in two layers.
func (c *comparer) both(now, was found, name string, flags uint64, compare func(a, b *os.File) (bool, error)) (bool, error) {
	a, err := openAt(now.in.dir, name, flags)
	if err != nil {
		return false, err
	}
	defer a.Close()
	b, err := openAt(was.in.dir, name, flags)
	if err != nil {
		return false, err
	}
	defer b.Close()
	return compare(a, b)
}

func (c *comparer) sameContent(a, b *os.File) (bool, error) {
	for {
		n, err := io.ReadFull(a, c.buf[0])
		if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
			return false, err
		}
		m, err2 := io.ReadFull(b, c.buf[1])
		if err2 != nil && !errors.Is(err2, io.EOF) && !errors.Is(err2, io.ErrUnexpectedEOF) {
			return false, err2
		}
		if !bytes.Equal(c.buf[0][:n], c.buf[1][:m]) {
			return false, nil
		}
		if err != nil {
			return true, nil
		}
	}
}

// sameAttributes compares the extended attributes that a sandbox can see.
func (c *comparer) sameAttributes(a, b *os.File) (bool, error) {
	of, err := c.attributes(a)
	if err != nil {
		return false, err
	}
	to, err := c.attributes(b)
	if err != nil || len(of) != len(to) {
		return false, err
	}
	for name, value := range of {
		if other, ok := to[name]; !ok || other != value {
			return false, nil
		}
	}
	return true, nil
}

func (c *comparer) attributes(f *os.File) (map[string]string, error) {
	n, err := unix.Flistxattr(int(f.Fd()), c.buf[0])
	if errors.Is(err, unix.EOPNOTSUPP) || err == nil && n == 0 {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("listing attributes: %w", err)
	}
	var out map[string]string
	for name := range strings.SplitSeq(string(c.buf[0][:n]), "\x00") {
		// Those of the first kind are root's own, those of the last every file's.
		if name == "" || strings.HasPrefix(name, "trusted.") || strings.HasPrefix(name, c.marks) || name == "security.selinux" {
			continue
		}
		n, err := unix.Fgetxattr(int(f.Fd()), name, c.buf[1])
		if err != nil {
			return nil, fmt.Errorf("reading the attribute %q: %w", name, err)
		}
		if out == nil {
			out = make(map[string]string)
		}
		out[name] = string(c.buf[1][:n])
	}
	return out, nil
}

// readLink returns the target of a link.
func readLink(dir *os.File, name string) (string, error) {
	buf := make([]byte, unix.PathMax)
	n, err := unix.Readlinkat(int(dir.Fd()), name, buf)
	if err != nil {
		return "", err
	}
	return string(buf[:n]), nil
}
