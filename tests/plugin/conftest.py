"""What the tests of the plugin share."""

from __future__ import annotations

import pytest

from pytest_fastdur.ledger import EffectLedger

SUITE = """
import pytest
from fastdur import Chain, Resume
from tests.plugin import stories

@pytest.fixture
def right(effects):
    return lambda store: stories.chain(
        store, ("check", stories.check), ("review", stories.review), ("pay", stories.charging(effects)))

@pytest.fixture
def wrong(effects):
    return lambda store: stories.chain(
        store, ("check", stories.check), ("pay", stories.charging(effects, recorded=False)))
"""


@pytest.fixture
def ledger(tmp_path):
    with EffectLedger(tmp_path / "effects") as made:
        yield made


@pytest.fixture
def suite(pytester):
    """Write a test file that knows a right and a wrong workflow; returns pytester."""
    pytester.makeini("[pytest]\naddopts = -p no:randomly\nasyncio_default_fixture_loop_scope = function\n")

    def write(text):
        pytester.makepyfile(test_refund=SUITE + text)
        return pytester

    return write
