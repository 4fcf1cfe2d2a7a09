#!/usr/bin/env bash
# Scores whole data sets with agents whose score is known, and fails unless
# every figure is met. "make accept" imports the data first.
#
#   accept.sh BINARY DIR
#
# Known figures: the oracle solves every row and the null agent none; the
# recorded model solutions of GSM8K score what the data set itself says. Real
# answers to BIG-Bench Hard (bbh-outputs) and to five other benchmarks
# (responses-samples) score what their reference says, or better.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
. "$here/say.sh"
. "$here/summary.sh"
binary=$1
dir=$2
out=runs/accept
wrong=0
runs=0
total=0
passed=0

# check NAME EXPECTED PACK AGENT scores one run; EXPECTED "all" is every task.
check() {
	local name=$1 want=$2 pack=$3 agent=$4
	score "$binary" "$pack" --agent "$agent" --output-dir "$out/$name"
	[ "$want" != all ] || want=$total
	printf '%-26s %5d of %5d passed, expected %5d\n' "$name" "$passed" "$total" "$want"
	expect "$name" "$passed" "$want"
	expect "the number of rows of $name" "$total" "$(wc -l <"$pack/tasks.jsonl")"
	case $pack in
	*/humaneval | */mbpp) # candidate code never runs beside the tests
		expect "the split verdicts of $name" "$(grep -c '"containment": "split"' "$out/$name/candidates.jsonl")" "$total"
		;;
	esac
	runs=$((runs + 1))
}

# correct MODEL counts the solutions that the data set calls right.
correct() {
	grep -Eo "\"$1\": *\{\"is_correct\": *true" "$solutions" | wc -l
}

for name in humaneval mbpp gsm8k truthfulqa; do
	if [ -d "data/$name" ]; then
		check "$name-oracle" all "data/$name" oracle
		check "$name-null" 0 "data/$name" null
	fi
done
solutions=$dir/gsm8k/public/model_solutions.jsonl
[ -f "$solutions" ] || solutions=$dir/gsm8k-answers.jsonl
for answers in data/gsm8k/answers/*.jsonl; do
	[ -f "$answers" ] || continue
	model=$(basename "$answers" .jsonl)
	check "gsm8k-$model" "$(correct "$model")" data/gsm8k "replay:$answers"
done

# Every run of a data set verifies, and HumanEval's verdicts are the same when
# they are derived anew, from a bundle, without trusting the run.
for run in "$out"/*/; do
	"$binary" verify "$run" >/dev/null || expect "the verification of $run" failed passed
done
if [ -d data/humaneval ]; then
	"$binary" bundle "$out/humaneval-oracle" -o "$out/humaneval.zip" --force
	"$binary" verify "$out/humaneval.zip" >/dev/null
	want=$(wc -l <data/humaneval/tasks.jsonl)
	got=$("$binary" reverify "$out/humaneval.zip" --pack data/humaneval --salt "$out/humaneval-oracle/restricted/salt" | grep -Eo '[0-9]+ equal' | cut -d ' ' -f 1)
	printf '%-26s %5d of %5d verdicts equal\n' "humaneval-reverify" "$got" "$want"
	expect "the verdicts of HumanEval that are derived anew" "$got" "$want"
fi
[ "$runs" -gt 0 ] || die "there is no data: make data DATA=DIR"
[ "$wrong" = 0 ] || die "$wrong figures are wrong"

# Row by row: the verdicts of GSM8K equal the data set's own, also through the
# command harness, every wrong choice of TruthfulQA fails, recorded answers to
# HumanEval get their recorded verdicts in each form in which they can be said,
# and real answers in prose get the verdicts that they deserve.
for name in humaneval-results bbh-outputs responses-samples; do
	[ -d "$dir/$name" ] || say "$name: left out, there is no $dir/$name"
done
SECUREBENCH_DATA=$(cd "$dir" && pwd) SECUREBENCH_TEST_DOCKER=require go test -count=1 -timeout 60m \
	-run 'GSM8K|TruthfulQA|SamplePacks|RecordedAnswers|BBHOutputs|Responses' \
	./cmd/securebench ./internal/family/shortanswer ./internal/family/multiplechoice ./internal/family/textmatch ./internal/importer
say "All $runs runs score what they must."
