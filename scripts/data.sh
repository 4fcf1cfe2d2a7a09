#!/usr/bin/env bash
# Imports the public data sets of a folder into data/, one pack each.
#
#   data.sh BINARY DIR [REPOS]
#
# The rows of data set NAME are DIR/NAME/public/rows.jsonl or DIR/NAME.jsonl,
# those of Exercism DIR/exercism/public/LANGUAGE.jsonl or
# DIR/exercism-LANGUAGE.jsonl, those of SWE-bench DIR/swe-bench/public/rows.jsonl
# or DIR/swe-bench.jsonl, the task folders of Terminal-Bench lie in
# DIR/terminal-bench/public; SWE-bench needs REPOS, the folder of the clones, and
# swebench.json beside this script corrects how some of its rows are run.
# HumanEval-X has a file for each language, DIR/humaneval-x/public/*.jsonl, or one for
# all, DIR/humaneval-x.jsonl. ClassEval is DIR/ClassEval_data.json as well.
# BFCL is the folder DIR/bfcl/public or DIR/bfcl, with a file for each category.
# GSM8K's model solutions DIR/gsm8k/public/model_solutions.jsonl or
# DIR/gsm8k-answers.jsonl; they become data/gsm8k/answers/MODEL.jsonl. Any part
# of a data set will do. One that is missing is skipped, with a message, and an
# earlier import of it is removed, so that data/ holds what DIR does.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
. "$here/say.sh"
binary=$1
dir=$2
repos=${3:-}
[ -n "$dir" ] || die "name the folder of the data sets: make data DATA=DIR"
[ -d "$dir" ] || die "no such folder: $dir"

imported=0

# import FORMAT TARGET FILE... imports the first of the files, or folders, that
# exists. The
# array options holds more arguments.
options=()
import() {
	local format=$1 target=data/$2 file
	shift 2
	rm -rf "$target"
	for file in "$@"; do
		if [ -e "$file" ]; then
			"$binary" pack import "$format" "$file" -o "$target" "${options[@]}"
			imported=$((imported + 1))
			return
		fi
	done
	say "$format: skipped, there is no $1"
}

for name in humaneval mbpp gsm8k truthfulqa quixbugs evoeval; do
	import "$name" "$name" "$dir/$name/public/rows.jsonl" "$dir/$name.jsonl"
done
import llmbar llmbar "$dir/llmbar/public/rows.jsonl" "$dir/llmbar.jsonl"
import pandalm pandalm "$dir/pandalm/public/rows.jsonl" "$dir/pandalm.jsonl" "$dir/pandalm/data/testset-v1.json"
pairs=("$dir"/judgebench/data/*.jsonl)
if [ -e "${pairs[0]}" ]; then
	mkdir -p data
	cat "${pairs[@]}" >data/judgebench.jsonl
	import judgebench judgebench data/judgebench.jsonl
	rm data/judgebench.jsonl
else
	import judgebench judgebench "$dir/judgebench.jsonl"
fi
import classeval classeval "$dir/classeval/public/rows.jsonl" "$dir/classeval.jsonl" "$dir/ClassEval_data.json"
languages=("$dir"/humaneval-x/public/*.jsonl)
if [ -e "${languages[0]}" ]; then
	mkdir -p data
	cat "${languages[@]}" >data/humaneval-x.jsonl
	import humaneval-x humaneval-x data/humaneval-x.jsonl
	rm data/humaneval-x.jsonl
else
	import humaneval-x humaneval-x "$dir/humaneval-x.jsonl"
fi
import bfcl bfcl "$dir/bfcl/public" "$dir/bfcl"
import dacode dacode "$dir/dacode/public" "$dir/da-code"
import sheetcopilot sheetcopilot "$dir/sheetcopilot/public" "$dir/SheetCopilot"
import spreadsheetbench spreadsheetbench "$dir/spreadsheetbench"
import mathvision mathvision "$dir/mathvision/public/rows.jsonl" "$dir/mathvision/rows.jsonl"
import gsm8k-answers gsm8k/answers "$dir/gsm8k/public/model_solutions.jsonl" "$dir/gsm8k-answers.jsonl"
for language in python go; do
	options=(--id "exercism-$language")
	import exercism "exercism-$language" "$dir/exercism/public/$language.jsonl" "$dir/exercism-$language.jsonl"
done
options=(--start "$here/terminal-bench.yaml")
import terminal-bench terminal-bench "$dir/terminal-bench/public"
if [ -n "$repos" ]; then
	options=(--repos "$repos" --specs "$here/swebench.json")
	import swebench swebench "$dir/swe-bench/public/rows.jsonl" "$dir/swe-bench.jsonl"
else
	rm -rf data/swebench
	say "swebench: skipped, there are no clones: make REPOS=DIR data"
fi
[ "$imported" -gt 0 ] || say "$dir holds no data set that can be imported"
