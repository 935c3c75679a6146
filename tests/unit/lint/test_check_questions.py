"""What is found around `interrupt()`."""

from __future__ import annotations

from tests.unit.lint.linting import check


def test_a_pause_that_is_swallowed_is_found(tmp_path):
    messages = check(
        tmp_path,
        """
        import asyncio
        import contextlib
        from contextlib import suppress
        from fastdur import InterruptSignal, interrupt
        import fastdur as fd

        def ask():
            return interrupt("q", {}).approved

        def bare(state):
            try:
                ask()
            except:  #: FDL04
                pass

        def everything(state):
            try:
                fd.interrupt("q", {})
            except (ValueError, BaseException) as error:  #: FDL04
                raise RuntimeError from error

        def by_name(state):
            try:
                ask()
            except ValueError:
                pass
            except fd.InterruptSignal:  #: FDL04
                pass

        def groups(state):
            try:
                ask()
            except* BaseException:  #: FDL04
                pass

        def dropped(state):
            try:
                ask()
            finally:
                print()
                return {}  #: FDL04

        def suppressed(state):
            with suppress(ValueError), contextlib.suppress(BaseException):  #: FDL04
                ask()

        async def gathered(state):
            await asyncio.gather(aask(), return_exceptions=True)  #: FDL04

        async def aask():
            return interrupt("q", {})

        def right(state):
            try:
                ask()
            except Exception:
                pass
            try:
                ask()
            except BaseException:
                state["log"] = 1
                raise
            try:
                ask()
            except BaseException as error:
                raise error
            try:
                ask()
            except InterruptSignal:
                raise
            except BaseException:
                pass
            try:
                ask()
            finally:
                print("done")
            try:
                print("no question here")
            except BaseException:
                pass
            with suppress(ValueError):
                ask()
            with suppress(BaseException):
                print("nor here")
            with open("f"):
                ask()

        async def gathers(state):
            await asyncio.gather(aask())
            await asyncio.gather(aask(), return_exceptions=False)
            await asyncio.gather(asyncio.sleep(0), return_exceptions=True)
            async with state["lock"]:
                ask()
        """,
    )
    assert messages[:2] == [
        "'except:' in bare() catches the pause of ask() and does not raise it again.",
        "'except (ValueError, BaseException):' in everything() catches the pause of fd.interrupt() and does not raise it again.",
    ]


def test_questions_in_an_order_that_changes_are_found(tmp_path):
    messages = check(
        tmp_path,
        """
        import glob
        import os
        from pathlib import Path
        from fastdur import interrupt

        NAMES = {"legal", "finance"}
        ORDERED = ("legal", "finance")

        def ask(name):
            return interrupt(name, {}).approved

        def one(state):
            for name in {"a", "b"}:  #: FDL13
                ask(name)

        def two(state):
            for name in set(state["names"]) - {"a"}:  #: FDL13
                ask(name)

        def three(state):
            return {name: ask(name) for name in NAMES}  #: FDL13

        def four(state):
            for number, name in enumerate(list(frozenset(state["names"]))):  #: FDL13
                ask(name)

        def five(state):
            names = {each for each in state["names"]}
            return [ask(name) for name in names]  #: FDL13

        def six(state):
            for path in Path("d").iterdir():  #: FDL13
                ask(path.name)
            for name in os.listdir("d"):  #: FDL13
                ask(name)

        def seven(state):
            for name in sorted({"a", "b"}):
                ask(name)
            for name in ORDERED:
                ask(name)
            for name in {"a", "b"}:
                print(name)
            for name in state["names"]:
                ask(name)
            for name in unknown:
                ask(name)
            for name in list():
                ask(name)
            for name in 1 + 2:
                ask(name)
            return {name: ask(name) for name in glob.glob("*")}  #: FDL13

        eight = lambda state: [ask(name) for name in {"a", "b"}]  #: FDL13
        """,
    )
    assert messages[0] == "one() asks (ask()) in the order of {'a', 'b'}, which is not always the same."
