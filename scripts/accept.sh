#!/usr/bin/env bash
# Scores data sets with agents whose scores are known, and fails unless every
# figure is met. "make accept" imports the data first.
#
#   accept.sh BINARY DIR
#
# No figure is fixed: each is derived from the data, so any part of the data
# sets will do, and the whole of them. The oracle solves every row and the null
# agent none; the recorded model solutions of GSM8K score what the data set
# itself says. Of QuixBugs, Exercism and SWE-bench the gold patches pass, the
# verdicts are the same when they are derived again, also an untidy agent's pass,
# and the starting files do not. The solutions of Terminal-Bench and EvoEval pass
# where an agent would run, and doing nothing does not. Of ClassEval and HumanEval-X the
# references pass on every engine that runs here, and in each language the zero value of
# the result does not. Real answers to BIG-Bench Hard (bbh-outputs) and to five other
# benchmarks (responses-samples) score what their reference says, or better. Those to
# GAOKAO-Bench, MMLU-Pro, the benchmarks of zero-shot chains of thought and MATH are
# compared with the verdicts of the scorers there, and so are the pairs of Math-Verify's
# tests; runs/accept-differences lists each other one. Recorded calls of tools have the
# verdicts of BFCL's own scorer. Recorded answers to MATH-Vision pass where its scorer says
# so, and where they end in a right option that it does not read. In the end a small real
# model answers and judges, and what securebench takes for a row is measured beside other
# programs (small-model/accept.py).
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
. "$here/say.sh"
. "$here/summary.sh"
binary=$1
dir=$(cd "$2" && pwd)
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
		expect "the number of split verdicts of $name" "$(grep -c '"containment": "split"' "$out/$name/candidates.jsonl")" "$total"
		;;
	esac
	runs=$((runs + 1))
}

# ids FILE prints the ids of a pack's rows or of a replay file's lines.
ids() { sed -En 's/^\{"(task_)?id": *"([^"]*)".*/\2/p' "$1"; }

# correct MODEL counts the solutions to rows of the pack that the data set calls
# right. The replay file has the solutions in the same order.
correct() {
	paste <(ids "data/gsm8k/answers/$1.jsonl") <(grep -Eo "\"$1\": *\{\"is_correct\": *(true|false)" "$solutions") |
		awk 'NR == FNR { row[$1]; next } ($1 in row) && /true$/ { n++ } END { print n + 0 }' <(ids data/gsm8k/tasks.jsonl) -
}

# unchanged NAME FILES scores an agent that appends an empty line to files of the
# checkout: the tests run, and what failed before still fails.
unchanged() {
	mkdir -p "$out"
	cat >"$out/$1-unchanged.yaml" <<-EOF
		schema_version: "0.2"
		run: {id: $1-unchanged, output_dir: $1-unchanged}
		benchmark: {manifest: ../../data/$1/manifest.yaml, tasks: ../../data/$1/tasks.jsonl}
		harness:
		  type: command
		  config:
		    timeout_seconds: 60
		    command: [sh, -c, 'cd "\$SECUREBENCH_REPO" && for f in $2; do echo >>"\$f"; done']
	EOF
	score "$binary" --config "$out/$1-unchanged.yaml"
	printf '%-26s %5d of %5d passed, expected %5d\n' "$1-unchanged" "$passed" "$total" 0
	expect "$1-unchanged" "$passed" 0
	runs=$((runs + 1))
}

# messy NAME scores an agent that works untidily on five rows of a pack:
# its verdicts are those of the gold patches, which pass.
messy() {
	local line
	line=$("$here/messy.sh" "$binary" "data/$1" "$out/$1-gold" "$out/$1-messy" 5) || die "the run of $1-messy ended with an error"
	total=$(field total "$line")
	passed=$(field passed "$line")
	printf '%-26s %5d of %5d passed, expected %5d\n' "$1-messy" "$passed" "$total" "$total"
	expect "$1-messy" "$passed" "$total"
	runs=$((runs + 1))
}

