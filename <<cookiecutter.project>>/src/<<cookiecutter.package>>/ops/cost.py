"""Chips x hours, and money where the price is known."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Annotated

from pydantic import Field, TypeAdapter, ValidationError

from ..errors import InputError

FILE = Path(__file__).with_name("prices.toml")
Amount = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Table = dict[str, dict[str, dict[str, Amount]]]


@dataclass(frozen=True)
class Price:
    """Dollars for a chip and hour. `exact` is False where it is only known to be no more."""

    usd: float
    exact: bool


@dataclass(frozen=True)
class Cost:
    """What some chips cost for some time; `usd` is None where their price is not known."""

    chip_hours: float
    usd: float | None
    exact: bool

    def __str__(self) -> str:
        money = "price unknown" if self.usd is None else f"${self.usd:,.2f}"
        return f"{'' if self.exact or self.usd is None else 'at most '}{money}"


@dataclass(frozen=True)
class Prices:
    """prices.toml."""

    checked: date
    table: Mapping[str, Mapping[str, Mapping[str, float]]]

    def find(self, generation: str, region: str, kind: str) -> Price | None:
        """A kind without a line of its own is held to cost no more than on-demand."""
        lines = self.table.get(generation, {}).get(region, {})
        if kind in lines:
            return Price(lines[kind], exact=True)
        return Price(lines["on-demand"], exact=False) if "on-demand" in lines else None

    def cost(self, generation: str, region: str, kind: str, chip_hours: float) -> Cost:
        price = self.find(generation, region, kind)
        if price is None:
            return Cost(chip_hours, None, exact=False)
        return Cost(chip_hours, chip_hours * price.usd, price.exact)


def read_prices(path: Path = FILE) -> Prices:
    """Raises InputError where the file is not what it should be."""
    try:
        tables = tomllib.loads(path.read_text(encoding="utf-8"))
        checked, currency = tables.pop("checked"), tables.pop("currency")
        if not isinstance(checked, date) or currency != "USD":
            raise ValueError('checked is a date, like 2026-11-30, and currency is "USD"')
        return Prices(checked, TypeAdapter(Table).validate_python(tables))
    except (OSError, ValueError, KeyError, ValidationError) as error:
        raise InputError(
            f"the prices could not be read: {error}", str(path), "correct the file"
        ) from None
