"""Every statement of the SQL stores, once. What differs between databases is in `Dialect`.

Texts use `?` for a parameter and these names: `{t}` before a table, `{same}` for an equality that holds between two
NULLs, `{now}` for the store's clock (seconds since 1970, one parameter: what to add), `{serial}` and `{key}` for two
kinds of primary key, `{values}` for the values of an insert that belongs to a move, `{guard}` after the condition of
an update or delete that belongs to one, `{moved}` for the heads that the move has written, `{hold}` after a query of a
head that must not move until the statement around it is done, `{lock}` after one of heads that it will remove,
`{places}` for the runs, epochs and seqs of a JSON list of such triples, which is one parameter, `{among}` and `{end}`
around a query of a few keys to look up.

A *move* is one compare-and-set of a head and the statements that hold only if it took effect. A dialect runs them one
by one in a transaction, or folds them into one statement.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from fastdur.errors import StoreTooNew

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from fastdur.records import Status

SCHEMA: Final = 3
"""The schema version that this version writes."""

RUN_SHIFT: Final = 32
"""A checkpoint's key is `run << RUN_SHIFT | seq`."""

Hold = Literal["keep", "drop", "take"]
"""What a move does to the claim: renew its lease, give it up, or take it under a new token."""


def known(version: int, location: str) -> int:
    """Return the schema version found at `location`. Raises `StoreTooNew` where it is one of the future."""
    if version > SCHEMA:
        message = (
            f"The store {location} has schema {version}; this fastdur knows up to {SCHEMA}. "
            "Nothing was changed; upgrade fastdur, or give another store."
        )
        raise StoreTooNew(message)
    return version


@dataclass(frozen=True, slots=True)
class Dialect:
    """How one database spells what the texts leave open."""

    now: str
    serial: str
    key: str
    mark: str = "?"
    tables: str = ""
    same: str = "IS"
    values: tuple[str, str, str] = ("VALUES (", "), (", ")")
    guard: str = ""
    moved: str = "executions"
    hold: str = ""
    lock: str = ""
    places: str = ""
    among: tuple[str, str] = ("IN (", ")")

    def fit(self, text: str, columns: int = 0, lines: int = 1) -> str:
        """Return `text` in this dialect; `columns` counts the parameters of each of the `lines` of `{values}`."""
        start, between, end = self.values
        return text.replace("?", self.mark).format(
            t=self.tables,
            same=self.same,
            now=self.now,
            serial=self.serial,
            key=self.key,
            values=start + between.join([", ".join([self.mark] * columns)] * lines) + end,
            guard=self.guard,
            moved=self.moved,
            hold=self.hold,
            lock=self.lock,
            among=self.among[0],
            end=self.among[1],
            places=f"({self.places.replace('?', self.mark)})",
        )


