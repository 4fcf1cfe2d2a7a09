package terminaltask

import (
	"math"
	"path"
	"strconv"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"securebench/internal/lazyregexp"
)

// mainReward is the reward that counts where an object has several.
const mainReward = "reward"

// smallNumber matches numbers between 0 and 1 that programs write with an exponent.
var smallNumber = lazyregexp.New(`^[1-9](?:\.[0-9]+)?[eE]-[0-9]{1,3}$`)

// isObject reports whether the file of a reward holds an object.
func isObject(file string) bool { return path.Ext(file) == ".json" }

// parseReward reads a reward as its file's name says: a file that ends in .json holds an
// object of rewards by name: "reward" counts, or the only one; any may hold one
// number alone. See [parseNumber].
func parseReward(file string, data []byte) (float64, bool) {
	if v, ok := parseNumber(data); ok || !isObject(file) {
		return v, ok
	}
	var all map[string]jsontext.Value
	if json.Unmarshal(data, &all) != nil || len(all) == 0 {
		return 0, false
	}
	for _, v := range all {
		if v.Kind() != '0' {
			return 0, false
		}
	}
	v, ok := all[mainReward]
	if !ok && len(all) > 1 {
		return 0, false
	}
	if !ok {
		for _, v = range all { // it is one
			break
		}
	}
	if smallNumber.Match(v) {
		f, err := strconv.ParseFloat(string(v), 64)
		return min(f, math.Nextafter(1, 0)), err == nil
	}
	return parseNumber(v)
}
