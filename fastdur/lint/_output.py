"""A report as text, as JSON, and as SARIF 2.1.0."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from fastdur.lint._rules import RULES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fastdur.lint._findings import Finding, Place, Report

SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"


def text(report: Report) -> str:
    """One paragraph for each finding: where, what, and the way out; then the sum."""
    return "".join(f"{line}\n" for line in _lines(report))


def _lines(report: Report) -> Iterator[str]:
    for finding in report.findings:
        at = finding.place
        yield f"{at.path}:{at.line}:{at.column}: {finding.code} {finding.message}"
        yield f"    way out: {RULES[finding.code].cure}"
    if report.findings:
        codes = sorted({finding.code for finding in report.findings})
        yield f"{_count(len(report.findings), 'finding')} in {_count(report.files, 'file')}. {_explain(codes)}"
    elif not report.problems:
        yield f"Nothing found in {_count(report.files, 'file')}."


def _explain(codes: list[str]) -> str:
    return f"Each rule in full: fastdur lint --explain {codes[0]}" + (f" ({', '.join(codes[1:])})" if codes[1:] else "")


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def as_json(report: Report) -> str:
    """The report as data."""
    data = {
        "files": report.files,
        "findings": [
            {
                **_span(finding.place),
                "code": finding.code,
                "rule": RULES[finding.code].name,
                "message": finding.message,
                "way_out": RULES[finding.code].cure,
                "way": [{"name": step.name, **_span(step.place)} for step in finding.way],
            }
            for finding in report.findings
        ],
        "problems": [
            {"path": problem.path, "line": problem.line, "message": problem.message} for problem in report.problems
        ],
    }
    return json.dumps(data, indent=2) + "\n"


def _span(at: Place) -> dict[str, Any]:
    return {
        "path": at.path,
        "line": at.line,
        "column": at.column,
        "end_line": at.end_line,
        "end_column": at.end_column,
    }


def sarif(report: Report, version: str) -> str:
    """The report in the format that code scanning services take."""
    codes = list(RULES)
    run = {
        "tool": {
            "driver": {
                "name": "fastdur lint",
                "version": version,
                "semanticVersion": version,
                "rules": [
                    {
                        "id": rule.code,
                        "name": "".join(word.capitalize() for word in rule.name.split("-")),
                        "shortDescription": {"text": f"{rule.title}."},
                        "fullDescription": {"text": rule.why},
                        "help": {"text": f"{rule.why}\n\nWay out: {rule.cure}."},
                        "defaultConfiguration": {"level": "warning"},
                    }
                    for rule in RULES.values()
                ],
            }
        },
        "columnKind": "unicodeCodePoints",
        "invocations": [
            {
                "executionSuccessful": not report.problems,
                "toolExecutionNotifications": [
                    {
                        "level": "error",
                        "message": {"text": problem.message},
                        "locations": [
                            {
                                "physicalLocation": {
                                    "artifactLocation": {"uri": _uri(problem.path)},
                                    "region": {"startLine": problem.line},
                                }
                            }
                        ],
                    }
                    for problem in report.problems
                ],
            }
        ],
        "results": [_result(finding, codes) for finding in report.findings],
    }
    return json.dumps({"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}, indent=2) + "\n"


def _result(finding: Finding, codes: list[str]) -> dict[str, Any]:
    result: dict[str, Any] = {
        "ruleId": finding.code,
        "ruleIndex": codes.index(finding.code),
        "level": "warning",
        "message": {"text": f"{finding.message} Way out: {RULES[finding.code].cure}."},
        "locations": [{"physicalLocation": _physical(finding.place)}],
    }
    if finding.way:
        steps = [
            {"location": {"physicalLocation": _physical(step.place), "message": {"text": step.name}}}
            for step in finding.way
        ]
        result["codeFlows"] = [{"threadFlows": [{"locations": steps}]}]
    return result


def _physical(at: Place) -> dict[str, Any]:
    return {
        "artifactLocation": {"uri": _uri(at.path)},
        "region": {
            "startLine": at.line,
            "startColumn": at.column,
            "endLine": at.end_line,
            "endColumn": at.end_column,
        },
    }


def _uri(path: str) -> str:
    return f"file://{quote(path)}" if path.startswith("/") else quote(path)