# The head of a run is one small row that every step rewrites, near its end only: Postgres logs a row from its first
# change on. The texts of the start, which may be big, are beside it. Nothing that a step rewrites is in an index. There
# is no second index on checkpoints.
_TABLES: Final = {
    1: (
        """CREATE TABLE {t}executions (
            run {serial}, execution_id TEXT NOT NULL UNIQUE, runner TEXT NOT NULL, kind TEXT NOT NULL,
            start_token TEXT NOT NULL, parent_id TEXT, parent_address TEXT, parent_checkpoint_id TEXT,
            created_at DOUBLE PRECISION NOT NULL, status TEXT NOT NULL, epoch BIGINT NOT NULL, token TEXT, owner TEXT,
            seq BIGINT NOT NULL, attempts BIGINT NOT NULL, lease_until DOUBLE PRECISION,
            updated_at DOUBLE PRECISION NOT NULL)""",
        "CREATE INDEX executions_by_status ON {t}executions (status, runner)",
        "CREATE TABLE {t}starts (run {key}, graph TEXT NOT NULL, input TEXT NOT NULL)",
        """CREATE TABLE {t}checkpoints (
            id {key}, nonce TEXT NOT NULL, node_id TEXT NOT NULL, node_index BIGINT NOT NULL, step_type TEXT NOT NULL,
            status TEXT NOT NULL, agent_path TEXT NOT NULL, base BIGINT NOT NULL, size BIGINT NOT NULL,
            body TEXT NOT NULL, extra TEXT, parent_checkpoint_id TEXT, created_at DOUBLE PRECISION NOT NULL,
            format BIGINT NOT NULL)""",
        """CREATE TABLE {t}pending_interrupts (
            id {serial}, run BIGINT NOT NULL, interrupt_id TEXT NOT NULL, runner TEXT NOT NULL, node_id TEXT NOT NULL,
            reason TEXT NOT NULL, context TEXT NOT NULL, agent_path TEXT NOT NULL, created_at DOUBLE PRECISION NOT NULL,
            UNIQUE (run, interrupt_id))""",
        """CREATE TABLE {t}idempotency_cache (
            id {serial}, run BIGINT NOT NULL, key TEXT NOT NULL, name TEXT NOT NULL, args TEXT NOT NULL,
            status TEXT NOT NULL, attempt TEXT NOT NULL, path TEXT NOT NULL, result TEXT NOT NULL, error TEXT NOT NULL,
            epoch BIGINT NOT NULL, UNIQUE (run, key))""",
        "CREATE TABLE {t}schema_version (version BIGINT NOT NULL)",
        "INSERT INTO {t}schema_version (version) VALUES (1)",
    ),
    2: (
        "ALTER TABLE {t}starts ADD COLUMN recorded BIGINT NOT NULL DEFAULT 0",
        "CREATE INDEX executions_by_parent ON {t}executions (parent_id) WHERE parent_id IS NOT NULL",
    ),
    3: (
        "ALTER TABLE {t}executions ADD COLUMN parent_run BIGINT",
        # A run comes after the one that it comes from: an older one of that name is another.
        """UPDATE {t}executions AS e SET parent_run = (SELECT p.run FROM {t}executions AS p
            WHERE p.execution_id = e.parent_id AND p.run < e.run) WHERE parent_id IS NOT NULL""",
        "DROP INDEX {t}executions_by_parent",
        "CREATE INDEX executions_by_parent_run ON {t}executions (parent_run) WHERE parent_run IS NOT NULL",
    ),
}
"""What leads from one schema version to the next, by the version it leads to."""

_START: Final = """INSERT INTO {t}executions (execution_id, runner, kind, status, seq, epoch, token, start_token, owner,
    lease_until, attempts, parent_id, parent_address, parent_checkpoint_id, created_at, updated_at, parent_run)
    """
_AS: Final = "?, ?, ?, 'running', ?, 1, ?, ?, ?, {now}, 0, ?, ?, ?, {now}, {now}, "
_ANEW: Final = "VALUES (" + _AS + "(SELECT run FROM {t}executions WHERE execution_id = ?))"
_BELOW: Final = "SELECT " + _AS + "run FROM {t}executions WHERE execution_id = ? AND token = ?{hold}"
_BESIDE: Final = "SELECT " + _AS + "run FROM {t}executions WHERE run = ?{hold}"
_UNLESS_THERE: Final = " ON CONFLICT (execution_id) DO NOTHING"
_START_TEXTS: Final = """INSERT INTO {t}starts (run, graph, input, recorded)
    SELECT run, ?, ?, ? FROM {moved} WHERE execution_id = ?"""
_STARTED: Final = "SELECT run, start_token FROM {t}executions WHERE execution_id = ?"

