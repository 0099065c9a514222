from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest
from ops_fixtures import settings

from << cookiecutter.package >>.errors import InputError
from << cookiecutter.package >>.ops.cost import Price, Prices, read_prices
from << cookiecutter.package >>.ops.schedule import OVERHEAD_SECONDS, schedule

PRICES = Prices(date(2026, 1, 1), {"v5e": {"us-central1": {"on-demand": 2.0, "spot": 0.5}}})


def test_a_price_is_known_bounded_or_unknown() -> None:
    assert PRICES.find("v5e", "us-central1", "spot") == Price(0.5, exact=True)
    assert PRICES.find("v5e", "us-central1", "flex-start") == Price(2.0, exact=False)
    assert PRICES.find("v5e", "europe-west4", "spot") is None
    assert PRICES.find("7x", "us-central1", "on-demand") is None


def test_money_is_chips_times_hours_times_the_price() -> None:
    assert str(PRICES.cost("v5e", "us-central1", "spot", 10)) == "$5.00"
    assert str(PRICES.cost("v5e", "us-central1", "reservation", 10)) == "at most $20.00"
    assert str(PRICES.cost("v4", "us-central2", "spot", 10)) == "price unknown"


def test_the_budget_sets_the_deadline_where_it_is_reached_first() -> None:
    when = schedule(settings(budget_usd="16", deadline_hours="6"), PRICES)
    # $16 pay 2 h of 4 chips at the dearest kind's $2; the half hour around the job is part of it.
    assert when.by == "budget"
    assert when.run_seconds == 2 * 3600 - OVERHEAD_SECONDS
    assert when.most.usd == pytest.approx(16)
    assert schedule(settings(budget_usd="1000", deadline_hours="6"), PRICES).by == "deadline"


def test_each_try_has_its_own_time_and_all_of_them_are_paid() -> None:
    once = schedule(settings(budget_usd="1000", deadline_hours="6"), PRICES)
    thrice = schedule(settings(budget_usd="1000", deadline_hours="6", retries="2"), PRICES)
    assert thrice.try_seconds == once.try_seconds == 6 * 3600
    assert thrice.run_seconds == 3 * once.run_seconds
    with pytest.raises(InputError, match="does not pay 2 tries of 6 h") as refused:
        schedule(settings(budget_usd="80", deadline_hours="6", retries="1"), PRICES)
    assert "cloud.retries" in refused.value.remedy


def test_an_unknown_price_leaves_the_deadline_and_says_so() -> None:
    when = schedule(settings("7x", "2x2x1", budget_usd="1"), PRICES)
    assert (when.by, when.most.usd) == ("deadline", None)


def test_waiting_for_capacity_is_no_part_of_the_run_but_of_its_life() -> None:
    when = schedule(settings(attempt_minutes="10"), PRICES)
    assert when.waiting_seconds == 2 * 2 * 600, "two kinds in two zones"
    assert when.lifetime_seconds > when.waiting_seconds + when.run_seconds


def test_a_budget_that_is_spent_before_the_job_begins_is_refused() -> None:
    with pytest.raises(InputError, match="cloud.budget_usd leaves a run of 4 chips less than 5"):
        schedule(settings(budget_usd="4.1"), PRICES)


def test_the_project_s_own_prices_are_right() -> None:
    prices = read_prices()
    assert prices.checked <= date.today()
    assert prices.find("v5e", "us-central1", "on-demand") is not None


@pytest.mark.parametrize(
    "text",
    [
        "",
        "checked = 2026-01-01",
        'checked = "soon"\ncurrency = "USD"',
        'checked = 2026-01-01\ncurrency = "EUR"',
        'checked = 2026-01-01\ncurrency = "USD"\n[v5e.here]\nspot = -1',
        'checked = 2026-01-01\ncurrency = "USD"\n[v5e.here]\nspot = "cheap"',
        'checked = 2026-01-01\ncurrency = "USD"\nv5e = 1',
        "checked = ",
    ],
)
def test_a_broken_price_list_is_told(tmp_path: Path, text: str) -> None:
    (tmp_path / "prices.toml").write_text(text)
    with pytest.raises(InputError, match="the prices could not be read"):
        read_prices(tmp_path / "prices.toml")
