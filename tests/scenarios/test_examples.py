"""The examples of the guide to side effects: the right ones hold, the others break where the guide says, and nowhere else."""

from __future__ import annotations

import pytest

from pytest_fastdur.sweep import explore
from scenarios.stories import EXAMPLES, StoreFiles, boundaries, boundaries_file, in_the_store

RIGHT = [(name, variant) for name, example in EXAMPLES.items() for variant in example.right]
BROKEN = [
    (name, variant, code)
    for name, example in EXAMPLES.items()
    for variant, code in example.broken.items()
    if code.startswith("FD")
]
UNPLAYABLE = [
    (name, variant, said)
    for name, example in EXAMPLES.items()
    for variant, said in example.broken.items()
    if not said.startswith("FD")
]
BLIND = [(name, variant) for name, example in EXAMPLES.items() for variant in example.blind]

# Broken only where a crash comes between what the provider did and its record.
IN_THE_WINDOW = {
    ("refund", "broken_no_key"),
    ("booking", "broken_no_key"),
    ("mail", "broken_random_id"),
    ("mail", "broken_receiver"),
    ("archive", "broken_fresh_name"),
    ("archive", "broken_append"),
    ("triage", "broken_no_key"),
}


def named(value):
    return value if isinstance(value, str) else None


def sweep(where, name, variant, fault, at=None):
    backend, counterparts = where
    example = EXAMPLES[name]
    with example.world(counterparts(example.counterpart)) as world:
        return explore(example.story(world, variant), fault, at=at, depth=1, backend=backend)


def marked(report, *marks):
    return {
        key.rpartition("=")[0] + " " + key.rpartition(" ")[2] for key, mark in report.cells.items() if mark in marks
    }


def around(report, effect, *instants):
    """The cells of a matrix at these instants of every call of an effect."""
    return {
        f"{lifetime}/{name} {when}"
        for lifetime, name in report.rows
        for kind, when in instants
        if name == f"{kind} {effect}" or name.startswith(f"{kind} {effect} (")
    }


def window(report, effect):
    """From when it is written down that the effect has begun until it is written down what came of it."""
    return around(
        report, effect, ("effect begin", "after"), ("effect", "before"), ("effect", "after"), ("effect end", "before")
    )


def done_and_not_recorded(report, effect):
    """The part of the window in which it has happened."""
    return around(report, effect, ("effect", "after"), ("effect end", "before"))


def stops_in_the_window_and_nowhere_else(report, name):
    assert report.ok, report.render()
    asked = marked(report, "ask")
    assert asked == window(report, EXAMPLES[name].effect), report.render()
    return len(asked)


def breaks_where_it_is_said_to(report, name, variant, code):
    assert [finding.code for finding in report.findings] == [code] * len(report.findings) != [], report.render()
    if (name, variant) in IN_THE_WINDOW:
        assert marked(report, code) == done_and_not_recorded(report, EXAMPLES[name].effect), report.render()


def has_no_window(report, fault):
    """An error right after the commit is no failure of the effect: it is found to have happened, and the run goes on."""
    assert report.ok, report.render()
    went_on = {f"start/effect transaction {EXAMPLES['booking'].effect} after"} if fault == "raise" else set()
    assert marked(report, "alt") == went_on, report.render()
    assert not marked(report, "ask"), report.render()


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_boundaries_of_an_example_are_those_in_its_list(name, counterparts):
    present = boundaries(name, counterparts(EXAMPLES[name].counterpart))
    assert present == boundaries_file(name).read_text(), "python -m scenarios.stories writes it anew"


# -- at every boundary -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "variant", "fault"),
    [*((*right, "crash") for right in RIGHT), *((name, "build", "raise") for name in EXAMPLES)],
)
def test_a_right_example_holds_at_every_boundary(name, variant, fault, on_sqlite):
    report = sweep(on_sqlite, name, variant, fault)
    assert report.ok, report.render()
    assert not marked(report, "ask", "alt"), report.render()
    if variant == "build":  # every boundary of the list, before and after, has had its fault
        assert report.points == len(boundaries_file(name).read_text().splitlines())


@pytest.mark.parametrize("name", EXAMPLES)
def test_a_right_example_holds_at_every_boundary_on_postgres(name, with_postgres):
    report = sweep(with_postgres, name, "build", "crash")
    assert report.ok, report.render()
    assert report.points == len(boundaries_file(name).read_text().splitlines())


@pytest.mark.parametrize("fault", ["crash", "raise"])
@pytest.mark.parametrize("name", EXAMPLES)
def test_where_nobody_knows_a_run_stops_in_the_one_window_and_nowhere_else(name, fault, on_sqlite):
    assert stops_in_the_window_and_nowhere_else(sweep(on_sqlite, name, "stopping", fault), name) >= 4


