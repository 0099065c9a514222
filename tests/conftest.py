from __future__ import annotations

import sys
from pathlib import Path

import pytest
from baking import Oven, copy_template


@pytest.fixture(scope="session")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A clean copy of the template; its extension is the one that this process imports."""
    copy = copy_template(tmp_path_factory.mktemp("template"))
    sys.path.insert(0, str(copy))
    return copy


@pytest.fixture(scope="session")
def oven(template: Path, tmp_path_factory: pytest.TempPathFactory) -> Oven:
    return Oven(template, tmp_path_factory.mktemp("oven"))