_HOLD: Final[dict[Hold, str]] = {
    "keep": "lease_until = {now}",
    "drop": "token = NULL, owner = NULL, lease_until = NULL",
    "take": "epoch = epoch + 1, lease_until = {now}, token = ?, owner = ?",
}
_MOVE: Final = "UPDATE {t}executions SET seq = ?, updated_at = {now}, "
_ATTEMPTS: Final = (", attempts = attempts + 1", ", attempts = 0")
_MOVE_STATUS: Final = ", status = ?"
_SEEN: Final = " WHERE run = ? AND epoch = ? AND token {same} ? AND seq = ?"
_SEEN_ASKED: Final = " AND EXISTS (SELECT 1 FROM {t}pending_interrupts WHERE run = ? AND interrupt_id = ?)"
_CLAIMED: Final = "SELECT 1 FROM {t}executions WHERE run = ? AND token = ?"

_RENEW: Final = "UPDATE {t}executions SET lease_until = {now} WHERE run = ? AND epoch = ? AND token = ?"
_RELEASE: Final = "UPDATE {t}executions SET " + _HOLD["drop"] + " WHERE run = ? AND epoch = ? AND token = ?"

_ROW_COLUMNS: Final = (
    "id, nonce, node_id, node_index, step_type, status, agent_path, base, size, body, extra, parent_checkpoint_id, "
    "created_at, format"
)
_APPEND: Final = "INSERT INTO {t}checkpoints (" + _ROW_COLUMNS + ") {values}"
_ORIGIN: Final = (
    "INSERT INTO {t}checkpoints ("
    + _ROW_COLUMNS
    + ") SELECT run * 4294967296 + 1, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ? FROM {moved} WHERE execution_id = ?"
)
_ASK: Final = """INSERT INTO {t}pending_interrupts
    (run, interrupt_id, runner, node_id, reason, context, agent_path, created_at) {values}
    ON CONFLICT (run, interrupt_id) DO UPDATE SET runner = excluded.runner, node_id = excluded.node_id,
    reason = excluded.reason, context = excluded.context, agent_path = excluded.agent_path,
    created_at = excluded.created_at"""
_ANSWER: Final = "DELETE FROM {t}pending_interrupts WHERE run = ? AND interrupt_id = ?{guard}"
_WITHDRAW: Final = "DELETE FROM {t}pending_interrupts WHERE run = ?{guard}"
_REGRAPH: Final = "UPDATE {t}starts SET graph = ? WHERE run = ?{guard}"
_CLEAR_FAILED: Final = "DELETE FROM {t}idempotency_cache WHERE run = ? AND path = ? AND status = 'failed'{guard}"

# A row is read together with the rows that it is a difference from, back to the last full one.
_ROWS: Final = (
    "SELECT "
    + ", ".join("c." + name for name in _ROW_COLUMNS.split(", "))
    + """ FROM {{t}}executions AS e
    JOIN {{t}}checkpoints AS f ON f.id = e.run * 4294967296 + {first}
    JOIN {{t}}checkpoints AS c ON c.id BETWEEN e.run * 4294967296 + f.base AND e.run * 4294967296 + {last}
    WHERE e.execution_id = ? ORDER BY c.id"""
)
_NEWEST: Final = _ROWS.format(first="CASE WHEN e.seq > ? THEN e.seq - ? + 1 ELSE 1 END", last="e.seq")
_ONE: Final = _ROWS.format(first="?", last="?")

_PENDING: Final = """SELECT e.execution_id, p.interrupt_id, p.runner, p.node_id, p.reason, p.context, p.agent_path,
    p.created_at FROM {t}pending_interrupts AS p JOIN {t}executions AS e ON e.run = p.run"""

