"""The places of histories: each is given to one history at a time."""

from __future__ import annotations

from fastdur import Chain
from pytest_fastdur import sweep
from pytest_fastdur.sweep import Story, explore


def test_a_sweep_gives_each_place_back_once(monkeypatch):
    given_back = []

    class Watched(sweep.World):
        def __init__(self, *args, **options):
            super().__init__(*args, **options)
            discard = self._backend.discard

            def watched(place):
                given_back.append(place)
                discard(place)

            if not hasattr(self._backend, "watched"):
                self._backend.watched = True
                self._backend.discard = watched

    monkeypatch.setattr(sweep, "World", Watched)
    report = explore(Story("one", lambda store: Chain("one", store).add_node("a", lambda _: {"a": 1})))
    assert report.ok
    assert len(given_back) > report.points
    assert len(given_back) == len(set(given_back))
