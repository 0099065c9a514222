"""`ops` as a process whose clock is the simulated cloud's, so that no test waits for a poll.

python hurried.py PACKAGE URL RATE VERB ...
"""

from __future__ import annotations

import importlib
import json
import sys
import time
import urllib.request


def hurry(package: str, url: str, rate: float) -> None:
    """The cloud is asked once: its clock goes on at `rate`, as the process's does from then on."""
    with urllib.request.urlopen(f"{url}/now") as answer:
        began, start = time.monotonic(), float(json.load(answer)["now"])
    clock = importlib.import_module(f"{package}.ops.clock").WallClock
    clock.now = lambda _: start + (time.monotonic() - began) * rate
    clock.sleep = lambda _, seconds: time.sleep(seconds / rate)


def main() -> None:
    package, url, rate, *words = sys.argv[1:]
    hurry(package, url, float(rate))
    sys.argv = ["ops", *words]
    importlib.import_module(f"{package}.ops.cli").main()


if __name__ == "__main__":
    main()
