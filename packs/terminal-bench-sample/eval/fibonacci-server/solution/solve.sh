#!/bin/bash
bash "$(dirname "$0")/solution.sh"
status=$?
mkdir -p '/app'
cat >'/app/start.sh' <<'END_OF_SERVICE'
#!/bin/sh
exec python3 /app/server.py
END_OF_SERVICE
exit $status