# tasks NAME AGENT EXPECTED scores tasks of a terminal. Some of them are about a
# whole system, so that their sandboxes need more of root's powers than others.
tasks() {
	mkdir -p "$out"
	cat >"$out/$1-$2.yaml" <<-EOF
		schema_version: "0.2"
		run: {id: $1-$2, output_dir: $1-$2}
		benchmark: {manifest: ../../data/$1/manifest.yaml, tasks: ../../data/$1/tasks.jsonl}
		harness: {type: command, config: {command: ["true"]}}
		sandbox:
		  capabilities: [CHOWN, DAC_OVERRIDE, FOWNER, FSETID, SETUID, SETGID, KILL, NET_BIND_SERVICE, SYS_CHROOT]
	EOF
	score "$binary" --config "$out/$1-$2.yaml" --agent "$2"
	local want=$3
	[ "$want" != all ] || want=$total
	printf '%-26s %5d of %5d passed, expected %5d\n' "$1-$2" "$passed" "$total" "$want"
	expect "$1-$2" "$passed" "$want"
	expect "the number of rows of $1-$2" "$total" "$(wc -l <"data/$1/tasks.jsonl")"
	runs=$((runs + 1))
}

# equal RUN PACK derives the verdicts of a run again and counts those that are
# equal.
equal() {
	local want got
	want=$(wc -l <"$2/tasks.jsonl")
	got=$("$binary" reverify "$out/$1" --pack "$2" --salt "$out/$1/restricted/salt" | grep -Eo '[0-9]+ equal' | cut -d ' ' -f 1)
	printf '%-26s %5d of %5d verdicts equal\n' "$1-reverify" "$got" "$want"
	expect "the number of equal verdicts of $1" "$got" "$want"
}

# zeros FILE prints, for each row of a pack of HumanEval-X, a function that returns the
# zero value of its result: it compiles, and no row's tests accept it. The prompts stay
# as the JSON strings that they are.
zeros() {
	sed -E '
		s/^\{"id":"([^"]*)","input":\{"prompt":"(([^"\\]|\\.)*)","language":"([a-z]*)"\}.*/\4 {"task_id":"\1","text":"\2/
		s/( |\\n)+$//
		s/^cpp (.*)$/\1\\n    return {};\\n}\\n"}/
		s/^javascript (.*)$/\1\\n  return null;\\n}\\n"}/
		/^go /s/import \(\\n([^)]*)\)\\n//
		s/^go (.*\) *([^)]*[^ {]) *\{)$/\1\\n    return *new(\2)\\n}\\n"}/
		s/^java (.*public (int|long|double|float) [A-Za-z0-9_]*\([^()]*\) *\{)$/\1\\n        return 0;\\n    }\\n}\\n"}/
		s/^java (.*public boolean [A-Za-z0-9_]*\([^()]*\) *\{)$/\1\\n        return false;\\n    }\\n}\\n"}/
		s/^java (.*)$/\1\\n        return null;\\n    }\\n}\\n"}/
	' "$1"
}

# outcomes RUN prints each task of a run with its outcome.
outcomes() { sed -En 's/.*"outcome": "([a-z_]*)".*"task_id": "([^"]*)".*/\2 \1/p' "$1/candidates.jsonl" | sort; }

# elsewhere NAME PACK AGENT scores a run once more on each other engine that runs here,
# and counts the verdicts that are equal.
elsewhere() {
	local engine got want
	want=$(wc -l <"$2/tasks.jsonl")
	for engine in $others; do
		score "$binary" "$2" --agent "$3" --engine "$engine" --output-dir "$out/$1-$engine"
		got=$(comm -12 <(outcomes "$out/$1") <(outcomes "$out/$1-$engine") | wc -l)
		printf '%-26s %5d of %5d verdicts equal\n' "$1-$engine" "$got" "$want"
		expect "the number of equal verdicts of $1-$engine" "$got" "$want"
		runs=$((runs + 1))
	done
}

rm -rf "$out"
mkdir -p "$(dirname "$out")"
others=$("$here/engine.sh" "$binary" all | grep -vx "$("$here/engine.sh" "$binary")" || true)
for name in humaneval mbpp gsm8k truthfulqa bfcl mathvision llmbar pandalm judgebench; do
	if [ -d "data/$name" ]; then
		check "$name-oracle" all "data/$name" oracle
		check "$name-null" 0 "data/$name" null
	fi