_EFFECT_COLUMNS: Final = "key, name, args, status, attempt, path, result, error"
_EFFECT_FENCE: Final = "SELECT 1 FROM {t}executions WHERE run = ? AND epoch = ? AND token = ?"
_BEGIN: Final = (
    "INSERT INTO {t}idempotency_cache (run, "
    + _EFFECT_COLUMNS
    + """, epoch)
    SELECT run, ?, ?, ?, ?, ?, ?, ?, ?, epoch FROM {t}executions WHERE run = ? AND epoch = ? AND token = ?{hold}
    ON CONFLICT (run, key) DO UPDATE SET name = excluded.name, args = excluded.args, status = excluded.status,
    attempt = excluded.attempt, path = excluded.path, result = excluded.result, error = excluded.error,
    epoch = excluded.epoch
    WHERE idempotency_cache.status IN ('started', 'failed', 'unknown')"""
)
_END: Final = (
    """UPDATE {t}idempotency_cache SET status = ?, result = ?, error = ?
    WHERE run = ? AND key = ? AND attempt = ? AND status = 'started' AND EXISTS ("""
    + _EFFECT_FENCE
    + ")"
)
_RESOLVE: Final = """UPDATE {t}idempotency_cache SET status = ?, path = ?, result = ?, error = ?
    WHERE run = ? AND key = ? AND attempt = ? AND status IN ('started', 'unknown')
    AND EXISTS (SELECT 1 FROM {t}executions WHERE run = ? AND epoch = ? AND token {same} ?)"""
_EFFECT_OF_RUN: Final = "SELECT " + _EFFECT_COLUMNS + ", epoch FROM {t}idempotency_cache WHERE run = ? AND key = ?"
_EFFECT_UNDER: Final = (
    "SELECT "
    + ", ".join("c." + name for name in _EFFECT_COLUMNS.split(", "))
    + """, c.epoch FROM {t}executions AS e LEFT JOIN {t}idempotency_cache AS c ON c.run = e.run AND c.key = ?
    WHERE e.run = ? AND e.epoch = ? AND e.token = ?"""
)
_EFFECTS: Final = (
    "SELECT "
    + ", ".join("c." + name for name in _EFFECT_COLUMNS.split(", "))
    + ", c.epoch FROM {t}executions AS e JOIN {t}idempotency_cache AS c ON c.run = e.run WHERE e.execution_id = ?"
)

# What a branch inherits of the records of child runs stands in its own, under the place of each child run: what its id
# has after that of the run above, `//` and the key. The child run that is started at that place takes it from there.
_BELOW_IT: Final = """e.parent_run = p.run AND e.parent_address IS NOT NULL
    AND substr(e.execution_id, 1, length(p.execution_id) + 1) = p.execution_id || '/'"""
_RECORDS: Final = (
    "INSERT INTO {{t}}idempotency_cache (run, "
    + _EFFECT_COLUMNS
    + ", epoch) {tree} SELECT m.run, {key}, "
    + ", ".join("c." + name for name in _EFFECT_COLUMNS.split(", ")[1:])
    + """, 1 FROM {{moved}} AS m JOIN {whose} ON m.execution_id = ? JOIN {{t}}idempotency_cache AS c ON c.run = s.run
    WHERE c.status IN ('done', 'unstorable', 'failed'){which} ORDER BY {order} ON CONFLICT (run, key) DO NOTHING"""
)
_INHERIT: Final = _RECORDS.format(
    tree="""WITH RECURSIVE tree (run, place) AS (SELECT e.run, '' FROM {t}executions AS e WHERE e.run = ?
    UNION ALL SELECT e.run, t.place || substr(e.execution_id, length(p.execution_id) + 1) FROM tree AS t
    JOIN {t}executions AS p ON p.run = t.run JOIN {t}executions AS e ON """
    + _BELOW_IT
    + ")",
    key="CASE WHEN s.place = '' OR substr(c.key, 1, 1) = '/' THEN s.place ELSE s.place || '//' END || c.key",
    whose="tree AS s",
    which="",
    order="s.place, c.id",
)
_INHERIT_HERE: Final = _RECORDS.format(
    tree="",
    key="CASE WHEN substr(c.key, ?, 2) = '//' THEN substr(c.key, ?) ELSE substr(c.key, ?) END",
    whose="{t}executions AS s",
    which=" AND s.execution_id = ? AND substr(c.key, 1, ?) = ?",
    order="c.id",
)

