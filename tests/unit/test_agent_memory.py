"""The memory of an agent: asked before the first turn, told behind the row of the answer."""

from __future__ import annotations

import pytest

from fastdur import (
    Agent,
    AgentMemory,
    Chain,
    GraphError,
    Message,
    NodeIsAsync,
    NodeResultError,
    RunnerTool,
    Swarm,
    effect_key,
)
from tests.unit.running import crashed
from tests.unit.teams import RUN, Ledger, called, ids, scripted


class Book(AgentMemory):
    """A memory that keeps what it is told; `wrong` are the errors that it raises first."""

    def __init__(self, *known, wrong=()):
        self.known, self.wrong, self.asked, self.keys = [*known], [*wrong], [], []

    def get_context(self, query):
        self.asked.append(query)
        return [*self.known]

    def add(self, message):
        self.keys.append(effect_key())
        if self.wrong:
            raise self.wrong.pop()
        self.known.append(message)


class Awaited(Book):
    async def get_context(self, query):
        return super().get_context(query)

    async def add(self, message):
        super().add(message)


BEFORE = Message("user", "I am Ada.")


@pytest.fixture
def ledger():
    return Ledger()


def agent(store, book, *script, **options):
    return Agent("a", scripted(*(script or ("hello",))), memory=book, checkpointer=store, **options)


def said(book):
    return [message.content for message in book.known]


@pytest.mark.parametrize(("go", "kind"), [("sync", Book), ("async", Book), ("async", Awaited)], indirect=["go"])
def test_a_memory_is_asked_for_what_fits_and_told_of_the_question_and_the_answer(store, go, kind):
    book = kind(BEFORE)
    made = agent(store, book)
    result = go(made.run, "who am I?", RUN, history=[Message("user", "earlier")])
    assert book.asked == ["who am I?"]
    assert [message.content for message in made.model.calls[0].messages] == ["I am Ada.", "earlier", "who am I?"]
    assert [message.content for message in result.messages] == ["I am Ada.", "earlier", "who am I?", "hello"]
    assert said(book) == ["I am Ada.", "who am I?", "hello"]
    assert ids(store) == ["turn:0", "turn:1", "run_end"]
    assert len({*book.keys}) == 2


def test_what_was_recalled_is_stored_and_a_resume_sees_the_same(store):
    book = Book(BEFORE)
    made = agent(store, book)
    crashed(store, lambda: made.run("hi", RUN), "after append turn:0")
    book.known[:] = [Message("user", "something else")]
    made.resume(RUN)
    assert [message.content for message in made.model.calls[0].messages] == ["I am Ada.", "hi"]
    assert book.asked == ["hi"]


@pytest.mark.parametrize("options", [{}, {"output_type": int}])
def test_a_failure_after_the_loop_is_a_marker_behind_the_row_of_the_answer_and_no_model_is_asked_again(
    store, go, options, ledger
):
    """The tool, the model, and what the memory has taken are not repeated."""
    book = Book(wrong=[ConnectionError("down")])
    made = agent(store, book, called(1, "note", text="x"), "7", tools=[ledger.note()], **options)
    with pytest.raises(ConnectionError, match="down"):
        go(made.run, "hi", RUN)
    rows = store.list(RUN)
    assert [row.node_id for row in rows] == ["turn:0", "turn:0/tool:note", "turn:1", "turn:2", "run_end"]
    assert (rows[-1].status, rows[-1].extra["node"]) == ("failed", "turn:2/memory")
    assert made.result(RUN).output is None
    result = go(made.resume, RUN)
    assert (result.output, result.wasted_tokens) == (7 if options else "7", 0)
    assert said(book) == ["hi", "7"]
    assert (len(made.model.calls), ledger) == (2, [("note", "x")])


def test_each_message_is_an_effect_of_its_own(store):
    book = Book()
    made = agent(store, book)
    crashed(store, lambda: made.run("hi", RUN), "after effect end memory of a@turn:1/memory")
    assert made.resume(RUN).output == "hello"
    assert said(book) == ["hi", "hello"]
    assert len(made.model.calls) == 1


def test_an_agent_that_is_visited_twice_tells_its_memory_twice(store):
    book = Book()
    inner = agent(None, book, "7")
    outer = Agent(
        "o",
        scripted(called(1, "a", input="one"), called(2, "a", input="two"), "done"),
        [RunnerTool(inner, "Asks.")],
        checkpointer=store,
    )
    outer.run("hi", RUN)
    assert said(book) == ["one", "7", "two", "7"]
    assert book.asked == ["one", "two"]


def test_in_a_swarm_the_first_agent_recalls_and_the_one_that_answers_remembers(store, go):
    first, second = Book(BEFORE), Book()
    agents = [
        Agent("a", scripted(called(1, "handoff_to_b", reason="x")), memory=first),
        Agent("b", scripted("done"), memory=second),
    ]
    result = go(Swarm("s", agents, checkpointer=store).run, "hi", RUN)
    assert (said(first), said(second)) == (["I am Ada."], ["hi", "done"])
    assert [message.content for message in result.messages][:2] == ["I am Ada.", "hi"]


def test_an_agent_without_a_store_has_its_memory_too():
    book = Book(BEFORE)
    assert agent(False, book).run("hi").output == "hello"
    assert said(book) == ["I am Ada.", "hi", "hello"]


def test_a_memory_inside_a_chain_is_asked_there(store):
    book = Book()
    Chain("c", store).add_node("ask", agent(None, book)).execute({"input": "hi"}, RUN)
    assert said(book) == ["hi", "hello"]


def test_what_a_memory_knows_must_be_messages(store):
    with pytest.raises(NodeResultError, match="knows of str; get_context\\(\\) returns Messages"):
        agent(store, Book("text")).run("hi", RUN)


@pytest.mark.parametrize(
    "known",
    [
        Message("user", 5),
        Message("boss", "hi"),
        Message("user", "hi", name=5),
        Message("assistant", "hi", ("note",)),
        Message("assistant", "hi", [called(1, "note")]),
    ],
    ids=repr,
)
def test_a_message_that_no_model_can_be_given_is_refused_from_a_memory_and_from_a_history(store, known):
    made = agent(store, Book(BEFORE, known))
    with pytest.raises(NodeResultError, match=r"The memory of agent 'a' knows of Message\(.*; get_context\(\) returns"):
        made.run("hi", RUN)
    assert (ids(store), made.model.calls) == (["run_end"], [])
    with pytest.raises(TypeError, match=r"history\[1\] is Message\(.*; give a Message, with texts"):
        made.run("hi", "other", history=[BEFORE, known])
    assert store.get_execution("other") is None


@pytest.mark.parametrize("known", [None, 5])
def test_a_memory_that_knows_nothing_says_so_with_an_empty_list(store, known):
    book = Book()
    book.get_context = lambda query: known
    with pytest.raises(NodeResultError, match=f"knows of {known}; get_context.. returns Messages, none as .."):
        agent(store, book).run("hi", RUN)


@pytest.mark.parametrize("memory", [{}, "book"])
def test_what_is_no_memory_is_refused(memory):
    with pytest.raises(GraphError, match="which has no get_context\\(\\); give an AgentMemory"):
        Agent("a", scripted("x"), memory=memory)


def test_a_sync_call_refuses_an_async_memory_before_it_starts(store):
    with pytest.raises(NodeIsAsync, match=r"memory\.get_context"):
        agent(store, Awaited()).run("hi", RUN)
    assert store.get_execution(RUN) is None
