"""The suite: every group of clauses."""

from __future__ import annotations

from pytest_fastdur.conformance._appending import Appending
from pytest_fastdur.conformance._asking import Asking
from pytest_fastdur.conformance._branching import Branching
from pytest_fastdur.conformance._claiming import Claiming
from pytest_fastdur.conformance._crashing import Crashing
from pytest_fastdur.conformance._effects import Effects
from pytest_fastdur.conformance._faults import Faults
from pytest_fastdur.conformance._fencing import Fencing
from pytest_fastdur.conformance._leaving import Leaving
from pytest_fastdur.conformance._linear import Linear
from pytest_fastdur.conformance._listing import Listing
from pytest_fastdur.conformance._racing import Racing
from pytest_fastdur.conformance._runs import Runs
from pytest_fastdur.conformance._starting import Starting
from pytest_fastdur.conformance._values import Values


class StoreSuite(
    Crashing,
    Racing,
    Linear,
    Faults,
    Values,
    Runs,
    Effects,
    Leaving,
    Branching,
    Asking,
    Listing,
    Fencing,
    Appending,
    Claiming,
    Starting,
):
    """The contract of a store. Subclass it as `TestMyStore` and define `make_store`.

    `make_store(tmp_path)` is called afresh for each test: its first call returns an empty store, each further call of
    the same test one more store object on the same data (`self` is the same object, should the data live in memory).

    `capabilities` claims what goes beyond the core: `instances` (several store objects on the same data, data that
    outlives them), `processes` (the same in several processes; the tests make them by fork), `fork` (a store object
    goes on working in a child made by fork), `clock` (the store's clock can be moved, see `move_clock`), `faults`
    (writes can be made to fail, see `arm`). `lacking` maps what is not claimed to the reason.
    """
