"""`# fastdur: ignore[...]`."""

from __future__ import annotations

import pytest

from fastdur.lint._config import Config
from fastdur.lint._suppress import suppressions
from tests.unit.lint.linting import check


def test_a_finding_is_suppressed_in_its_lines_and_from_the_line_above(tmp_path):
    check(
        tmp_path,
        """
        import requests, time
        from fastdur import Chain

        def node(state):
            a = time.time()  # fastdur: ignore[FDL03] only shown
            # fastdur: ignore[FDL03, FDL02] both are meant

            # another comment
            b = (time.time(), requests.put("u"))
            requests.post(
                "u",  # fastdur:ignore[fdl02] - at the end of the call
            )
            c = time.time()  #: FDL03
            return {"a": a}

        Chain("c").add_node("n", node)
        """,
    )


def test_a_suppression_that_is_not_needed_is_a_finding(tmp_path):
    messages = check(
        tmp_path,
        """
        import time
        from fastdur import Chain

        def node(state):
            a = time.time()  # fastdur: ignore[FDL03, FDL02] one of them #: FDL90
            return {"a": 1}  # fastdur: ignore[FDL01] none #: FDL90

        Chain("c").add_node("n", node)
        # fastdur: ignore[FDL12] at the very end #: FDL90
        """,
    )
    assert messages[0] == "there is no FDL02 here to suppress."


def test_what_is_not_looked_for_is_not_unused(tmp_path):
    source = "import fastdur\nx = 1  # fastdur: ignore[FDL12] why\n"
    check(tmp_path, source, Config(select=frozenset({"FDL90", "FDL03"})))
    check(tmp_path, source, Config(select=frozenset({"FDL12"})))


@pytest.mark.parametrize(
    ("comment", "why"),
    [
        ("# fastdur: ignore", "names no rule"),
        ("# fastdur: ignore because", "names no rule"),
        ("# fastdur: ignore[] because", "names no rule"),
        ("# fastdur: ignore[FDL77] because", "names FDL77, which is no rule that can be suppressed"),
        ("# fastdur: ignore[FDL90] because", "names FDL90, which is no rule that can be suppressed"),
        ("# fastdur: ignore[FDL03]", "gives no reason"),
        ("# fastdur: ignore[FDL03] --", "gives no reason"),
    ],
)
def test_a_suppression_without_a_code_or_a_reason_is_none(comment, why):
    known, wrong = suppressions(f"x = 1  {comment}\n", "f.py")
    assert known == []
    assert [(each.code, each.message) for each in wrong] == [("FDL91", f"this suppression {why}, so it is ignored.")]


def test_a_text_that_looks_like_one_is_none():
    assert suppressions('x = "# fastdur: ignore"  # other\n', "f.py") == ([], [])
    assert suppressions("x = 1\n", "f.py") == ([], [])


def test_a_suppression_may_stand_among_others(tmp_path):
    known, wrong = suppressions("x = 1  # noqa: S1 # fastdur: ignore[FDL03] why\n", "f.py")
    assert (known[0].codes, known[0].place.column, wrong) == (("FDL03",), 19, [])
