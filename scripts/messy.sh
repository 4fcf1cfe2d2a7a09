#!/usr/bin/env bash
# Scores an agent that applies the gold patch of each row and works untidily
# beside that: it runs tests before and after, leaves caches, scratch files and
# scripts, commits, and amends the commit. Its verdicts must be those of the gold
# patches alone. The last line on standard output is the summary of the run.
#
#   messy.sh BINARY PACK GOLD_RUN OUT [ROWS]
#
# The gold patches are the candidates of GOLD_RUN, a run of the pack by the agent
# oracle. They become public files of a copy of the pack, which has ROWS of its rows:
# the last one, since packs are sorted by repository, and the first ones.
set -euo pipefail
binary=$1
pack=$2
gold=$3
out=$4
rows=${5:-5}

copy=$out.pack
rm -rf "$copy"
mkdir -p "$copy"
cp "$pack/manifest.yaml" "$copy/"
awk -v rows="$rows" 'NR < rows { print; next } { last = $0 } END { if (last) print last }' "$pack/tasks.jsonl" |
	sed -E 's#^\{("id":"([^"]*)")#{"assets":[{"path":"gold/\2.patch","mount":"gold.patch"}],\1#' >"$copy/tasks.jsonl"

# A line of a record has its task and the digest of its candidate, once each.
while IFS= read -r line; do
	id=$(grep -Eo '"task_id": *"[^"]*"' <<<"$line" | head -n 1 | cut -d '"' -f 4)
	digest=$(grep -Eo '"candidate": *"sha256:[0-9a-f]{64}"' <<<"$line" | head -n 1 | grep -Eo '[0-9a-f]{64}')
	mkdir -p "$copy/assets/gold/$(dirname "$id")"
	cp "$gold/candidates/$digest" "$copy/assets/gold/$id.patch"
done <"$gold/candidates.jsonl"

cat >"$out.yaml" <<EOF_TESTER
schema_version: "0.2"
run: {id: $(basename "$out"), output_dir: $(basename "$out")}
benchmark: {manifest: $(realpath "$copy/manifest.yaml"), tasks: $(realpath "$copy/tasks.jsonl")}
harness:
  type: command
  config:
    timeout_seconds: 300
    command:
      - sh
      - -c
      - |
        set -eu
        export HOME=/tmp
        cd "\$SECUREBENCH_REPO"
        git config user.name someone
        git config user.email someone@example.org
        tests() {
          if [ -f bin/test ]; then set -- bin/test -C sympy/core/tests/test_basic.py; else set -- -m pytest -q -x; fi
          timeout 40 python3 "\$@" >test.log 2>&1 || true
          python3 -m compileall -q . >/dev/null 2>&1 || true
        }
        tests
        printf '#!/bin/sh\npython3 -m pytest\n' >reproduce.sh
        chmod +x reproduce.sh
        printf 'def test_fix():\n    assert True\n' >test_fix.py
        git apply /workspace/gold.patch
        tests
        mkdir -p .pytest_cache .mypy_cache
        touch .pytest_cache/v .mypy_cache/v
        git add -A
        git commit -qm fix
        git commit -q --amend -m 'fix it'
EOF_TESTER
"$binary" run --config "$out.yaml" --force --progress none
