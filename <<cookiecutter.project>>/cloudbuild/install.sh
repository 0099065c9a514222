#!/usr/bin/env bash
# The command `ops`, for the steps after this one.
set -euo pipefail
python -m pip install --quiet 'nox[uv]==2026.10.20'
nox -s ops --install-only
