package compile

import (
	"fmt"
	"path"
	"strings"

	"securebench/internal/family"
	"securebench/internal/pathname"
	"securebench/internal/pipeline/pack"
	"securebench/internal/sandbox"
	"securebench/internal/task"
)

// checkout checks the repository that the family finds in the row. It may rely
// on the family's rules.
func (k *checker) checkout(f family.Family) {
	c := checkoutOf(k.row, f)
	if c == (task.Checkout{}) {
		return
	}
	if fault := checkoutFault(c.Dir); fault != "" {
		k.errs.Add(k.row.Pos, "set it to the absolute path of the repository in the image", "%s has its repository at %q, which %s", k.context, c.Dir, fault)
	}
}

// checkoutOf returns the repository that the agent changes; most families have
// none.
func checkoutOf(row pack.Row, f family.Family) task.Checkout {
	if f.Checkout == nil {
		return task.Checkout{}
	}
	c := f.Checkout(familyRow(row))
	if strings.HasPrefix(c.Dir, "/") && workdirFault(c.Dir) == "" {
		c.Dir = path.Clean(c.Dir)
	}
	return c
}

// checkoutFault says why no repository can be at dir, or "". An agent's
// checkout is mounted there, beside the folders that a sandbox has in any case.
func checkoutFault(dir string) string {
	if fault := workdirFault(dir); fault != "" {
		return fault
	}
	if dir == "/" {
		return "is the root of the image"
	}
	if strings.ContainsAny(dir, ":,") {
		return "contains a colon or a comma"
	}
	for _, taken := range []string{"/workspace", "/proc", "/sys", "/dev", "/tmp", sandbox.HelperDir} {
		if pathname.Within(dir, taken) {
			return fmt.Sprintf("is in %s, which is another folder in a sandbox", taken)
		}
	}
	return ""
}

// familyRow returns the part of a row that a family sees.
func familyRow(row pack.Row) family.Row {
	out := family.Row{ID: row.ID, Input: values(row.Input), Eval: values(row.Eval), Environment: values(row.Environment), Public: row.Public()}
	if row.AssetList != nil {
		out.Assets = row.AssetList.JSON()
	}
	return out
}
