from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from fastdur.checkpointers.sqlite import SQLiteCheckpointer


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "store.db")


@pytest.fixture(params=["file", "memory"])
def store(request, path):
    with closing(SQLiteCheckpointer(path if request.param == "file" else ":memory:")) as made:
        yield made


@pytest.fixture
def filed(path):
    """A store in a file, for what a store in memory does not have."""
    with closing(SQLiteCheckpointer(path)) as made:
        yield made
