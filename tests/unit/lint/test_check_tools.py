"""Tools of agents and of supervisors are read like nodes."""

from __future__ import annotations

from tests.unit.lint.linting import check, report


def test_a_tool_that_charges_before_it_asks_is_worse_than_one_that_charges_without_a_record(tmp_path):
    messages = check(
        tmp_path,
        """
        import requests
        from fastdur import Agent, interrupt, tool

        @tool
        def charge(amount: int) -> str:
            requests.post("https://x", json=amount)  #: FDL01
            answer = interrupt("release", {})
            requests.post("https://x", json=answer.approved)  #: FDL02

        @tool(needs_approval=True)
        async def refund(amount: int) -> str:
            requests.post("https://x", json=amount)  #: FDL02

        agent = Agent("a", model, [charge, refund])
        """,
    )
    assert messages[0] == (
        "tool 'charge' sends an HTTP request (requests.post) before it asks with interrupt(), so again when the answer comes."
    )
    assert messages[2].startswith("tool 'refund' sends an HTTP request (requests.post) outside of @idempotent")


def test_what_makes_tools_of_functions_is_known_wherever_it_is_imported_from(tmp_path):
    check(
        tmp_path,
        """
        import requests
        import fastdur
        from fastdur import Supervisor, Worker
        from fastdur.agent import Agent
        from fastdur.tools import FunctionTool, tool

        def pay(amount):
            requests.post("https://x", json=amount)  #: FDL02

        def send(amount):
            requests.post("https://x", json=amount)  #: FDL02

        def call(amount):
            requests.post("https://x", json=amount)  #: FDL02

        def plain(amount):
            requests.post("https://x", json=amount)  #: FDL02

        def listed(amount):
            requests.post("https://x", json=amount)  #: FDL02

        def own(amount):
            requests.post("https://x", json=amount)  #: FDL02

        def loose(amount):
            requests.post("https://x", json=amount)

        known = [listed]
        a = Agent("a", model, [tool(pay), fastdur.tool(name="send")(send), FunctionTool(call), plain])
        b = Agent("b", model, tools=known)
        team = Supervisor("s", model, [Worker(a), Worker(b)], tools=(own,))
        """,
    )


def test_a_tool_whose_charge_is_an_effect_is_right_and_its_effect_is_held_to_its_own_rules(tmp_path):
    check(
        tmp_path,
        """
        import requests
        from fastdur import Agent, Swarm, effect_key, idempotent, tool

        @idempotent
        def charge(amount):
            requests.post("https://x", json=amount, headers={"Idempotency-Key": effect_key()})

        @idempotent
        def keyless(amount):
            requests.post("https://x", json=amount)  #: FDL10

        @tool
        def pay(amount: int) -> str:
            charge(amount)
            keyless(amount)
            return effect_key()  #: FDL05

        swarm = Swarm("s", [Agent("a", model, [pay])])
        """,
    )


def test_a_tool_may_look_at_the_world_unless_a_question_follows(tmp_path):
    check(
        tmp_path,
        """
        import os
        import time
        import requests
        from fastdur import interrupt, tool

        @tool
        def today() -> str:
            return requests.get("https://x").text + str(time.time()) + os.environ["HOME"]

        @tool
        def ask() -> str:
            now = time.time()  #: FDL03
            home = os.environ["HOME"]  #: FDL03
            answer = interrupt("go", {"now": now, "home": home})
            return f"{answer.approved} {time.time()}"
        """,
    )


def test_a_tool_that_keeps_something_in_the_process_or_swallows_its_pause_is_found(tmp_path):
    check(
        tmp_path,
        """
        from fastdur import interrupt, tool

        SEEN = []

        @tool
        def look(text: str) -> str:
            SEEN.append(text)  #: FDL12
            try:
                return interrupt("go", {}).metadata
            except BaseException:  #: FDL04
                return "no"
        """,
    )


def test_a_tool_that_is_no_function_is_left_alone(tmp_path):
    found = report(
        tmp_path,
        """
        from fastdur import Agent, Chain, RunnerTool, tool

        made = tool(name="x")
        agent = Agent("a", model)
        other = Agent("b", model, [RunnerTool(Chain("c"), "x"), made, unknown])
        """,
    )
    assert found.findings == ()
