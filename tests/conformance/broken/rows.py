"""Defects of rows, listings, values and texts."""

from __future__ import annotations

import copy
import json
from dataclasses import replace

from fastdur._codec import dumps, thaw
from fastdur.errors import RunExists, StaleRun, StoreUnavailable
from fastdur.records import Frame
from tests.conformance.broken.defects import breaks
from tests.conformance.shelf import ShelfStore


class Rewrites(ShelfStore):
    """Stores something else than the row that it was given."""

    def other(self, row):
        raise AssertionError

    def _advance(self, seen, seq, row, head, answered=None, asked=()):
        moved = super()._advance(seen, seq, row, head, answered, asked)
        if moved and row is not None:
            self._runs()[seen.execution_id].rows[-1] = self.other(row)
        return moved


def with_data(row, data):
    return replace(row, frames=replace(row.frames, state={**row.frames.state, "data": data}))


@breaks("APPEND-01")
class ForgetsTheParentRow(Rewrites):
    def other(self, row):
        return replace(row, parent_checkpoint_id=None)


@breaks("APPEND-02")
class ClaimStandsStill(ShelfStore):
    def put(self, claim, row, status, *, keep=False, clear_failed=None):
        seq = claim.seq
        stored = super().put(claim, row, status, keep=keep, clear_failed=clear_failed)
        claim.seq = seq
        return stored


@breaks("APPEND-03", "ASK-13")
class RefusesItsOwnRow(ShelfStore):
    def record_interrupt(self, claim, row, pending, status, *, keep=False):
        if self._runs()[claim.execution_id].head.seq >= row.seq:
            raise StaleRun(claim.execution_id)
        return super().record_interrupt(claim, row, pending, status, keep=keep)


@breaks("APPEND-04")
class LooksAtTheIdOnly(ShelfStore):
    def put(self, claim, row, status, *, keep=False, clear_failed=None):
        known = self.get_by_id(claim.execution_id, row.checkpoint_id)
        return super().put(claim, known or row, status, keep=keep, clear_failed=clear_failed)


@breaks("APPEND-04")
class ComparesWithoutTypes(ShelfStore):
    def put(self, claim, row, status, *, keep=False, clear_failed=None):
        known = self.get_by_id(claim.execution_id, row.checkpoint_id)
        return super().put(claim, known if known == row else row, status, keep=keep, clear_failed=clear_failed)


@breaks("APPEND-05")
class TakesRowsOfOthers(ShelfStore):
    def put(self, claim, row, status, *, keep=False, clear_failed=None):
        row = replace(row, execution_id=claim.execution_id, checkpoint_id=f"{claim.run}-{row.checkpoint_id}")
        return super().put(claim, row, status, keep=keep, clear_failed=clear_failed)


@breaks("APPEND-06", "ASK-02")
class KeepsNoClaim(ShelfStore):
    def record_interrupt(self, claim, row, pending, status, *, keep=False):
        return super().record_interrupt(claim, row, pending, status)


@breaks("APPEND-07")
class ClearsBeforeItIsFenced(ShelfStore):
    def put(self, claim, row, status, *, keep=False, clear_failed=None):
        effects = self._runs()[claim.execution_id].effects
        for record in [each for each in effects.values() if (each.path, each.status) == (clear_failed, "failed")]:
            del effects[record.key]
        return super().put(claim, row, status, keep=keep)


@breaks("APPEND-07")
class ClearsEveryPath(ShelfStore):
    def put(self, claim, row, status, *, keep=False, clear_failed=None):
        stored = super().put(claim, row, status, keep=keep)
        effects = self._runs()[claim.execution_id].effects
        for record in [each for each in effects.values() if clear_failed and each.status == "failed"]:
            del effects[record.key]
        return stored


@breaks("APPEND-08")
class MergesStates(Rewrites):
    """Keeps differences that know of no removed key."""

    def other(self, row):
        rows = self._runs()[row.execution_id].rows
        before = rows[-2].frames.state["data"] if len(rows) > 1 else None
        now = row.frames.state["data"]
        both = isinstance(before, dict) and isinstance(now, dict)
        return with_data(row, {**before, **now}) if both else row


