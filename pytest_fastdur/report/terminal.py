"""A sweep as text: one matrix for each story, one paragraph for each finding."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_fastdur.report.data import Finding, SweepReport

MOST_FINDINGS = 5
MOST_POINTS = 8
_CELL = 7
_CODES = {"red": "31", "green": "32", "yellow": "33", "bold": "1", "faint": "2"}


def render(report: SweepReport, width: int, *, color: bool) -> str:
    """The whole report of one story."""
    return "\n".join([*matrix_lines(report, width, color=color), *finding_lines(report, width, color=color)])


def summary(report: SweepReport) -> str:
    """One line: what was proven, or that it was not."""
    if report.stopped is not None:
        return f"{report.story}: stopped, nothing was faulted"
    tried = counted(report.ordered, "point")
    if not report.complete:
        tried = f"{report.points:,} of {tried}"
    pairs = f" ({report.pairs:,} with a second fault in the recovery)" if report.pairs else ""
    found = counted(len(report.findings), "finding")
    verdict = "all ok" if report.ok else found if report.findings else "CUT OFF, no pass"
    only = f", only {report.restricted}" if report.restricted else ""
    if report.inapplicable:
        only += f", not {' and not '.join(report.inapplicable)}"
    return (
        f"{report.story}: {counted(len(report.rows), 'boundary')}, {'+'.join(report.faults)} before and after{only}: "
        f"{tried}{pairs}, {counted(report.lifetimes, 'lifetime')}, {verdict}"
    )


def counted(number: int, noun: str) -> str:
    """`1 point`, `2,000 points`; `1 boundary`, `2 boundaries`."""
    if number != 1:
        noun = f"{noun[:-1]}ies" if noun.endswith("y") else f"{noun}s"
    return f"{number:,} {noun}"


def closure_line(report: SweepReport) -> str:
    """One line: whether crashes were taken to any number of them."""
    tried = f"{report.instants:,} in recoveries, from {counted(report.states, 'durable state')}"
    if not report.closed:
        return f"more crashes: {tried}, CUT OFF before all were tried"
    kills = counted(report.sampled, "real kill")
    kills = f"; {kills} {'leaves' if report.sampled == 1 else 'leave'} the same" if report.sampled else ""
    return f"any number of crashes: {tried}, none left{kills}"


def matrix_lines(report: SweepReport, width: int = 100, *, color: bool = False) -> Iterator[str]:
    """The crash matrix."""
    yield _paint(summary(report), "bold" if report.ok else "red", color=color)
    if report.stopped is not None:
        yield f"  {report.stopped}"
        return
    if report.states:
        yield from _wrapped(closure_line(report), width, "  ")
    if report.images:
        images = counted(report.images, "image")
        yield f"  power cuts: {images} of the file, such as they may leave, {_was(report.images)} opened and looked at"
    if report.replayed:
        yield f"  {counted(report.replayed, 'known history')} {_was(report.replayed)} played first"
    for note in report.notes:
        yield from _wrapped(note, width, "  ")
    columns = [f"{fault} {when}" for fault in report.faults for when in ("before", "after")]
    longest = max((len(name) for _, name in report.rows), default=0) + 4
    first = max(12, min(longest, width - len(columns) * _CELL - 2))
    yield f"  {'':<{first}}" + "".join(f"{fault:<{2 * _CELL}}" for fault in report.faults).rstrip()
    yield f"  {'':<{first}}" + "".join(f"{column.rpartition(' ')[2]:<{_CELL}}" for column in columns).rstrip()
    before = None
    for lifetime, name, cells in report.matrix:
        if lifetime != before:
            yield _paint(f"  {lifetime}", "bold", color=color)
            before = lifetime
        row = "".join(_cell(cells.get(column, "-"), color=color) for column in columns).rstrip()
        yield f"  {_fit('  ' + name, first - 1):<{first}}{row}"


def summary_lines(report: SweepReport, width: int, *, color: bool, short: bool) -> Iterator[str]:
    """What stands at the end of all tests: the matrix, and the line that replays each finding."""
    lines = matrix_lines(report, width, color=color)
    yield from [next(lines)] if short else lines
    for finding in report.findings:
        count = len(finding.points)
        yield _paint(f"  {finding.verdict} at {finding.points[0]}{_more(count)}", "red", color=color)
        yield f"    {report.replay(finding)}"


def _more(count: int) -> str:
    return f", and {counted(count - 1, 'more point')}" if count > 1 else ""


def _was(number: int) -> str:
    return "was" if number == 1 else "were"


def finding_lines(report: SweepReport, width: int = 100, *, color: bool = False) -> Iterator[str]:
    """The findings, the lowest codes first, with the line that plays each again."""
    for finding in report.findings[:MOST_FINDINGS]:
        yield ""
        yield from _finding(report, finding, width, color=color)
    if len(report.findings) > MOST_FINDINGS:
        yield ""
        more = counted(len(report.findings) - MOST_FINDINGS, "more finding")
        yield f"and {more}, by the lines that replay what was found:"
        yield from (f"  {finding.verdict}  {report.replay(finding)}" for finding in report.findings[MOST_FINDINGS:])


def _finding(report: SweepReport, finding: Finding, width: int, *, color: bool) -> Iterator[str]:
    count = len(finding.points)
    where = f"{report.story}, {finding.points[0]}{_more(count)}"
    yield _paint(f"{finding.verdict}  {where}", "red", color=color)
    yield from _wrapped(finding.what, width, "  ")
    for lifetime in finding.lifetimes:
        yield from _wrapped(lifetime, width, "  | ")
    if finding.change:
        yield "  durable change since the last good state"
        yield from (f"    {line}" for line in finding.change)
    if count > 1:
        shown = finding.points[1 : MOST_POINTS + 1]
        rest = [f"and {count - 1 - len(shown)} more"] if count - 1 > len(shown) else []
        yield from _wrapped(f"also at: {'; '.join([*shown, *rest])}", width, "  ")
    yield from _wrapped(f"cause:   {finding.cause}", width, "  ")
    yield from _wrapped(f"cure:    {finding.cure}", width, "  ")
    yield f"  replay:  {report.replay(finding)}"


def _wrapped(text: str, width: int, indent: str) -> Iterator[str]:
    from textwrap import TextWrapper

    fill = TextWrapper(width, indent, f"{indent}  ", break_long_words=False, break_on_hyphens=False)
    for line in text.splitlines():
        yield from fill.wrap(line) or [indent]


def _fit(text: str, width: int) -> str:
    return text if len(text) <= width else f"{text[: width - 1]}…"


def _cell(text: str, *, color: bool) -> str:
    padded = f"{text:<{_CELL}}"
    if text == "-":
        return _paint(padded, "faint", color=color)
    return _paint(padded, {"ok": "green", "alt": "yellow", "ask": "yellow"}.get(text, "red"), color=color)


def _paint(text: str, how: str, *, color: bool) -> str:
    return f"\x1b[{_CODES[how]}m{text}\x1b[0m" if color else text
