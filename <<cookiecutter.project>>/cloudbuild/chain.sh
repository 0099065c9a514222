#!/usr/bin/env bash
# One step of a chain in which each may fail: the first exit code that is not 0 is kept for the end.
#   chain.sh next COMMAND...     unless something failed before
#   chain.sh always COMMAND...   whatever happened
#   chain.sh tried COMMAND...    whatever happened, and however it ends
#   chain.sh end                 ends with the code that was kept
set -uo pipefail

kept="$PWD/.exit-code"
failed=$(cat "$kept" 2>/dev/null || echo 0)
mode=$1
shift

if [ "$mode" = end ]; then
    exit "$failed"
fi
if [ "$mode" = next ] && [ "$failed" != 0 ]; then
    echo "left out: a step before failed with $failed"
    exit 0
fi
if [ -f outputs.env ]; then
    set -a
    # shellcheck disable=SC1091 # made by the build step: IMAGE=...
    . ./outputs.env
    set +a
fi

keep() {
    if [ "$mode" != tried ] && [ "$failed" = 0 ]; then
        echo "$1" >"$kept"
    fi
}

keep 137 # where this step itself is killed, as for lack of memory
PATH="$PWD/.nox/ops/bin:/tools:$PATH" DOCKER_CONFIG="${DOCKER_CONFIG:-/tools}" "$@"
code=$?
keep "$code"
exit "$code"
