#!/usr/bin/env bash
# Downloads ClassEval, HumanEval-X and recorded answers to five more benchmarks into a
# folder, as "make data" and "make accept" take them, from the commits below. A file with
# another digest is refused. Other data sets are not downloaded.
#
#   download.sh DIR
#
#   SECUREBENCH_DATA_FROM  where the files are, below OWNER/REPOSITORY/COMMIT, in place
#                          of https://raw.githubusercontent.com; file:///... will do
set -euo pipefail
. "$(dirname "$0")/say.sh"
dir=${1:-}
from=${SECUREBENCH_DATA_FROM:-https://raw.githubusercontent.com}
[ -n "$dir" ] || die "name the folder for the data sets: make DATA=DIR download"
command -v curl >/dev/null || die "curl is missing: apt-get install curl"
mkdir -p "$dir"
part=$(mktemp -p "$dir")
trap 'rm -f "$part"' EXIT

# get TARGET SHA256 PATH downloads one file, and unpacks what ends in .gz.
get() {
	local target=$dir/$1 digest=$2 path=$3
	curl -fsSL --retry 3 -o "$part" "$from/$path" || die "$from/$path cannot be downloaded"
	sha256sum -c --status <<<"$digest  $part" || die "$from/$path has another digest than sha256:$digest"
	mkdir -p "$(dirname "$target")"
	case $path in
	*.gz) gzip -dc "$part" >"$target.part" && mv "$target.part" "$target" ;;
	*) cp "$part" "$target" ;;
	esac
	say "$target"
}

get classeval/public/rows.jsonl 50a1ac0e4d0c238573c10c0ab11feae00b14a80ae9e4c9cc28148707ecf0b6a2 \
	FudanSELab/ClassEval/eaeac44d0d5dcd8a95feec50726d66fedc73a98f/data/ClassEval_data.json
codegeex=THUDM/CodeGeeX/2838420b7b4492cf3d16bce5320e26e65960c9e2/codegeex/benchmark/humaneval-x
while read -r language digest; do
	get "humaneval-x/public/$language.jsonl" "$digest" "$codegeex/$language/data/humaneval_$language.jsonl.gz"
done <<'END'
cpp dcf2e280a1e91bbc3c5f90edb41397e8a9ac1ccc9f5d2b70082f0b0fbfb6dbb0
go 09126ef64ac68f87296c5f3781186aedc5dec799b114d9df99d6de4a715a7830
java 276f36db2eb7aeb864f36a19a2f4e1bb2460fb6e22ff100f0b5bedabe3799967
js fe5d467f2c1a027b3f6f18d3729aca01f6458c1de2e2d1292a019c5aa9bed424
END

# Recorded answers of models, with the verdicts of the scorers there.
gaokao=OpenLMLab/GAOKAO-Bench/6dbb24f8d8439041e5431c4c184a582182a6ce9c/Results/gpt_4_0314_obj
while read -r subject digest; do
	get "gaokao/public/gpt-4-0314_$subject.json" "$digest" "$gaokao/gpt-4-0314_$subject.json"
done <<'END'
2010-2013_English_MCQs 41905f8ca579270d7518cd7a9e28f7a2c5c06ca596687c063b2177c021a10bdc
2010-2022_Biology_MCQs 706cc84bbd6f1ef547f8d53aed7ae3d5dcb0fe90063e7cf43c7ea5936e8f39dc
2010-2022_Chemistry_MCQs b09259a92f048abd27f9ceafa5fd10ae40feeb5539963b40a24f0f24d5cf7819
2010-2022_Chinese_Lang_and_Usage_MCQs 0ef8d277c8de4ddcf4e1fd7b0535bd70ebee4e931e487d18d3bf216a7dfd44dd
2010-2022_History_MCQs 2d2d3e471275ea4de2c15a7d315c56235cd6ac98bf9483d518d0ae6a2a823a6f
2010-2022_Math_II_MCQs db9f854cd9e211094f83368250a87550f3e8d0c3190d6280a5aa91e0457c9399
2010-2022_Math_I_MCQs bf777689081dff6fbb880da301d2a9e62f135f9f508ad5a86e7ffbee17b05f43
2010-2022_Political_Science_MCQs cbc1c870f2a88a8cd3ce792e98b4c93df342869ff95cc12b810ca0c1ac523815
END
get qwen-math/public/math_cot_100.jsonl 5b9128525733336c4b5bf5d3222f72b18655a305258dc09c301b546e9365ba5e \
	QwenLM/Qwen2.5-Math/a45202bd16f1ec06f433442dc1152d0074773465/evaluation/data/eval_rm_maj_example/math_cot_100.jsonl
