#!/usr/bin/env bash
# Takes the picture docs/pictures/progress.png: a run on a real terminal (tmux, 80
# columns), whose screen a browser draws.
#
#   terminal-picture.sh SECUREBENCH ENGINE
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
. "$here/say.sh"
binary=$PWD/$1
engine=$2
command -v tmux >/dev/null || die "tmux is missing: it is the terminal of the picture"
for browser in "${SECUREBENCH_BROWSER:-}" chromium-headless-shell chromium chromium-browser google-chrome chrome none; do
	if [ -n "$browser" ] && command -v "$browser" >/dev/null; then break; fi
done
[ "$browser" != none ] || die "Chromium is missing: it draws the picture"

work=$(mktemp -d)
terminal() { tmux -L "securebench-picture-$$" "$@"; }
trap 'terminal kill-server 2>/dev/null || true; rm -rf "$work"' EXIT

# An agent that takes some seconds, and adds whatever numbers it finds.
cat >"$work/tester.yaml" <<YAML
schema_version: "0.2"
run: {id: gsm8k-sample, output_dir: $work/run}
benchmark: {manifest: $PWD/packs/gsm8k-sample/manifest.yaml, tasks: $PWD/packs/gsm8k-sample/tasks.jsonl}
harness:
  type: command
  config:
    timeout_seconds: 60
    command: ["python3", "-c", "import re, time; time.sleep(2); n = [int(x) for x in re.findall(r'[0-9]+', open('task.json').read())]; print('Answer:', sum(n))"]
YAML

say "Running packs/gsm8k-sample on a terminal ..."
terminal -f /dev/null new-session -d -x 80 -y 14 \
	"env -i HOME='$work' PATH='$PATH' TERM=screen-256color SECUREBENCH_IMAGES='${SECUREBENCH_IMAGES:-${XDG_DATA_HOME:-$HOME/.local/share}/securebench/images}' DOCKER_HOST='${DOCKER_HOST:-}' '$binary' run '$work/tester.yaml' --engine '$engine' -w 3 2>'/dev/tty'; sleep 60"
for _ in $(seq 300); do
	terminal capture-pane -p >"$work/text"
	if grep -q ' fail  .* 3 running' "$work/text" && grep -Eq '^ +fail +[^ ]' "$work/text" && grep -Eq '^\[?.*[1-9][0-9]*/[0-9]+  [3-6][0-9] %' "$work/text"; then break; fi
	sleep 0.1
done
grep -Eq '^ +fail +[^ ]' "$work/text" || die "the terminal never showed a display: $(cat "$work/text")"

{
	cat <<'HTML'
<!doctype html><meta charset="utf-8"><title>progress</title>
<style>
body { margin: 0; background: #1e1e2e }
pre { margin: 0; padding: 12px 16px; color: #cdd6f4; font: 16px/21px "DejaVu Sans Mono", monospace }
.c2 { opacity: .6 } .c31 { color: #f38ba8 } .c32 { color: #a6e3a1 } .c33 { color: #f9e2af }
.c42 { background: #a6e3a1 } .c100 { background: #45475a }
</style><pre>
HTML
	terminal capture-pane -e -p | awk '
	BEGIN { esc = sprintf("%c", 27) }
	{
		gsub(/&/, "\\&amp;"); gsub(/</, "\\&lt;")
		n = split($0, part, esc "\\[")
		line = part[1]
		for (i = 2; i <= n; i++) {
			end = index(part[i], "m")
			codes = substr(part[i], 1, end - 1)
			m = split(codes, code, ";")
			if (open) { line = line "</span>"; open = 0 }
			class = ""
			for (j = 1; j <= m; j++) class = class " c" code[j]
			if (codes != "" && codes != "0" && codes != "39" && codes != "49") { line = line "<span class=\"" substr(class, 2) "\">"; open = 1 }
			line = line substr(part[i], end + 1)
		}
		if (open) { line = line "</span>"; open = 0 }
		print line
	}' | sed -e :a -e '/^\n*$/{$d;N;ba' -e '}'
	echo '</pre>'
} >"$work/terminal.html"

rows=$(terminal capture-pane -p | awk 'NF { last = NR } END { print last }')
mkdir -p docs/pictures
"$browser" --headless --no-sandbox --disable-gpu --hide-scrollbars --user-data-dir="$work/profile" \
	--window-size="810,$((rows * 21 + 24))" --screenshot="$PWD/docs/pictures/progress.png" "file://$work/terminal.html" >/dev/null 2>&1 ||
	die "the browser did not draw the picture"
say "docs/pictures/progress.png is new"
