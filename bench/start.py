"""From the command to the first step, against the imports and Ray's own start.

nox -s bench -- start
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

from common import begin, ratio, table, train

ROUNDS = 2
IMPORTS = """
import os
os.environ.update(PJRT_DEVICE="CPU", CPU_NUM_DEVICES="4")
import ray, ray.train.torch, torch, torch_xla, torch_xla.runtime
torch_xla.runtime.use_spmd()
torch_xla.runtime.global_runtime_device_count()
"""
WORKER_GROUP = """
import ray
from ray.train import ScalingConfig
from ray.train.torch import TorchConfig, TorchTrainer
ray.init(address="local", logging_level="error")
group = {"scaling_config": ScalingConfig(num_workers=1), "torch_config": TorchConfig("gloo")}
TorchTrainer(lambda: None, **group).fit()
"""


def seconds(code: str) -> float:
    began = time.perf_counter()
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)
    return time.perf_counter() - began


def one_step(folder: Path, *options: str) -> float:
    for old in folder.glob("runs/*/checkpoints/*/checkpoint.json"):
        old.unlink()
    run = train(folder, *options, train_steps=1, train_warmup_steps=0)
    return float(run["command_seconds"])


def main() -> None:
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        one_step(folder, "--in-process")
        rows: dict[str, list[float]] = {
            "imports": [],
            "in process": [],
            "ray": [],
            "worker group": [],
        }
        for _ in range(ROUNDS):
            rows["imports"].append(seconds(IMPORTS))
            rows["in process"].append(one_step(folder, "--in-process"))
            rows["ray"].append(seconds(WORKER_GROUP))
            rows["worker group"].append(one_step(folder))
    names = {
        "imports": "imports and opening the devices",
        "in process": "one step in process, saved, ended",
        "ray": "an empty worker group of Ray's",
        "worker group": "one step in a worker group, saved, ended",
    }
    table("seconds, whole commands", [(names[key], rows[key], "s") for key in names])
    of = {key: median(values) for key, values in rows.items()}
    ratio("in process / imports", of["in process"] / of["imports"], "near 1")
    both = of["imports"] + of["ray"]
    ratio("worker group / (imports + Ray's own)", of["worker group"] / both, "near 1")


if __name__ == "__main__":
    begin(main)
