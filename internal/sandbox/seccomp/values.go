package seccomp

import "slices"

// low is the part of an argument that the kernel looks at where it takes a number of
// 32 bits. What is above is no part of it, and a filter that compared it would let
// through there what it refuses here.
const low = 0xffffffff

// is holds for an argument of 32 bits with a value.
func is(index uint, value uint32) condition { return masked(index, low, uint64(value)) }

// masked holds for an argument that has a value where mask has ones.
func masked(index uint, mask, value uint64) condition {
	return condition{Index: index, Value: mask, ValueTwo: value, Op: "SCMP_CMP_MASKED_EQ"}
}

// others holds for the arguments of 32 bits below 1<<bits that have none of the values:
// one condition for each block of numbers with a common beginning. Conditions of
// other rules on the argument do not overlap with these, because what comes of that
// depends on the runtime.
func others(index uint, bits int, values ...uint32) (blocks []condition) {
	var split func(first uint32, bits int)
	split = func(first uint32, bits int) {
		within := func(v uint32) bool { return v>>bits == first>>bits }
		switch {
		case !slices.ContainsFunc(values, within):
			blocks = append(blocks, masked(index, low&^(1<<bits-1), uint64(first)))
		case bits > 0:
			split(first, bits-1)
			split(first|1<<(bits-1), bits-1)
		}
	}
	split(0, bits)
	return blocks
}

// each makes a rule of each condition: the action is taken where one of them holds.
func each(action string, errno uint, names []string, conditions []condition) []rule {
	var rules []rule
	for _, c := range conditions {
		r := rule{Names: names, Action: action, Args: []condition{c}}
		if action == refuse {
			r.ErrnoRet = &errno
		}
		rules = append(rules, r)
	}
	return rules
}