mmlu_pro=TIGER-AI-Lab/MMLU-Pro/f418b116db00b065c2aea046518d8fcf74d39872/eval_results
while read -r model digest; do
	get "mmlu-pro/public/$model.zip" "$digest" "$mmlu_pro/model_outputs_${model}_5shots.zip"
done <<'END'
jamba-1.5-large c4685b28a9b56fcb1270d9d2674f4989f5fc45129f3f635207d3543d67da1a15
Phi-3-mini-4k-instruct 7f45083108479ef586cc6c855325294c1220a9fcb614066abf22234a26d7037e
END
zero_shot=kojima-takeshi188/zero_shot_cot/5ef330fcdeec0cd26aee27943504f91f8ec1c33c/log
while read -r log digest; do
	get "zero-shot-cot/public/$log.log" "$digest" "$zero_shot/$log.log"
done <<'END'
addsub_zero_shot c581a2b0b02e0d6114cca4d31ccd51df2258e860f2d6bf6f3aa011bf4becf68a
addsub_zero_shot_cot 5a35a7d04ad18f17a5918ba9f456ef85598ffb4ab340d40abd510b316ec65ce4
commonsensqa_zero_shot 13efc3566bb2cd209cafdbd530cfb2ad1b17255d1d653e3ae5a9c2840c575808
commonsensqa_zero_shot_cot f8027dc6f4c85045ad7567dc71a9b5a4d69fb75af7cdf08ef809fcea617a2757
last_letters_zero_shot beb909faa31c61587f2b5f00d28ea89a9f09c80b828156519686e117ad1d1acd
last_letters_zero_shot_cot 31e13b33aed4f1c8a920b10914fb31bc0965089afc714d0e72cf78a2f17387b5
multiarith_zero_shot 5b0bd4d132fa2f6c30d4d29438079473fa7b5e21a13c7a3618914a58a60b735f
multiarith_zero_shot_cot e2e3416d5f376b84513847b0ed2ac40fcfbe424b8279a18f0b6c980ff75fa351
svamp_zero_shot 427feff17266ee249ca88b6880840a7e64cf58ad65ff438cc85eb644bfe3b195
svamp_zero_shot_cot 37043ef358b75e108860746c533d0c9be0f307ec3373959524778f1b8af5a75a
END
math_verify=huggingface/Math-Verify/5d148cfaaf99214c2e4ffb4bc497ab042c592a7a/tests
while read -r test digest; do
	get "math-verify/public/$test.py" "$digest" "$math_verify/$test.py"
done <<'END'
test_all 4d4a4525097ed30faad38a9c4c867e9629af41226b97cc685d14a14125042a0e
test_boxed f4045ba514b27a39c287b0864325fae5f6a2228f6a01f282fc45ad04490af534
test_numina_cases fc4bbbb04e86e60eaf9e6a4921dc058ec12a52db34ed52aa991cfaf44a92d899
test_open_thoughts 9dbe572d48205ef86665037c75704bf450dc2bda0ea0c00402c5f65841ae273b
test_strict ff831f7e170ef1b07ac194cf6fe8191fbfd1c0927c20b2f41c3ee4013e9f1182
END