@breaks("APPEND-09", "FENCE-05", "FENCE-07")
class IsBrokenByARefusal(ShelfStore):
    """As a connection whose failed transaction nobody has rolled back."""

    failed = False

    def record_interrupt(self, claim, row, pending, status, *, keep=False):
        if self.failed:
            raise StoreUnavailable("current transaction is aborted")
        try:
            return super().record_interrupt(claim, row, pending, status, keep=keep)
        except StaleRun:
            self.failed = True
            raise


@breaks("APPEND-10")
class DropsFailedRows(ShelfStore):
    def claim_execution(self, seen, token, owner, row=None, graph=None):
        run = self._runs()[seen.execution_id]
        if seen.status == "failed":
            run.rows[-1] = replace(run.rows[-1], frames=Frame("", 1, {"data": None}))
        return super().claim_execution(seen, token, owner, row, graph)


@breaks("APPEND-11", "INSTANCE-03")
class NeedsItsMemory(Rewrites):
    """Writes differences to what it remembers with the claim, or to nothing."""

    def put(self, claim, row, status, *, keep=False, clear_failed=None):
        before, claim.tail = claim.tail, (self, row.frames.state["data"])
        if row.seq > 1 and (before is None or before[0] is not self):
            row = with_data(row, {"n": []})
        return super().put(claim, row, status, keep=keep, clear_failed=clear_failed)

    def other(self, row):
        return row


# -- listing ----------------------------------------------------------------------------------------------------------


@breaks("LIST-01")
class ListsBackwards(ShelfStore):
    def list(self, execution_id, *, limit=None):
        return super().list(execution_id, limit=limit)[::-1]


@breaks("LIST-01")
class ListsByText(ShelfStore):
    def list(self, execution_id, *, limit=None):
        return sorted(super().list(execution_id, limit=limit), key=lambda row: row.checkpoint_id)


@breaks("LIST-02")
class LimitKeepsTheOldest(ShelfStore):
    def list(self, execution_id, *, limit=None):
        return super().list(execution_id)[:limit]


@breaks("LIST-03")
class NewestByClock(ShelfStore):
    def list(self, execution_id, *, limit=None):
        rows = sorted(super().list(execution_id), key=lambda row: row.created_at)
        return rows if limit is None else rows[len(rows) - min(limit, len(rows)) :]


@breaks("LIST-04")
class LastStepsOverFailures(ShelfStore):
    def put(self, claim, row, status, *, keep=False, clear_failed=None):
        stored = super().put(claim, row, status, keep=keep, clear_failed=clear_failed)
        claim.tail = status
        self._shelf.__dict__.setdefault("skipped", set()).update({row.seq} if status == "failed" else set())
        return stored

    def get_last(self, execution_id):
        skipped = self._shelf.__dict__.get("skipped", set())
        return next((row for row in reversed(self.list(execution_id)) if row.seq not in skipped), None)


@breaks("LIST-05")
class FindsByPrefix(ShelfStore):
    def get_by_id(self, execution_id, checkpoint_id):
        return next((row for row in self.list(execution_id) if row.checkpoint_id.startswith(checkpoint_id)), None)


@breaks("LIST-06")
class MixesRuns(ShelfStore):
    def list(self, execution_id, *, limit=None):
        runs = [run for name, run in self._runs().items() if name.lower() == execution_id.lower()]
        return sorted((copy.deepcopy(row) for run in runs for row in run.rows), key=lambda row: row.seq)


@breaks("LIST-07")
class HasAHiddenLimit(ShelfStore):
    def list(self, execution_id, *, limit=None):
        return super().list(execution_id, limit=limit)[:500]


# -- runs -------------------------------------------------------------------------------------------------------------


class Lists(ShelfStore):
    """Lists other heads than were asked for."""

    def heads(self, asked):
        raise AssertionError

    def list_executions(self, *, status=None, runner=None, parent=None, unfinished=False, limit=None):
        given = {"status": status, "runner": runner, "parent": parent, "unfinished": unfinished, "limit": limit}
        return self.heads(given)

    def right(self, asked):
        return super().list_executions(**asked)


