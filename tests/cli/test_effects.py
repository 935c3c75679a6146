"""`fastdur effects`."""

from __future__ import annotations

import json

import pytest

from fastdur import Chain, EffectUnknown, Happened, idempotent, list_unknown, resolve_unknown
from tests.cli import conftest


@idempotent(name="send", on_unknown="raise")
def send(number):
    raise TimeoutError("no answer")


@pytest.fixture
def unsure(tmp_path):
    """A run whose process was killed in an effect, and one with two whose bodies raised."""
    from fastdur import SQLiteCheckpointer

    made = SQLiteCheckpointer(tmp_path / "runs.db")
    conftest.elsewhere(made, "conftest.dies_in_an_effect(store).execute({}, 'dead')")

    def both(state):
        for number in (1, 2):
            try:
                send(number)
            except TimeoutError:
                continue

    chain = Chain("sent", made).add_node("both", both).add_node("again", lambda state: send(1)).connect("both", "again")
    with pytest.raises(EffectUnknown):
        chain.execute({}, "two")
    yield made
    made.close()


def keys(store, run):
    return [effect.key for effect in list_unknown(run, store)]


def test_the_unknown_effects_of_a_run_are_listed_with_what_tells_them_apart(fastdur_here, unsure):
    (dead,) = list_unknown("dead", unsure)
    said = fastdur_here("effects", "list", "dead", "--store", unsure.location)
    assert said.code == 0
    assert said.out.splitlines() == [
        "charge  at charge#1",
        f"  key         {dead.key}",
        f"  effect_key  {dead.effect_key}",
    ]
    said = fastdur_here("effects", "list", "two", "--store", unsure.location)
    assert said.out.count("  raised      TimeoutError: no answer\n") == 2


def test_they_are_listed_for_programs(fastdur_here, unsure):
    (dead,) = list_unknown("dead", unsure)
    said = fastdur_here("effects", "list", "dead", "--json", "--store", unsure.location)
    assert json.loads(said.out) == [
        {
            "execution_id": "dead",
            "key": dead.key,
            "effect_key": dead.effect_key,
            "name": "charge",
            "path": "charge#1",
            "error": None,
        }
    ]


def test_where_nothing_is_unknown_it_says_so(fastdur_here, store):
    said = fastdur_here("effects", "list", "done", "--store", store.location)
    assert (said.code, said.out) == (0, "No effect of run done is unknown.\n")


@pytest.mark.parametrize("verb", [["list", "nobody"], ["resolve", "nobody", "k", "--not-happened"]])
def test_a_run_that_is_not_there_is_named(fastdur_here, store, verb):
    said = fastdur_here("effects", *verb, "--store", store.location)
    assert (said.code, "'nobody'" in said.err) == (1, True)


def test_what_has_happened_is_recorded_with_its_result(fastdur_here, unsure):
    (key,) = keys(unsure, "dead")
    said = fastdur_here(
        "effects", "resolve", "dead", key[:8], "--happened", '{"id": "ch_1"}', "--store", unsure.location
    )
    assert (said.code, said.out) == (0, "charge is recorded as happened.\n")
    (record,) = unsure.list_idempotent("dead")
    assert (record.status, record.result) == ("done", {"id": "ch_1"})


def test_what_has_not_happened_may_run_again_and_saying_so_twice_is_no_error(fastdur_apart, unsure):
    key = keys(unsure, "two")[1]
    for name in ("send", key):
        said = fastdur_apart("effects", "resolve", "two", key, "--not-happened", "--store", unsure.location)
        assert (said.code, said.out) == (0, f"{name} is recorded as not happened.\n")
    assert len(keys(unsure, "two")) == 1


@pytest.mark.parametrize(
    ("options", "code", "says"),
    [
        ([], 2, "--not-happened"),
        (["--happened", "1", "--not-happened"], 2, "either"),
        (["--happened", "ch_1"], 2, "is not JSON"),
    ],
)
def test_an_outcome_has_to_be_said_in_one_way(fastdur_here, unsure, options, code, says):
    (key,) = keys(unsure, "dead")
    said = fastdur_here("effects", "resolve", "dead", key, *options, "--store", unsure.location)
    assert (said.code, says in said.err) == (code, True)
    assert keys(unsure, "dead") == [key]


def test_a_key_that_fits_several_and_one_that_fits_none_are_refused(fastdur_here, unsure):
    said = fastdur_here("effects", "resolve", "two", "", "--not-happened", "--store", unsure.location)
    assert (said.code, "2 unknown effects" in said.err) == (2, True)
    said = fastdur_here("effects", "resolve", "two", "xyz", "--not-happened", "--store", unsure.location)
    assert (said.code, "'xyz'" in said.err) == (1, True)
    assert len(keys(unsure, "two")) == 2


def test_what_is_recorded_otherwise_is_left_as_it_is(fastdur_here, unsure):
    (key,) = keys(unsure, "dead")
    resolve_unknown("dead", key, Happened(1), unsure)
    said = fastdur_here("effects", "resolve", "dead", key, "--happened", "2", "--store", unsure.location)
    assert (said.code, "recorded" in said.err) == (1, True)


def test_a_run_shows_which_of_its_effects_are_unknown(fastdur_here, unsure):
    said = fastdur_here("show", "two", "--store", unsure.location)
    assert said.out.count("outcome unknown") == 2
