"""The places of histories: each is given to one history at a time."""

from __future__ import annotations

from contextlib import closing

from fastdur import Chain
from pytest_fastdur import backends, stage
from pytest_fastdur.sweep import Story, explore


def test_a_sweep_gives_each_place_back_as_often_as_it_takes_it(monkeypatch):
    taken, given_back = [], []

    class Watched(backends.Files):
        def fresh(self):
            taken.append(super().fresh())
            return taken[-1]

        def discard(self, place):
            given_back.append(place)
            super().discard(place)

    monkeypatch.setattr(stage, "Files", Watched)
    report = explore(Story("one", lambda store: Chain("one", store).add_node("a", lambda _: {"a": 1})))
    assert report.ok
    assert len(given_back) > report.points
    assert taken == given_back


def test_a_place_that_is_used_again_is_empty(tmp_path):
    with backends.Files(str(tmp_path), reuse=True) as files:
        first = files.fresh()
        with closing(files.open(first)) as store:
            Chain("one", store).add_node("a", lambda _: {"a": 1}).execute({}, "r")
        files.discard(first)
        assert files.fresh() == first
        with closing(files.open(first)) as store:
            assert store.list_executions() == []
            assert store.list("r") == []
        assert files.fresh() != first
