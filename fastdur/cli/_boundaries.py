"""`fastdur boundaries`: where a run could be crashed, by a run that is not."""

from __future__ import annotations

import asyncio
import json
import sys
from contextlib import redirect_stdout
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from fastdur import NodeIsAsync, Resume, SQLiteCheckpointer, observe
from fastdur.cli._target import chain_at
from fastdur.cli._text import USAGE, blaming, plain, refuse

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fastdur import Boundary, Checkpointer, PendingInterrupt, RunResult

RUN = "boundaries"
MOST_QUESTIONS = 1000


def boundaries(
    target: Annotated[str, typer.Argument(metavar="MODULE:CHAIN", help="A chain, or a function that makes one.")],
    given: Annotated[str, typer.Option("--input", metavar="JSON", help="The first state.")] = "{}",
    answers: Annotated[
        str,
        typer.Option(
            metavar="JSON",
            help='Answers by the reason of the question: \'{"limit": {"approved": true, "metadata": {}}}\'.',
        ),
    ] = "{}",
) -> None:
    """Print the boundaries of one run.

    It is a run without faults: where it could be crashed, before and after each thing that the engine does.
    The chain really runs, with its effects, on a store of its own that is thrown away. What it prints goes to stderr.
    """
    state, known = read_object(given, "--input"), read_answers(answers)
    with redirect_stdout(sys.stderr):
        try:
            lines = play(target, state, known, inside_a_loop=False)
        except NodeIsAsync:  # raised before anything runs
            lines = play(target, state, known, inside_a_loop=True)
    for each in lines:
        print(each)  # noqa: T201 - a command


def play(target: str, state: dict[str, Any], answers: Mapping[str, Resume], *, inside_a_loop: bool) -> list[str]:
    """The boundaries of a whole run, each with the lifetime it belongs to: `start`, `resume#1`, `resume#2` …"""
    lines: list[str] = []
    now = "start"

    def note(boundary: Boundary) -> None:
        lines.append(f"{now}/{plain(str(boundary))}")

    with TemporaryDirectory(prefix="fastdur-") as folder:
        store = SQLiteCheckpointer(Path(folder) / "boundaries.db", "normal")
        chain = chain_at(target, store)

        def lifetime(question: PendingInterrupt | None) -> RunResult:
            answer = None if question is None else answer_to(question, answers)
            with blaming(lambda: failed_at(store)):
                if question is None:
                    return asyncio.run(chain.aexecute(state, RUN)) if inside_a_loop else chain.execute(state, RUN)
                return asyncio.run(chain.aresume(RUN, answer)) if inside_a_loop else chain.resume(RUN, answer)

        with observe(note, store):
            result = lifetime(None)
            for number in range(1, MOST_QUESTIONS + 1):
                question = result.pending_interrupt
                if question is None:
                    break
                now = f"resume#{number}"
                result = lifetime(question)
            else:
                refuse(f"The run has asked {MOST_QUESTIONS} questions and is still not at its end.", USAGE)
        store.close()
    return lines


def failed_at(store: Checkpointer) -> str:
    """Where the run has failed."""
    last = store.get_last(RUN)
    node = None if last is None else last.extra.get("node")
    return "The run failed" if node is None else f"The run failed in node {node!r}"


def answer_to(question: PendingInterrupt, answers: Mapping[str, Resume]) -> Resume:
    """The answer that was given for this reason. Nothing is approved by default."""
    answer = answers.get(question.reason)
    if answer is None:
        example = json.dumps({question.reason: {"approved": True}})
        refuse(
            f"The run asks {question.reason!r} ({question.interrupt_id}) and --answers has no answer to it. "
            f"Nothing is approved by default; say true or false: --answers '{example}'",
            USAGE,
        )
    return answer


def read_object(text: str, option: str) -> dict[str, Any]:
    """The JSON object that an option holds."""
    try:
        value: Any = json.loads(text)
    except ValueError as error:
        refuse(f"{option} is not JSON: {error}.", USAGE)
    if not isinstance(value, dict):
        refuse(f"{option} is {type(value).__name__}, not a JSON object.", USAGE)
    return cast("dict[str, Any]", value)


def read_answers(text: str) -> dict[str, Resume]:
    """The answers by their question's reason."""
    found: dict[str, Resume] = {}
    for reason, fields in read_object(text, "--answers").items():
        if not isinstance(fields, dict):
            refuse(
                f'The answer to {reason!r} is {fields!r}; give {{"approved": true}} or {{"approved": false}}.', USAGE
            )
        try:
            found[reason] = Resume(**cast("dict[str, Any]", fields))
        except TypeError as error:
            refuse(f"The answer to {reason!r} is not one: {error}.", USAGE)
    return found
