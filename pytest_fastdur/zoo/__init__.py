"""Broken engines and stores, each one small change against the real ones: what your tests, and ours, must notice.

    from pytest_fastdur.zoo import ANIMALS, loose

    with loose(ANIMALS["claims_without_looking"]):
        ...  # every store and every run of this process has the defect

`hunt(animal)` lets the cheapest tool that should catch an animal look for it. `pytest --fastdur-zoo` runs your tests
against each of them, and lists those that no test of yours notices.
"""

from __future__ import annotations

from pytest_fastdur.zoo import _answers, _effects, _leaving, _ownership, _rows
from pytest_fastdur.zoo._animal import ANIMALS, Animal, loose
from pytest_fastdur.zoo._hunt import Catch, hunt, is_clean

HOUSES = (_answers, _effects, _leaving, _ownership, _rows)
"""The modules of the animals, which fill `ANIMALS`."""

__all__ = ["ANIMALS", "Animal", "Catch", "hunt", "is_clean", "loose"]
