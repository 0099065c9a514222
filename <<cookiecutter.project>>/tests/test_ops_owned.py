from __future__ import annotations

import pytest
from ops_fixtures import OWNER

from << cookiecutter.package >>.ops.owned import Owner, owner_of, owner_of_text, selector

LABELS = OWNER.labels()


def test_labels_and_text_lead_back_to_the_owner() -> None:
    assert owner_of(LABELS) == OWNER
    assert owner_of_text(OWNER.text()) == OWNER
    assert all(value == value.lower() and ":" not in value for value in LABELS.values())


@pytest.mark.parametrize("missing", ["managed-by", "project", "run"])
def test_without_one_of_these_labels_it_is_not_ours(missing: str) -> None:
    assert owner_of({key: value for key, value in LABELS.items() if key != missing}) is None
    assert owner_of({**LABELS, "managed-by": "someone"}) is None


@pytest.mark.parametrize("text", ["", "soon", "-1", "1.8e9", "9" * 13, "\uff12\uff10\uff12\uff16"])
def test_a_time_that_is_no_number_is_unknown(text: str) -> None:
    assert owner_of({**LABELS, "expires-at": text}) == Owner(
        OWNER.project, OWNER.run, OWNER.created_at, None
    )


def test_a_selector_names_the_manager_first() -> None:
    assert selector(run="r") == "managed-by=ray-tpu-template,run=r"
