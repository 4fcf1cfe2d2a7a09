#!/usr/bin/env bash
# Imports the public data sets of a folder into data/, one pack each.
#
#   data.sh BINARY DIR
#
# For each data set NAME the rows are DIR/NAME/public/rows.jsonl or
# DIR/NAME.jsonl; one that is missing is left out, and said so. GSM8K's model
# solutions are DIR/gsm8k/public/model_solutions.jsonl or
# DIR/gsm8k-answers.jsonl; they become data/gsm8k/answers/MODEL.jsonl.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
. "$here/say.sh"
binary=$1
dir=$2
[ -n "$dir" ] || die "name the folder of the data sets: make data DATA=DIR"
[ -d "$dir" ] || die "there is no folder $dir"

imported=0

# bring FORMAT TARGET FILE... imports the first file that is there.
bring() {
	local format=$1 target=$2 file
	shift 2
	for file in "$@"; do
		if [ -f "$file" ]; then
			"$binary" pack import "$format" "$file" -o "data/$target" --force
			imported=$((imported + 1))
			return
		fi
	done
	say "$format: left out, there is no $1"
}

for name in humaneval mbpp gsm8k truthfulqa; do
	bring "$name" "$name" "$dir/$name/public/rows.jsonl" "$dir/$name.jsonl"
done
bring gsm8k-answers gsm8k/answers "$dir/gsm8k/public/model_solutions.jsonl" "$dir/gsm8k-answers.jsonl"
[ "$imported" -gt 0 ] || die "$dir holds none of the data sets"