# A run goes with the child runs that its nodes have started: a run that is started anew under its id would meet them.
# The statuses stand where no index of theirs is of use, so that each batch is read on along the key.
_LEFT_ALONE: Final = "(e.token IS NULL OR e.lease_until <= {now})"
_OLD: Final = (
    _LEFT_ALONE
    + """ AND e.updated_at <= CASE WHEN e.status IN ('completed', 'cancelled') THEN {now}
    WHEN e.status = 'failed' THEN {now} ELSE -1 END"""
)
_TREES: Final = (
    """WITH RECURSIVE roots AS (
    SELECT e.run, e.runner, e.epoch, e.seq FROM {t}executions AS e WHERE e.run > ? AND """
    + _OLD
    + """ AND (e.parent_address IS NULL
    OR NOT EXISTS (SELECT 1 FROM {t}executions AS p WHERE p.run = e.parent_run)) ORDER BY e.run LIMIT ?),
    trees (root, run, runner, epoch, seq, old) AS (
    SELECT run, run, runner, epoch, seq, 1 FROM roots
    UNION ALL SELECT t.root, e.run, e.runner, e.epoch, e.seq, CASE WHEN """
    + _OLD
    + """ THEN 1 ELSE 0 END FROM trees AS t
    JOIN {t}executions AS e ON e.parent_run = t.run AND e.parent_address IS NOT NULL)
    SELECT root, run, runner, epoch, seq, old FROM trees ORDER BY root, run"""
)
_REMOVE: Final = (
    """DELETE FROM {t}executions WHERE run {among}SELECT run FROM {places} AS p{end} AND ? = (SELECT count(*) FROM (
    SELECT 1 FROM {t}executions AS e WHERE run {among}SELECT run FROM {places} AS p{end}
    AND (run, epoch, seq) IN (SELECT run, epoch, seq FROM {places} AS p) AND """
    + _LEFT_ALONE
    + " ORDER BY run{lock}) AS held)"
)
_REMOVE_FROM: Final = "DELETE FROM {{t}}{table} WHERE run {{among}}SELECT run FROM {{places}} AS p{{end}}{{guard}}"
_REMOVE_ROWS: Final = """DELETE FROM {t}checkpoints WHERE id {among}SELECT c.id FROM {places} AS p
    JOIN {t}checkpoints AS c ON c.id BETWEEN p.run * 4294967296 AND p.run * 4294967296 + 4294967295{end}{guard}"""
_LEFT: Final = "SELECT run FROM {t}executions WHERE run {among}SELECT run FROM {places} AS p{end}"

_HEAD: Final = """SELECT e.execution_id, e.run, e.runner, e.kind, e.status, e.seq, e.epoch, e.token, e.owner,
    e.token IS NOT NULL AND e.lease_until > {now}, s.graph, s.input, e.attempts, e.parent_id, e.parent_address,
    e.parent_checkpoint_id, e.created_at, e.updated_at, s.recorded, e.parent_run
    FROM {t}executions AS e JOIN {t}starts AS s ON s.run = e.run"""


_OF_PARENT: Final = "e.parent_run = (SELECT p.run FROM {t}executions AS p WHERE p.execution_id = ?)"


