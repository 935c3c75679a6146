"""CRASH: a process killed inside a method leaves all of its write or nothing, and the write can be sent again."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from pytest_fastdur.conformance._bench import Bench
from pytest_fastdur.conformance._children import killed_at
from pytest_fastdur.conformance._clause import Capability, Group, clause
from pytest_fastdur.conformance._made import everything
from pytest_fastdur.conformance._writes import WRITES, told

if TYPE_CHECKING:
    from fastdur.checkpointers.protocol import Checkpointer
    from pytest_fastdur.conformance._writes import Prepared

_NEEDS: Final[tuple[Capability, ...]] = ("claims", "rows", "interrupts", "effects", "processes")


def _killed_at(line: int, call: Prepared, store: Checkpointer) -> int:
    return killed_at(line, lambda: call(store))


class Crashing(Group):
    """The clauses of a kill by SIGKILL before the lines of Python between which a write is stored."""

    def _killed_in(self, bench: Bench, method: str) -> None:
        """Search for the line at which the write appears, by halves: what is stored after a kill only grows with it."""
        write = WRITES[method]
        untroubled = write(bench.store, "untroubled")(bench.store)
        expected = told(bench.store, "untroubled")
        counted = write(bench.store, "counted")
        lines: int = bench.in_child(partial(_killed_at, 0, counted))
        assert lines, f"{method} runs no line of Python"
        first, last = 0, lines + 1
        while last - first > 1:
            line = (first + last) // 2
            name = f"r{line}"
            call = write(bench.store, name)
            before = everything(bench.store, name)
            bench.in_child(partial(_killed_at, line, call))
            self.settle()
            middle = everything(bench.store, name)
            assert call(bench.store) == untroubled, f"killed at line {line} of {lines}: sent again, it has no good end"
            after = everything(bench.store, name)
            assert middle in (before, after), f"killed at line {line} of {lines}: half of the write is stored"
            assert told(bench.store, name) == expected, f"killed at line {line} of {lines}: it is not whole"
            first, last = (line, last) if middle == before else (first, line)

    @clause(*_NEEDS)
    def test_crash_01_a_start_is_whole_or_absent(self, bench: Bench) -> None:
        """A start whose process is killed inside `start_execution` is stored whole or not at all, and can be sent again."""
        self._killed_in(bench, "start_execution")

    @clause(*_NEEDS)
    def test_crash_02_a_claim_is_whole_or_absent(self, bench: Bench) -> None:
        """A claim whose process is killed inside `claim_execution` is stored whole or not at all, and can be sent again."""
        self._killed_in(bench, "claim_execution")

    @clause(*_NEEDS)
    def test_crash_03_a_claim_with_a_row_is_whole_or_absent(self, bench: Bench) -> None:
        """A claim with a row whose process is killed inside `claim_execution` is stored whole or not at all, and can be sent again."""
        self._killed_in(bench, "claim_execution with a row")

    @clause(*_NEEDS)
    def test_crash_04_an_answer_is_whole_or_absent(self, bench: Bench) -> None:
        """An answer whose process is killed inside `delete_pending_interrupt_atomic` is stored whole or not at all, and can be sent again."""
        self._killed_in(bench, "delete_pending_interrupt_atomic")

    @clause(*_NEEDS)
    def test_crash_05_a_decision_is_whole_or_absent(self, bench: Bench) -> None:
        """A decision whose process is killed inside `decide` is stored whole or not at all, and can be sent again."""
        self._killed_in(bench, "decide")

    @clause(*_NEEDS)
    def test_crash_06_a_cancel_is_whole_or_absent(self, bench: Bench) -> None:
        """A cancel whose process is killed inside `cancel` is stored whole or not at all, and can be sent again."""
        self._killed_in(bench, "cancel")

    @clause(*_NEEDS)
    def test_crash_07_a_release_is_whole_or_absent(self, bench: Bench) -> None:
        """A release whose process is killed inside `release` is stored whole or not at all, and can be sent again."""
        self._killed_in(bench, "release")

    @clause(*_NEEDS)
    def test_crash_08_a_row_is_whole_or_absent(self, bench: Bench) -> None:
        """A row whose process is killed inside `put` is stored whole or not at all, and can be sent again."""
        self._killed_in(bench, "put")

    @clause(*_NEEDS)
    def test_crash_09_a_pause_is_whole_or_absent(self, bench: Bench) -> None:
        """A pause whose process is killed inside `record_interrupt` is stored whole or not at all, and can be sent again."""
        self._killed_in(bench, "record_interrupt")

    @clause(*_NEEDS)
    def test_crash_10_the_begin_of_an_effect_is_whole_or_absent(self, bench: Bench) -> None:
        """The begin of an effect whose process is killed inside `begin_idempotent` is stored whole or not at all, and can be sent again."""
        self._killed_in(bench, "begin_idempotent")

    @clause(*_NEEDS)
    def test_crash_11_the_end_of_an_effect_is_whole_or_absent(self, bench: Bench) -> None:
        """The end of an effect whose process is killed inside `put_idempotent` is stored whole or not at all, and can be sent again."""
        self._killed_in(bench, "put_idempotent")

    @clause(*_NEEDS)
    def test_crash_12_a_branch_is_whole_or_absent(self, bench: Bench) -> None:
        """A start with an origin whose process is killed inside it is stored whole, with the records it inherits, or not at all."""
        self._killed_in(bench, "start_execution with an origin")

    @clause(*_NEEDS, "retention")
    def test_crash_13_a_delete_leaves_all_or_nothing(self, bench: Bench) -> None:
        """A delete whose process is killed inside `delete_execution` leaves the run whole or nothing of it, and can be sent again."""
        self._killed_in(bench, "delete_execution")
