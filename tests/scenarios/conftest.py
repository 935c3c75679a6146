"""The counterparts of the examples: one of each for a whole session, however many stories reach for them."""

from __future__ import annotations

import pytest

from pytest_fastdur.backends import Schemas
from scenarios.shop_database import ShopDatabase
from scenarios.stories import Counterparts


@pytest.fixture(scope="session")
def counterparts():
    with Counterparts() as running:
        yield running


@pytest.fixture(scope="session")
def on_postgres(fastdur_postgres):
    """The counterparts of stories on Postgres: the shop's own database is there too."""
    with Counterparts(fastdur_postgres.dsn) as running:
        yield running


@pytest.fixture
def on_sqlite(counterparts):
    """Where a story is swept: how its histories are kept, and its counterparts."""
    return None, counterparts


@pytest.fixture
def with_postgres(fastdur_postgres, counterparts, on_postgres):
    return Schemas(fastdur_postgres), lambda kind: (on_postgres if kind is ShopDatabase else counterparts)(kind)
