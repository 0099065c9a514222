"""Two processes at once: nothing is made twice, taken twice or spoilt."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rehearsal.ops.life import Life, part, simulated
from rehearsal.ops.test_crash import assert_nothing_left


def both(*works: Callable[[], Any]) -> list[Any]:
    """Results, or the Failure that ended one, of functions that run at the same time."""
    results: list[Any] = [None] * len(works)

    def run(index: int) -> None:
        try:
            results[index] = works[index]()
        except part("errors").Failure as failure:
            results[index] = failure

    threads = [threading.Thread(target=run, args=(index,)) for index in range(len(works))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results


def other(life: Life, name: str) -> Life:
    return Life(life.cloud, life.folder, *life.overrides, f"run.name={name}")


def test_two_runs_on_one_cluster(tmp_path: Path) -> None:
    with simulated(tmp_path) as life:
        second = other(life, "second")
        first_pools, second_pools = both(life.provision, second.provision)
        assert set(first_pools.pools).isdisjoint(second_pools.pools)
        both(life.submit, second.submit)
        jobs = both(life.watch, second.watch)
        assert all(job.succeeded for job in jobs)
        life.teardown()
        assert any("second" in name for name in life.cloud.ours()), "the other one stays"
        second.teardown()
        assert_nothing_left(life)


def test_one_run_provisioned_twice_at_once(tmp_path: Path) -> None:
    with simulated(tmp_path) as life:
        results = both(life.provision, life.provision)
        assert results[0].pools == results[1].pools
        assert life.cloud.most_burning() == 4
        made = [call for call in life.cloud.calls if call.method == "CreateNodePool"]
        assert len([pool for _, pool in life.cloud.gke.all_pools()]) == 1, made


def test_one_run_submitted_twice_at_once_has_one_job(tmp_path: Path) -> None:
    with simulated(tmp_path) as life:
        life.provision()
        both(life.submit, life.submit)
        jobs = life.cloud.gke.cluster("us-central1", "tpu-training").kubernetes.store.all("rayjobs")
        assert len(jobs) == 1


def test_two_teardowns_of_one_run(tmp_path: Path) -> None:
    with simulated(tmp_path) as life:
        life.provision()
        life.submit()
        results = both(life.teardown, life.teardown)
        assert not [result for result in results if isinstance(result, Exception)], results
        assert_nothing_left(life)


def test_a_sweep_beside_a_provision_takes_nothing_of_it(tmp_path: Path) -> None:
    with simulated(tmp_path) as life:
        results = both(life.provision, life.sweep, life.sweep)
        assert results[0].pools
        assert len(life.cloud.burning()) == 1
        life.submit()
        assert life.watch().succeeded


def test_a_sweep_beside_a_teardown(tmp_path: Path) -> None:
    with simulated(tmp_path) as life:
        life.provision()
        life.cloud.clock.sleep(100_000)
        results = both(life.teardown, life.sweep)
        assert not [result for result in results if isinstance(result, Exception)], results
        assert_nothing_left(life)
