// Package imageconfig reads what the configuration and the account files of an
// image say about users and variables, as container engines understand it.
package imageconfig

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/moby/sys/user"

	"securebench/internal/sandbox"
)

// NumericUser reads a user that needs no account file: none at all, which is
// root, and one that gives user and group by number.
func NumericUser(s string) (sandbox.User, bool) {
	if s == "" {
		return sandbox.User{}, true
	}
	u, g, ok := strings.Cut(s, ":")
	if !ok {
		return sandbox.User{}, false
	}
	return sandbox.User{UID: number(u), GID: number(g)}, isNumber(u) && isNumber(g)
}

// isNumber reports whether s is a user or group ID, which end at 2^31-1 as in
// the engines.
func isNumber(s string) bool {
	_, err := strconv.ParseUint(s, 10, 31)
	return err == nil
}

func number(s string) int {
	n, _ := strconv.Atoi(s)
	return n
}

// LookupUser resolves a user as the engine would. The error is a
// [sandbox.ErrUnusable].
func LookupUser(spec string, passwd, group []byte) (sandbox.User, error) {
	if spec == "" || spec[0] == ':' || strings.Count(spec, ":") > 1 {
		return sandbox.User{}, sandbox.Unusable(errors.New("write USER, UID, USER:GROUP or UID:GID"))
	}
	u, err := user.GetExecUser(spec, nil, wellFormed(passwd, 7, 2, 3), wellFormed(group, 4, 2))
	if err != nil {
		return sandbox.User{}, sandbox.Unusable(fmt.Errorf("reading the image's accounts: %w", err))
	}
	return sandbox.User{UID: u.Uid, GID: u.Gid}, nil
}

// wellFormed keeps the lines of an account file that have all their fields and
// valid IDs. The parser reads any other ID as 0, which would make the user of
// a damaged line root.
func wellFormed(file []byte, fields int, ids ...int) *bytes.Buffer {
	out := new(bytes.Buffer)
lines:
	for line := range bytes.Lines(file) {
		f := strings.Split(strings.TrimSpace(string(line)), ":")
		if len(f) != fields {
			continue
		}
		for _, i := range ids {
			if !isNumber(f[i]) {
				continue lines
			}
		}
		out.WriteString(strings.Join(f, ":") + "\n")
	}
	return out
}