@pytest.mark.parametrize(("name", "variant", "code"), BROKEN, ids=named)
def test_a_broken_twin_is_found_and_only_the_promise_it_breaks_is_named(name, variant, code, on_sqlite):
    breaks_where_it_is_said_to(sweep(on_sqlite, name, variant, "crash"), name, variant, code)


@pytest.mark.parametrize(("name", "variant", "said"), UNPLAYABLE, ids=named)
def test_a_twin_that_is_wrong_without_a_fault_stops_the_sweep_with_the_reason(name, variant, said, on_sqlite):
    report = sweep(on_sqlite, name, variant, "crash")
    assert not report.ok
    assert said in report.render()
    assert not report.cells


@pytest.mark.parametrize("fault", ["crash", "raise", "kill"])
def test_a_booking_in_the_database_of_the_store_has_no_window(fault):
    files = StoreFiles()
    has_no_window(explore(in_the_store(files), fault, depth=1, backend=files), fault)


@pytest.mark.parametrize("fault", ["crash", pytest.param("raise", marks=pytest.mark.sweep), "kill"])
def test_so_it_has_none_on_postgres(fault, with_postgres):
    has_no_window(sweep(with_postgres, "booking", "transactional", fault), fault)


# -- around the effect, by real kills and on Postgres ------------------------------------------------------------------


@pytest.mark.parametrize("name", EXAMPLES)
def test_a_kill_around_its_effect_changes_nothing_in_a_right_example(name, on_sqlite):
    report = sweep(on_sqlite, name, "build", "kill", EXAMPLES[name].near("build"))
    assert report.ok, report.render()


def test_so_it_is_on_postgres(with_postgres):
    report = sweep(with_postgres, "booking", "build", "kill", EXAMPLES["booking"].near("build"))
    assert report.ok, report.render()


@pytest.mark.parametrize("name", EXAMPLES)
@pytest.mark.parametrize(("store", "fault"), [("on_sqlite", "kill"), ("with_postgres", "crash")])
def test_around_its_effect_a_run_stops_where_nobody_knows_whatever_the_death_and_the_store(name, store, fault, request):
    example = EXAMPLES[name]
    report = sweep(request.getfixturevalue(store), name, "stopping", fault, example.near("stopping"))
    stops_in_the_window_and_nowhere_else(report, name)


@pytest.mark.parametrize(("name", "variant", "code"), BROKEN, ids=named)
@pytest.mark.parametrize(("store", "fault"), [("on_sqlite", "kill"), ("with_postgres", "crash")])
def test_around_its_effect_a_broken_twin_is_found_whatever_the_death_and_the_store(
    name, variant, code, store, fault, request
):
    report = sweep(request.getfixturevalue(store), name, variant, fault, EXAMPLES[name].near(variant))
    breaks_where_it_is_said_to(report, name, variant, code)


# -- all of it --------------------------------------------------------------------------------------------------------


@pytest.mark.sweep
@pytest.mark.parametrize("fault", ["crash", "raise", "kill"])
@pytest.mark.parametrize("store", ["on_sqlite", "with_postgres"])
@pytest.mark.parametrize(("name", "variant"), RIGHT)
def test_every_right_variant_holds_at_every_boundary_on_every_store(name, variant, store, fault, request):
    report = sweep(request.getfixturevalue(store), name, variant, fault)
    assert report.ok, report.render()
    assert not marked(report, "ask", "alt"), report.render()


@pytest.mark.sweep
@pytest.mark.parametrize("fault", ["crash", "raise", "kill"])
@pytest.mark.parametrize("store", ["on_sqlite", "with_postgres"])
@pytest.mark.parametrize("name", EXAMPLES)
def test_every_run_that_stops_does_so_in_the_window_on_every_store(name, store, fault, request):
    stops_in_the_window_and_nowhere_else(sweep(request.getfixturevalue(store), name, "stopping", fault), name)


@pytest.mark.sweep
@pytest.mark.parametrize("fault", ["crash", "raise", "kill"])
@pytest.mark.parametrize("store", ["on_sqlite", "with_postgres"])
@pytest.mark.parametrize(("name", "variant", "code"), BROKEN, ids=named)
def test_every_broken_twin_is_found_by_every_fault_on_every_store(name, variant, code, store, fault, request):
    breaks_where_it_is_said_to(sweep(request.getfixturevalue(store), name, variant, fault), name, variant, code)


@pytest.mark.sweep
@pytest.mark.parametrize(("name", "variant"), [*RIGHT, *((name, "stopping") for name in EXAMPLES)])
def test_every_right_variant_holds_when_its_recovery_is_crashed_too(name, variant, on_sqlite):
    backend, counterparts = on_sqlite
    example = EXAMPLES[name]
    with example.world(counterparts(example.counterpart)) as world:
        report = explore(example.story(world, variant), "crash", depth=2, backend=backend)
    assert report.ok, report.render()
