"""`python -m pytest_fastdur judge FILE…`: judge recorded sweeps again, without a run.

`python -m pytest_fastdur subject MODULE[:NAME] [TOKEN]` sweeps a subject, or replays one finding of it.

Exit status 0 where every history holds, 1 where one does not, or is judged otherwise than when it was played, 2 for a
file that cannot be read.
"""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path


def _sweep(where: str, token: str | None = None) -> int:
    """Sweep a subject; exit status 1 where something was found."""
    from pytest_fastdur.faults import SweepError
    from pytest_fastdur.foreign import sweep_subject
    from pytest_fastdur.subject import is_subject

    module, _, name = where.partition(":")
    try:
        found: object = import_module(module)
        found = getattr(found, name) if name else found
        if isinstance(found, type):
            found = found()
        if not is_subject(found):
            sys.stderr.write(f"{where} is no subject: it needs start, resume and status\n")
            return 2
        report = sweep_subject(found, name=where, replay=token)
    except (ImportError, AttributeError, SweepError) as error:
        sys.stderr.write(f"{where} cannot be swept. {type(error).__name__}: {error}\n")
        return 2
    print(report.render())  # noqa: T201 - the answer
    return int(not report.ok)


def main(arguments: list[str]) -> int:
    """Do what the command line says; return the exit status."""
    from pytest_fastdur.faults import SweepError
    from pytest_fastdur.report.records import judged_again, read

    if arguments[:1] == ["subject"] and len(arguments) in (2, 3):
        return _sweep(*arguments[1:])
    if len(arguments) < 2 or arguments[0] != "judge":  # noqa: PLR2004 - a command and a file
        sys.stderr.write("usage: python -m pytest_fastdur judge FILE... | subject MODULE[:NAME] [TOKEN]\n")
        return 2
    red = False
    for name in arguments[1:]:
        try:
            judged = judged_again(read(Path(name)))
        except SweepError as error:
            sys.stderr.write(f"{error}\n")
            return 2
        for sweep in judged:
            red = red or bool(sweep.found or sweep.changed)
            said = f"{len(sweep.found)} broke a promise" if sweep.found else "all hold"
            print(f"{sweep.story} on {sweep.store}: {sweep.histories} histories, {said}")  # noqa: T201 - the answer
            for line in (*sweep.found, *(f"judged otherwise: {each}" for each in sweep.changed)):
                print(f"  {line}")  # noqa: T201 - as above
    return int(red)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
