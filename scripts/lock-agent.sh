#!/usr/bin/env bash
# Writes into the description of a Python agent the newest version that its Python runs,
# and all that it needs, by digest. It needs python3 with pip, and its registry.
#
#   lock-agent.sh NAME.yaml
#
# A line "# without: PROJECT …" of the description leaves projects out that the agent does
# not need here, with what only they need.
set -euo pipefail
description=$(realpath "$1")
project=$(sed -n 's/^  pypi: //p' "$description")
python=$(sed -n 's/^  runtime: python@\([0-9]*\.[0-9]*\)\..*/\1/p' "$description")
glibc=$(sed -n 's/^glibc: //p' "$(dirname "$description")/../runtimes/python$python.yaml")

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
python3 -m venv env
env/bin/pip install -q --disable-pip-version-check uv pip --upgrade

for project_left_out in $(sed -n 's/^# without: //p' "$description"); do
	echo "$project_left_out ; python_version < '3'"
done >overrides
echo "$project" >wanted
for machine in x86_64 aarch64; do
	env/bin/uv pip compile wanted -q --python-version "$python" --python-platform "$machine-manylinux_2_$glibc" --only-binary :all: \
		--override overrides --generate-hashes --no-annotate --no-header -o "all-$machine"
	platforms=(--platform "manylinux2014_$machine")
	for ((minor = 5; minor <= glibc; minor++)); do
		platforms+=(--platform "manylinux_2_${minor}_$machine")
	done
	# What of each is for this processor.
	env/bin/pip install -q --disable-pip-version-check --dry-run --ignore-installed --no-deps --require-hashes --only-binary :all: --target here \
		--python-version "$python" --implementation cp "${platforms[@]}" -r "all-$machine" --report "report-$machine"
done

python3 - "$description" <<'PYTHON'
import json, sys
lock = {}
for machine in "x86_64", "aarch64":
    for item in json.load(open("report-" + machine))["install"]:
        name = item["metadata"]["name"].lower().replace("_", "-").replace(".", "-") + "==" + item["metadata"]["version"]
        lock.setdefault(name, set()).add(item["download_info"]["archive_info"]["hashes"]["sha256"])
lines = open(sys.argv[1]).read().splitlines()
at = lines.index("  requirements: |")
end = next((i for i in range(at + 1, len(lines)) if not lines[i].startswith("    ")), len(lines))
lines[at + 1:end] = ["    " + " ".join([name] + ["--hash=sha256:" + sum for sum in sorted(sums)]) for name, sums in sorted(lock.items())]
open(sys.argv[1], "w").write("\n".join(lines) + "\n")
PYTHON
