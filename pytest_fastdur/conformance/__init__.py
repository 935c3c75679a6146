"""The contract of a store as a suite that any store can run, in its own repository too.

    from pytest_fastdur.conformance import StoreSuite

    class TestMyStore(StoreSuite):
        capabilities = {"instances", "processes"}

        def make_store(self, tmp_path):
            return MyStore(tmp_path / "runs")

Each clause is one test with an id that stays, such as FENCE-03. What a store does not claim is reported as
`not-implemented`, with the reason, and never as passed.
"""

import pytest

pytest.register_assert_rewrite("pytest_fastdur.conformance")

from pytest_fastdur.conformance._clause import CORE, OPTIONAL, Capability, Clause, StoreFault  # noqa: E402 - see above
from pytest_fastdur.conformance._suite import StoreSuite  # noqa: E402
from pytest_fastdur.conformance._table import Outcome, Result, Table, run_suite  # noqa: E402

__all__ = [
    "CORE",
    "OPTIONAL",
    "Capability",
    "Clause",
    "Outcome",
    "Result",
    "StoreFault",
    "StoreSuite",
    "Table",
    "run_suite",
]