done
# Files as answers: the expected ones pass, nothing does not. Their images are built first.
for name in dacode:data sheetcopilot:office spreadsheetbench:office; do
	image=securebench-${name#*:}:1
	name=${name%:*}
	if [ -d "data/$name" ]; then
		"$here/image.sh" "$binary" "$("$here/engine.sh" "$binary")" "$image"
		check "$name-oracle" all "data/$name" oracle
		check "$name-null" 0 "data/$name" null
		equal "$name-oracle" "data/$name"
	fi
done
# What converts, with LibreOffice and poppler themselves.
"$here/image.sh" "$binary" "$("$here/engine.sh" "$binary")" securebench-office:1
SECUREBENCH_TEST_OFFICE=securebench-office:1 SECUREBENCH_TEST_ENGINE=$("$here/engine.sh" "$binary") \
	SECUREBENCH_IMAGES=${SECUREBENCH_IMAGES:-${XDG_DATA_HOME:-$HOME/.local/share}/securebench/images} \
	CGO_ENABLED=0 go test -count=1 -trimpath -run '^TestOfficeConverter$' ./internal/family/artifacttask
# Repositories: the gold patches pass, the starting files do not, nor does a
# change that changes nothing that matters. Their images are built first.
for name in quixbugs exercism-python exercism-go swebench; do
	if [ -d "data/$name" ]; then
		"$here/image.sh" "$binary" docker debian:bookworm-slim
		"$binary" pack build "data/$name" 2>"$out-build.log" || { tail -n 20 "$out-build.log" >&2; die "the images of data/$name cannot be built"; }
		check "$name-gold" all "data/$name" oracle
		check "$name-null" 0 "data/$name" null
		case $name in
		quixbugs) unchanged "$name" 'python_programs/*.py' ;;
		exercism-python) unchanged "$name" '*/*.py' ;;
		exercism-go) unchanged "$name" '*/*.go' ;;
		esac
		case $name in
		quixbugs | swebench) messy "$name" ;;
		esac
		equal "$name-gold" "data/$name"
	fi
done
# Classes: tests that can be are split from the candidate, and the others share a process
# with it, as "validate" proposes: it has nothing left to propose.
if [ -d data/classeval ]; then
	check classeval-oracle all data/classeval oracle
	check classeval-null 0 data/classeval null
	expect "the number of split verdicts of classeval" "$(grep -c '"containment": "split"' "$out/classeval-oracle/candidates.jsonl")" \
		"$(grep -vc '"containment":"shared"' data/classeval/tasks.jsonl)"
	elsewhere classeval-oracle data/classeval oracle
	proposed=$("$binary" validate data/classeval --json | grep -c '"proposal"' || true)
	printf '%-26s %5d of %5d rows have a proposal, expected %5d\n' classeval-validate "$proposed" "$(wc -l <data/classeval/tasks.jsonl)" 0
	expect "the number of proposals for classeval" "$proposed" 0
	equal classeval-oracle data/classeval
fi
# Tests that are linked with the candidate, in four languages.
if [ -d data/humaneval-x ]; then
	"$here/image.sh" "$binary" docker debian:bookworm-slim
	"$binary" pack build data/humaneval-x 2>"$out-build.log" || { tail -n 20 "$out-build.log" >&2; die "the image of data/humaneval-x cannot be built"; }
	zeros data/humaneval-x/tasks.jsonl >"$out-zeros.jsonl"
	check humaneval-x-oracle all data/humaneval-x oracle
	check humaneval-x-null 0 data/humaneval-x null
	check humaneval-x-zero 0 data/humaneval-x "replay:$out-zeros.jsonl"
	elsewhere humaneval-x-oracle data/humaneval-x oracle
	equal humaneval-x-oracle data/humaneval-x
