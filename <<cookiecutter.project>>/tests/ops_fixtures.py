"""What the tests of `ops` share: settings of any slice, and whose things are."""

from __future__ import annotations

from pathlib import Path

from << cookiecutter.package >>.config import Config
from << cookiecutter.package >>.ops.owned import Owner
from << cookiecutter.package >>.settings import load

RUN_TOML = Path(__file__).parents[1] / "run.toml"
OWNER = Owner("demo", "run-1", 1_800_000_000, 1_800_030_000)
IMAGE = f"us-central1-docker.pkg.dev/my-project/demo/train@sha256:{'0' * 64}"


def settings(
    generation: str = "v5e", topology: str = "2x2", slices: int = 1, **cloud: str
) -> Config:
    """`cloud` overrides keys of [cloud], in TOML: `capacity='["spot"]'`."""
    places = {
        "project": "my-project",
        "region": "us-central1",
        "zones": '["us-central1-a", "us-central1-b"]',
        "capacity": '["on-demand", "spot"]',
        "cluster": "demo",
        "cluster_mode": "standard",
        **cloud,
    }
    hardware = [f"generation={generation}", f"topology={topology}", f"slices={slices}"]
    return load(
        RUN_TOML,
        [
            "run.project=demo",
            "run.name=run-1",
            "train.batch_size=110592",
            "train.accumulation=1",
            *(f"hardware.{setting}" for setting in hardware),
            *(f"cloud.{key}={value}" for key, value in places.items()),
        ],
    )