@breaks("RUNS-01")
class NewestByLastWrite(Lists):
    def heads(self, asked):
        return sorted(self.right(asked), key=lambda head: -head.updated_at)


@breaks("RUNS-02", "RUNS-05")
class IgnoresTheStatus(Lists):
    def heads(self, asked):
        return self.right({**asked, "status": None})


@breaks("RUNS-03")
class RunnerIsAPattern(Lists):
    def heads(self, asked):
        runner = asked["runner"]
        found = self.right({**asked, "runner": None})
        return [head for head in found if runner in (None, "%") or head.runner.lower() == runner.lower()]


@breaks("RUNS-04")
class CancelledGoesOn(Lists):
    def heads(self, asked):
        if not asked["unfinished"]:
            return self.right(asked)
        return [head for head in self.right({**asked, "unfinished": False}) if head.status != "completed"]


@breaks("RUNS-05")
class LimitsBeforeItChooses(Lists):
    def heads(self, asked):
        newest = self.right({"limit": asked["limit"]})
        return [head for head in self.right({**asked, "limit": None}) if head in newest]


@breaks("RUNS-06")
class ListsWithoutTheGraph(Lists):
    def heads(self, asked):
        return [replace(head, graph=None) for head in self.right(asked)]


# -- values and texts -------------------------------------------------------------------------------------------------


@breaks("VALUE-01", "APPEND-08")
class SortsKeys(Rewrites):
    """As a column of jsonb."""

    def other(self, row):
        return with_data(row, json.loads(json.dumps(json.loads(dumps(row.frames.state["data"])), sort_keys=True)))


@breaks("VALUE-01")
class TurnsIntsIntoFloats(Rewrites):
    def other(self, row):
        text = dumps(row.frames.state["data"])
        return with_data(row, json.loads(text, parse_int=lambda digits: int(float(digits)) if len(digits) < 40 else 0))


@breaks("VALUE-02")
class KeepsNoTags(Rewrites):
    """Stores users' values as JSON does that knows nothing better than their text."""

    def other(self, row):
        value = thaw(row.frames.state["data"])
        value = value if isinstance(value, (dict, list)) else [value]
        plain = [item if isinstance(item, (dict, list)) else str(item) for item in value]
        return with_data(row, json.loads(json.dumps(plain, default=str, skipkeys=True)))


@breaks("VALUE-03")
class CutsLongTexts(Rewrites):
    def other(self, row):
        data = row.frames.state["data"]
        return with_data(row, {key: item[:65535] for key, item in data.items()})


@breaks("VALUE-04", "APPEND-01")
class DropsChildren(Rewrites):
    def other(self, row):
        return replace(row, frames=replace(row.frames, children=()))


@breaks("VALUE-05")
class HandsOutItsOwn(ShelfStore):
    def list_pending_interrupts(self, execution_id=None, *, limit=None):
        return [each for (run, _), each in self._shelf.questions.items() if execution_id in (None, run)]


@breaks("TEXT-01")
class LosesWhatIsNotUtf8(ShelfStore):
    def start_execution(self, start):
        return super().start_execution(replace(start, owner=start.owner.encode("utf-8", "replace").decode()))


@breaks("TEXT-02")
class EndsTextsAtANul(ShelfStore):
    def start_execution(self, start):
        return super().start_execution(replace(start, execution_id=start.execution_id.partition("\0")[0]))


@breaks("START-08", "TEXT-02")
class LooksForPatterns(ShelfStore):
    """As `LIKE` instead of an equality."""

    def start_execution(self, start):
        if {"%", "_"} & set(start.execution_id) and len(self._runs()):
            raise RunExists(start.execution_id)
        return super().start_execution(start)


@breaks("TEXT-03")
class CutsLongIds(ShelfStore):
    def start_execution(self, start):
        return super().start_execution(replace(start, execution_id=start.execution_id[:255]))

    def get_execution(self, execution_id):
        return super().get_execution(execution_id[:255])