class Sql:
    """The statements in one dialect."""

    def __init__(self, dialect: Dialect) -> None:
        fit = self._fit = dialect.fit
        self._migrations = {version: tuple(map(fit, texts)) for version, texts in _TABLES.items()}
        self._migrated = fit("UPDATE {t}schema_version SET version = ")
        self.version = fit("SELECT version FROM {t}schema_version")
        self.start = fit(_START + _ANEW + _UNLESS_THERE)
        self.start_below = fit(_START + _BELOW + _UNLESS_THERE)
        self.start_beside = fit(_START + _BESIDE + _UNLESS_THERE)
        self.origin = fit(_ORIGIN)
        self.inherit = fit(_INHERIT)
        self.inherit_here = fit(_INHERIT_HERE)
        self.remove = fit(_REMOVE)
        self.remove_rows = fit(_REMOVE_ROWS)
        self.remove_starts, self.remove_questions, self.remove_effects = (
            fit(_REMOVE_FROM.format(table=table)) for table in ("starts", "pending_interrupts", "idempotency_cache")
        )
        self.left = fit(_LEFT)
        self.trees = fit(_TREES)
        self.start_texts = fit(_START_TEXTS)
        self.started = fit(_STARTED)
        self.claimed = fit(_CLAIMED)
        self.renew = fit(_RENEW)
        self.release = fit(_RELEASE)
        self.append = fit(_APPEND, 14)
        self.answer = fit(_ANSWER)
        self.withdraw = fit(_WITHDRAW)
        self.regraph = fit(_REGRAPH)
        self.clear_failed = fit(_CLEAR_FAILED)
        self.newest = fit(_NEWEST)
        self.one = fit(_ONE)
        self.begin_effect = fit(_BEGIN)
        self.end_effect = fit(_END)
        self.effect_fence = fit(_EFFECT_FENCE)
        self.effect_under = fit(_EFFECT_UNDER)
        self.effect_of_run = fit(_EFFECT_OF_RUN)
        self.effect = fit(_EFFECTS + " AND c.key = ?")
        self.effects = fit(_EFFECTS + " ORDER BY c.id")
        self.unknown_effects = fit(_EFFECTS + " AND c.status IN ('started', 'unknown') ORDER BY c.id")
        self.resolve_effect = fit(_RESOLVE)
        self.head = fit(_HEAD + " WHERE e.execution_id = ?")
        self._moves: dict[tuple[Hold, bool, bool, bool], str] = {}
        self._asks: dict[int, str] = {}

    def upgrade(self, version: int) -> Iterator[str]:
        """What leads from `version` (0: nothing is there) to the schema of this fastdur, to be run as one."""
        for step in range(version + 1, SCHEMA + 1):
            yield from self._migrations[step]
            yield self._migrated + str(step)

    def ask(self, questions: int) -> str:
        """Write that many open questions, in their order. Parameters: the columns of each."""
        known = self._asks.get(questions)
        if known is None:
            known = self._asks[questions] = self._fit(_ASK, 8, questions)
        return known

    def move(self, hold: Hold, *, row: bool, status: bool, asked: bool) -> str:
        """The compare-and-set of a head: what becomes of the claim, whether a row is appended, whether the status is
        set, whether a question must be pending.

        Parameters: seq; clock (updated_at); keep: lease; take: lease, token, owner; status; what was seen: run, epoch,
        token, seq; the question: run, interrupt_id. Without `status` no indexed column is touched.
        """
        known = self._moves.get((hold, row, status, asked))
        if known is None:
            text = _MOVE + _HOLD[hold] + _ATTEMPTS[row] + _MOVE_STATUS * status + _SEEN + _SEEN_ASKED * asked
            known = self._moves[hold, row, status, asked] = self._fit(text)
        return known

    def pending(self, *, one_run: bool, limited: bool) -> str:
        """The open questions, oldest first. Parameters: execution_id, limit, as far as asked for."""
        return self._fit(_PENDING + " WHERE e.execution_id = ?" * one_run + " ORDER BY p.id" + " LIMIT ?" * limited)

    def heads(self, statuses: Sequence[Status], *, runner: bool, parent: bool, limited: bool) -> str:
        """The heads of runs with one of these statuses, or with any where none is given, newest first.

        Parameters: the runner, the parent, the limit, as far as asked for. The statuses stand in the text: how many
        runs have them decides on the way to find them, and a plan that is kept for any of them would fit none.
        """
        asked = [f"e.status IN ({', '.join(map(repr, statuses))})"] * bool(statuses)
        asked += ["e.runner = ?"] * runner + [_OF_PARENT] * parent
        where = " WHERE " + " AND ".join(asked) if asked else ""
        return self._fit(_HEAD + where + " ORDER BY e.run DESC" + " LIMIT ?" * limited)
