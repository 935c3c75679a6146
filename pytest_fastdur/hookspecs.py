"""The hooks by which a conftest.py, or another plugin, extends the sweeps of a test suite. PYTEST_DONT_REWRITE."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pytest_fastdur.backends import Backend
    from pytest_fastdur.durable import DurableState
    from pytest_fastdur.report.data import Finding, SweepReport


@pytest.hookspec(firstresult=True)
def pytest_fastdur_backend(name: str, request: pytest.FixtureRequest) -> Backend | None:
    """Return where histories are kept on the store `name` of `--fastdur-backends`; None where it is not yours."""


@pytest.hookspec(firstresult=True)
def pytest_fastdur_faults(item: pytest.Item) -> str | None:
    """Return the kinds of fault of a test where neither the command line, its call, its mark nor an ini key says."""


@pytest.hookspec
def pytest_fastdur_invariants(state: DurableState) -> Iterable[str] | None:
    """Return what is wrong with what is durable after a lifetime, a text each; every one is FD01."""


@pytest.hookspec(firstresult=True)
def pytest_fastdur_canonical(frames: dict[str, Any]) -> dict[str, Any] | None:
    """Return the stored frames of a row without what may differ between two runs; None leaves them as they are."""


@pytest.hookspec
def pytest_fastdur_finding(item: pytest.Item, report: SweepReport, finding: Finding) -> None:
    """Be told of a finding."""
