"""Real processes behind a barrier, round after round."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from pytest_fastdur.backends import Memory, Schemas
from pytest_fastdur.faults import SweepError
from pytest_fastdur.ledger import EffectLedger
from pytest_fastdur.race import race
from pytest_fastdur.zoo import ANIMALS, loose
from tests.plugin import stories


@pytest.fixture
def story(tmp_path):
    with EffectLedger(tmp_path / "effects") as ledger:
        yield replace(stories.refund(ledger), store=None)


@pytest.fixture(params=["sqlite", "postgres"])
def backend(request):
    return Schemas(request.getfixturevalue("fastdur_postgres")) if request.param == "postgres" else None


@pytest.mark.case("S03")
@pytest.mark.case("S01")
def test_of_four_processes_one_wins_in_every_round(story, backend):
    report = race(story, rounds=6, backend=backend)
    assert report.ok, report.render()
    assert report.rounds == 6
    assert all(ends.count("completed") == 1 for ends in report.outcomes)
    assert "4 processes, 6 rounds" in report.render()


def test_the_first_bad_round_is_kept_with_its_store(story):
    with loose(ANIMALS["takes_live_runs_over"]):
        report = race(story, ["resume", "recover"] * 3, rounds=60, situation="start/after append check")
    assert not report.ok, report.render()
    assert report.kept is not None
    assert Path(report.kept).exists()
    assert report.kept in report.render()


def test_no_other_process_can_open_a_store_in_memory(story):
    with pytest.raises(SweepError, match="race on files"):
        race(story, backend=Memory())
