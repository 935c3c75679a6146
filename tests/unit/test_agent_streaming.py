"""What a model says is heard while it says it, and nothing of that changes the run."""

from __future__ import annotations

import asyncio

import pytest

from fastdur import Agent, Chain, FunctionModel, GraphError, Supervisor, Swarm, Worker, observe
from fastdur.errors import SimulatedCrash
from tests.unit.running import dump
from tests.unit.teams import RUN, called, scripted


class Ear(list):
    def __call__(self, text, agent):
        self.append((agent, text))


def test_each_piece_is_heard_with_the_name_of_the_agent_and_together_they_are_the_answer(store, go):
    heard = Ear()
    text = "  Tin rose\nby 12 %. "
    assert go(Agent("a", scripted(text), on_text=heard, checkpointer=store).run, "hi", RUN).output == text
    assert len(heard) > 3
    assert {agent for agent, _ in heard} == {"a"}
    assert "".join(piece for _, piece in heard) == text


async def said_later(_):
    return "later on"


def test_a_function_as_a_model_is_heard_too_sync_and_async(store):
    heard = Ear()
    Agent("a", FunctionModel(lambda _: "at once"), on_text=heard, checkpointer=store).run("hi")
    asyncio.run(Agent("b", FunctionModel(said_later), on_text=heard, checkpointer=store).arun("hi"))
    assert "".join(piece for _, piece in heard) == "at oncelater on"


def test_what_is_stored_is_the_same_with_a_listener_and_without(store):
    def bare(run):
        return [(row.node_id, row.frames, row.extra) for row in dump(store, run)[1]]

    Agent("a", scripted("one two"), on_text=Ear(), checkpointer=store).run("hi", "heard")
    Agent("a", scripted("one two"), checkpointer=store).run("hi", "unheard")
    assert bare("heard") == bare("unheard")


def test_a_listener_that_raises_is_warned_about_and_hears_no_more_and_the_run_goes_on(store, go):
    heard = []

    def broken(text, agent):
        heard.append(text)
        raise ValueError("deaf")

    agent = Agent("a", scripted(called(1, "nothing"), "one two three"), on_text=broken, checkpointer=store)
    with pytest.warns(RuntimeWarning, match="raised ValueError.*while agent 'a' spoke, and is detached"):
        assert go(agent.run, "hi", RUN).output == "one two three"
    assert heard == ["one"]


def test_a_listener_that_has_raised_is_heard_again_by_another_run(store):
    heard = []

    def broken(text, agent):
        heard.append(text)
        raise ValueError("deaf")

    agent = Agent("a", scripted("one two"), on_text=broken, checkpointer=store)
    for run in ("r", "s"):
        with pytest.warns(RuntimeWarning, match="is detached"):
            agent.run("hi", run)
    assert heard == ["one", "one"]


def test_after_a_crash_what_is_asked_again_is_heard_again_and_a_recorded_answer_is_not(store):
    for replay, times in ((False, 2), (True, 1)):
        heard, run = Ear(), str(replay)
        agent = Agent("a", scripted("hello"), on_text=heard, replay_model=replay, checkpointer=store)

        def strike(boundary):
            if str(boundary) == "after model turn:0":
                raise SimulatedCrash

        with observe(strike, store), pytest.raises(SimulatedCrash):
            agent.run("hi", run)
        agent.resume(run)
        assert heard == [("a", "hello")] * times


def test_a_team_is_heard_through_its_outermost_listener_and_one_that_has_its_own_by_that(store, go):
    inside, outside = Ear(), Ear()
    own = Agent("own", scripted("own words"), on_text=inside)
    plain = Agent("plain", scripted("plain words"))
    tasks = [called(1, "delegate_to_own", task="x"), called(2, "delegate_to_plain", task="y")]
    boss = Supervisor("boss", scripted(*tasks, "boss words"), [Worker(own), Worker(plain)], on_text=outside)
    desk = Swarm("desk", [Agent("front", scripted(called(3, "handoff_to_boss", reason="x"))), boss], on_text=Ear())
    go(Chain("c", store).add_node("team", desk).execute, {"input": "hi"}, RUN)
    assert inside == [("own", "own"), ("own", " words")]
    assert outside == [("plain", "plain"), ("plain", " words"), ("boss", "boss"), ("boss", " words")]
    assert desk.on_text == []


def test_a_swarm_is_heard(store):
    heard = Ear()
    agents = [Agent("front", scripted(called(3, "handoff_to_back", reason="x"))), Agent("back", scripted("words"))]
    Swarm("desk", agents, on_text=heard, checkpointer=store).run("hi", RUN)
    assert heard == [("back", "words")]


def test_a_model_that_is_asked_outside_of_a_run_tells_nobody():
    from fastdur._streaming import listener

    assert listener("a") is None


async def alate(text, agent):
    """No listener: nobody would await it."""


@pytest.mark.parametrize("wrong", ["print", alate])
@pytest.mark.parametrize(
    "make",
    [
        lambda on_text: Agent("a", scripted("x"), on_text=on_text),
        lambda on_text: Swarm("s", [Agent("a", scripted("x"))], on_text=on_text),
    ],
)
def test_what_cannot_be_called_at_once_is_refused(wrong, make):
    with pytest.raises(GraphError, match="give a plain function on_text"):
        make(wrong)
