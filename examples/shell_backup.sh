#!/bin/sh
# A backup that cron starts again while the last one still runs: the second start is skipped.
# Needs `locknut` on the PATH (pip install locknut).
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export LOCKNUT_URL="file://$folder/locks"

# The command runs only while the lock is held, and knows its fence. It stays until it is told.
mkfifo "$folder/started" "$folder/finish"
locknut run backup -- sh -c '
    echo "backup 1: running with fence $LOCKNUT_FENCE"
    echo > "$1/started"; cat "$1/finish" > /dev/null' backup "$folder" &
first=$!
cat "$folder/started" > /dev/null

# -n: do not wait. 75 (EX_TEMPFAIL) says "busy", so that a real failure still looks like one.
code=0
locknut run -n backup -- echo "backup 2: this must not run" || code=$?
echo "backup 2: skipped with exit code $code"
: > "$folder/finish"
wait "$first"

locknut run -n backup -- echo "backup 3: free again"
[ "$code" -eq 75 ]
echo "Proved: two backups never ran at the same time."
