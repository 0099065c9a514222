#!/usr/bin/env bash
# The environments of these sessions, for the steps after this one; `ops` is a command in each.
set -euo pipefail
python -m pip install --quiet 'nox[uv]==2026.10.20'
nox -s "$@" --install-only