fi
# Tasks of a terminal: the solutions run where an agent would, and pass; doing
# nothing does not.
for name in terminal-bench evoeval; do
	if [ -d "data/$name" ]; then
		"$here/image.sh" "$binary" "$("$here/engine.sh" "$binary")" securebench-pytest:1
		if [ -d "data/$name/images" ]; then
			"$binary" pack build "data/$name" 2>"$out-build.log" || { tail -n 20 "$out-build.log" >&2; die "the images of data/$name cannot be built"; }
		fi
		tasks "$name" oracle all
		tasks "$name" null 0
		equal "$name-oracle" "data/$name"
	fi
done
solutions=$dir/gsm8k/public/model_solutions.jsonl
[ -f "$solutions" ] || solutions=$dir/gsm8k-answers.jsonl
for answers in data/gsm8k/answers/*.jsonl; do
	if [ -f "$answers" ] && [ -f data/gsm8k/tasks.jsonl ]; then
		model=$(basename "$answers" .jsonl)
		check "gsm8k-$model" "$(correct "$model")" data/gsm8k "replay:$answers"
	fi
done

# Every run verifies, and HumanEval's verdicts are the same when they are derived
# again, from a bundle, without trusting the run.
for run in "$out"/*/; do
	[ ! -f "$run/run.json" ] || "$binary" verify "$run" >/dev/null || expect "the verification of $run" failed passed
done
if [ -d data/humaneval ]; then
	"$binary" bundle "$out/humaneval-oracle" -o "$out/humaneval.zip" --force
	"$binary" verify "$out/humaneval.zip" >/dev/null
	want=$(wc -l <data/humaneval/tasks.jsonl)
	got=$("$binary" reverify "$out/humaneval.zip" --pack data/humaneval --salt "$out/humaneval-oracle/restricted/salt" | grep -Eo '[0-9]+ equal' | cut -d ' ' -f 1)
	printf '%-26s %5d of %5d verdicts equal\n' "humaneval-reverify" "$got" "$want"
	expect "the number of equal verdicts of humaneval-reverify" "$got" "$want"
fi
[ "$wrong" = 0 ] || die "$wrong figures are wrong"

# Row by row: the verdicts of GSM8K equal the data set's own, also through the
# command harness, every wrong choice of TruthfulQA fails, recorded answers to
# HumanEval get their recorded verdicts in each form in which they can be given,
# and real answers in prose get the verdicts that they deserve.
present=0
for name in humaneval-results bbh-outputs responses-samples gaokao mmlu-pro zero-shot-cot qwen-math math-verify; do
	if [ -d "$dir/$name" ] || [ -f "$dir/$name.jsonl" ]; then
		present=$((present + 1))
	else
		say "$name: skipped, there is no $dir/$name"
	fi
done
[ $((runs + present)) -gt 0 ] || die "$dir holds none of the data sets that docs/quickstart.md lists"
tests=$(SECUREBENCH_DATA=$dir SECUREBENCH_DIFFERENCES=$PWD/$out-differences SECUREBENCH_TEST_DOCKER=require go test -count=1 -timeout 60m -v \
	-run 'GSM8K|TruthfulQA|SamplePacks|TerminalSample|RecordedAnswers|BBHOutputs|Responses|PublicSets|PublicMath|CompareRecorded|BFCL|MathVision|Judgements|Lengths' \
	./cmd/securebench ./internal/family/shortanswer ./internal/family/multiplechoice ./internal/family/textmatch ./internal/family/toolcall ./internal/family/multimodalqa ./internal/family/preferencepair ./internal/importer) ||
	{ printf '%s\n' "$tests" >&2; die "some verdicts are not those of the data"; }
# What each of them counted, without the lines of single answers.
grep -E '^--- |_test\.go:[0-9]+: ([0-9]+ |[^ ]+: [0-9]+ agree)' <<<"$tests"
# A model and a server that nobody here wrote. Without a registry they cannot be had.
status=0
python3 "$here/small-model/accept.py" "$binary" "$out/small-model" "${XDG_CACHE_HOME:-$HOME/.cache}/securebench/small-model" || status=$?
case $status in
0) ;;
3 | 127) say "small model: skipped, there is no Python, or no registry of its packages answers" ;;
*) die "the small model shows what must not be" ;;
esac
say "All figures are as expected: $runs runs, and the tests above."
