"""Each verdict is reached by something broken, its report is as it was looked at, and its token reaches it again."""

from __future__ import annotations

from contextlib import ExitStack

import pytest

from pytest_fastdur.verdicts import Verdict
from tests.plugin.broken import BROKEN, FOLDER, golden, printed


@pytest.fixture
def stack():
    with ExitStack() as made:
        yield made


@pytest.mark.parametrize("code", BROKEN)
def test_what_is_broken_is_found_as_its_report_says_and_found_again_by_its_token(ledger, stack, code):
    broken = BROKEN[code](ledger, stack)
    report = broken.swept()
    assert {finding.code for finding in report.findings} == {code}, report.render()
    assert printed(report) == golden(code).read_text(encoding="utf-8")
    again = broken.swept(replay=report.findings[0].token)
    assert [(finding.code, finding.what) for finding in again.findings] == [(code, report.findings[0].what)]
    assert again.points == 1


def test_there_is_something_broken_and_a_report_for_every_verdict():
    codes = [verdict.code for verdict in Verdict]
    assert list(BROKEN) == codes
    assert sorted(file.stem for file in FOLDER.iterdir()) == codes
