"""What a clause is, what it needs, and what a suite declares."""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal, get_args

import pytest

from pytest_fastdur.clauses import CLAUSE, LEFT_OUT, RULE, SUITE
from pytest_fastdur.conformance._bench import Bench

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from collections.abc import Set as AbstractSet
    from pathlib import Path

    from fastdur.checkpointers.protocol import Checkpointer

Capability = Literal[
    "claims",
    "rows",
    "interrupts",
    "effects",
    "runs",
    "values",
    "retention",
    "threads",
    "instances",
    "processes",
    "fork",
    "clock",
    "faults",
]
"""What a clause may need. The first eight are what every store is made of; the others are claimed by declaration."""

StoreFault = Literal["lost-commit", "lost-answer", "down"]
"""How a write fails: not done and an error; done and an error; not done, until the fault is taken away."""

OPTIONAL: Final[frozenset[Capability]] = frozenset(("instances", "processes", "fork", "clock", "faults"))
CORE: Final[frozenset[Capability]] = frozenset(get_args(Capability)) - OPTIONAL

_CLOCK: Final = "clock_offset"
_NAME: Final = re.compile(r"test_([a-z]+)_(\d\d)_\w+")


@dataclass(frozen=True, slots=True)
class Clause:
    """One rule of the contract: its id, the rule in one sentence, and the capabilities that it needs."""

    id: str
    rule: str
    needs: tuple[Capability, ...]
    test: str
    """The name of the method that checks it."""


def clause(*needs: Capability) -> Callable[[Callable[[Any, Bench], None]], Callable[[Any, Bench], None]]:
    """Make a test a clause. Its id is in its name, `test_fence_03_…`; its docstring is the rule."""

    def made(test: Callable[[Any, Bench], None]) -> Callable[[Any, Bench], None]:
        found = _NAME.fullmatch(test.__name__)
        assert found is not None, test.__name__
        assert test.__doc__, test.__name__
        rule = " ".join(test.__doc__.split())
        known = Clause(f"{found[1].upper()}-{found[2]}", rule, needs, test.__name__)

        @functools.wraps(test)
        def checked(self: Group, bench: Bench) -> None:
            __tracebackhide__ = True
            bench.properties += [(SUITE, type(self).__name__), (CLAUSE, known.id), (RULE, known.rule)]
            reason = self.left_out(known)
            if reason is None:
                test(self, bench)
            else:
                bench.properties.append((LEFT_OUT, reason))

        vars(checked)["fastdur_clause"] = known
        return checked

    return made


class Group:
    """A group of clauses, and what a suite says about its store."""

    capabilities: ClassVar[AbstractSet[Capability]] = frozenset()
    """What is claimed beyond the core."""

    lacking: ClassVar[Mapping[Capability, str]] = {}
    """What is not claimed, of the core too, each with the reason."""

    lease: ClassVar[float] = 30.0
    """How many seconds a lease lasts in the stores that are made here."""

    def __init_subclass__(cls) -> None:
        """Refuse a misspelt capability."""
        super().__init_subclass__()
        unknown = sorted((set(cls.capabilities) | set(cls.lacking)) - set(get_args(Capability)))
        both = sorted(set(cls.capabilities) & set(cls.lacking))
        if unknown or both:
            fault = f"there is no capability {unknown}" if unknown else f"{both} are claimed and lacking"
            message = f"{cls.__name__}: {fault}; there are {', '.join(get_args(Capability))}"
            raise TypeError(message)

    # -- what a suite brings -----------------------------------------------------------------------------------------

    def make_store(self, tmp_path: Path) -> Checkpointer:
        """Return a store: fresh and empty at the first call of a test, on the same data at each further call."""
        message = f"{type(self).__name__} must define make_store(self, tmp_path)"
        raise TypeError(message)

    def move_clock(self, store: Checkpointer, seconds: float) -> None:
        """Set how far the store's clock is ahead (capability `clock`)."""
        setattr(store, _CLOCK, seconds)

    def arm(self, store: Checkpointer, fault: StoreFault | None) -> None:
        """Make the next write of this store meet `fault`; None takes it away (capability `faults`)."""
        message = f"{type(self).__name__} claims faults and must define arm(self, store, fault)"
        raise TypeError(message)

    def settle(self) -> None:
        """Return once nothing is under way that a killed process has sent: a server may go on with it for a while."""

    # -- what pytest and `run_suite` ask -----------------------------------------------------------------------------

    @pytest.fixture
    def bench(self, request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Bench]:
        """Return where a clause works."""
        with Bench(self.make_store, tmp_path, request.node.user_properties) as made:
            yield made

    def left_out(self, clause: Clause) -> str | None:
        """Why this clause is not claimed, None where it is."""
        for need in clause.needs:
            if need in self.lacking:
                return self.lacking[need]
            if need in OPTIONAL and need not in self.capabilities:
                return f"{need!r} is not claimed"
        return None

    @classmethod
    def clauses(cls) -> list[Clause]:
        """Every clause of this suite, by id."""
        found = [getattr(getattr(cls, name), "fastdur_clause", None) for name in dir(cls) if name.startswith("test_")]
        return sorted((each for each in found if each is not None), key=lambda each: each.id)
