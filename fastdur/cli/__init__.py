"""The command `fastdur`. It needs the extra `cli`; nothing else of fastdur imports what that extra brings."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    from collections.abc import Sequence


def main(args: Sequence[str] | None = None) -> NoReturn:
    """Run the command on `args`, by default those of the process, and leave with its exit code.

    0: done. 1: what was named is not there or cannot be read, or the chain that was run did not get through.
    2: the command cannot be carried out as it was given, or the extra `cli` is not installed.
    """
    try:
        from fastdur.cli._app import run
    except ModuleNotFoundError as missing:
        print(  # noqa: T201 - a command
            f"The command fastdur needs the package {missing.name!r}. Install it with: pip install 'fastdur[cli]'",
            file=sys.stderr,
        )
        raise SystemExit(2) from None
    raise SystemExit(run(args))
