#!/usr/bin/env bash
# Downloads ClassEval and HumanEval-X into a folder, as "make data" takes them, from
# the commits below. A file with another digest is refused. Other data sets are not
# downloaded.
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
