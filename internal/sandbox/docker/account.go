package docker

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"securebench/internal/sandbox"
)

// numericUser reads a user that needs no account file: none at all, which is
// root, and one that gives user and group by number.
func numericUser(s string) (sandbox.User, bool) {
	if s == "" {
		return sandbox.User{}, true
	}
	u, g, ok := strings.Cut(s, ":")
	if !ok {
		return sandbox.User{}, false
	}
	uid, err1 := accountNumber(u)
	gid, err2 := accountNumber(g)
	return sandbox.User{UID: uid, GID: gid}, err1 == nil && err2 == nil
}

// accountNumber reads a user or group number. Numbers end at 2^31-1, where
// the engines' own limit is.
func accountNumber(s string) (int, error) {
	n, err := strconv.ParseUint(s, 10, 31)
	return int(n), err
}

// lookupUser resolves a user as the engine would: a name by the first line
// that has it, a number as itself, and the group of a user given alone by the
// user's line, or 0.
func lookupUser(s string, passwd, group []byte) (sandbox.User, error) {
	name, groupName, hasGroup := strings.Cut(s, ":")
	line, err := account(passwd, name, 7)
	if err != nil {
		return sandbox.User{}, fmt.Errorf("/etc/passwd: %w", err)
	}
	var u sandbox.User
	switch {
	case line != nil:
		if u, err = userOf(line); err != nil {
			return sandbox.User{}, fmt.Errorf("/etc/passwd: user %q: %w", name, err)
		}
	default:
		if u.UID, err = accountNumber(name); err != nil {
			return sandbox.User{}, fmt.Errorf("the image has no user %q", name)
		}
	}
	if !hasGroup || groupName == "" {
		return u, nil
	}
	u.GID, err = lookupGroup(groupName, group)
	return u, err
}

func lookupGroup(name string, group []byte) (int, error) {
	line, err := account(group, name, 4)
	if err != nil {
		return 0, fmt.Errorf("/etc/group: %w", err)
	}
	if line != nil {
		gid, err := accountNumber(line[2])
		if err != nil {
			return 0, fmt.Errorf("/etc/group: group %q has no valid number", name)
		}
		return gid, nil
	}
	gid, err := accountNumber(name)
	if err != nil {
		return 0, fmt.Errorf("the image has no group %q", name)
	}
	return gid, nil
}

func userOf(line []string) (sandbox.User, error) {
	uid, err1 := accountNumber(line[2])
	gid, err2 := accountNumber(line[3])
	if err1 != nil || err2 != nil {
		return sandbox.User{}, errors.New("it has no valid numbers")
	}
	return sandbox.User{UID: uid, GID: gid}, nil
}

// account returns the fields of the first line for a name or, where no line
// has the name, for a number; nil if there is none. Lines of others may be
// broken, the one that counts may not.
func account(file []byte, name string, fields int) ([]string, error) {
	var byNumber []string
	for line := range strings.Lines(string(file)) {
		f := strings.Split(strings.TrimSuffix(line, "\n"), ":")
		if f[0] == name {
			if len(f) != fields {
				return nil, fmt.Errorf("the line of %q has %d fields instead of %d", name, len(f), fields)
			}
			return f, nil
		}
		if byNumber == nil && len(f) == fields && f[2] == name {
			byNumber = f
		}
	}
	return byNumber, nil
}
