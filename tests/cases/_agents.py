"""The agents of the cases, each built from a world and a store, so that any process builds the same one."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator

from fastdur import Agent, Chain, FunctionModel, RunnerTool, TestModel, ToolCall, idempotent, interrupt, tool


def flavoured(world, fn):
    """`fn` as a function, or as an async one."""
    if world.flavour != "async":
        return fn

    async def awaited(**arguments):
        return fn(**arguments)

    awaited.__name__, awaited.__annotations__, awaited.__doc__ = fn.__name__, fn.__annotations__, fn.__doc__
    awaited.__wrapped__ = fn
    return awaited


def asked(world, model):
    """A model, each question to it marked."""
    plain = model.complete

    def complete(request):
        world.mark("model")
        return plain(request)

    async def acomplete(request):
        return complete(request)

    model.complete = acomplete if world.flavour == "async" else complete
    return model


def charging(world, **options):
    @idempotent(name="charge")
    def pay(amount):
        world.mark(f"paid {amount}")
        return f"charged {amount}"

    def charge(amount: int) -> str:
        world.mark("charge")
        return pay(amount)

    return tool(**options)(flavoured(world, charge))


def noting(world):
    def note(text: str) -> str:
        world.mark(f"note {text}")
        return text

    return tool(flavoured(world, note))


def _agent(world, store, script, *tools, name="a", **options):
    return Agent(name, asked(world, TestModel(script)), tools, checkpointer=store, **options)


def charging_agent(world, store):
    """Turn 0 charges, turn 1 answers."""
    return _agent(world, store, [ToolCall("1", "charge", {"amount": 5}), "done"], charging(world))


def checked_agent(world, store):
    """The same, and its answer is checked by something that may be broken."""

    def holds(value: dict[str, int]) -> dict[str, int]:
        world.check("check")
        return value

    script = [ToolCall("1", "charge", {"amount": 5}), '{"amount": 5}']
    return _agent(world, store, script, charging(world), output_type=Annotated[dict[str, int], AfterValidator(holds)])


def approving_agent(world, store):
    """A tool that needs approval between two that do not, in one turn."""
    calls = [
        ToolCall("1", "note", {"text": "a"}),
        ToolCall("2", "charge", {"amount": 5}),
        ToolCall("3", "note", {"text": "b"}),
    ]
    return _agent(world, store, [calls, "done"], charging(world, needs_approval=True), noting(world))


def looping_agent(world, store):
    """An agent that never has enough: its bound of five turns trips."""
    return _agent(world, store, [ToolCall("1", "note", {"text": "x"})], noting(world), max_turns=5)


def four_turns(world, store):
    script = [*(ToolCall(f"c{n}", "note", {"text": str(n)}) for n in range(4)), "done"]
    return _agent(world, store, script, noting(world))


def levels(world, store):
    """A chain around an agent around an agent whose tool asks three times."""

    def contract() -> list[str]:
        return [interrupt(f"{number}?").metadata["by"] for number in range(3)]

    inner = _agent(world, None, [ToolCall("1", "contract"), "signed"], tool(flavoured(world, contract)), name="inner")
    outer = _agent(
        world, None, [ToolCall("1", "inner", {"input": "sign"}), "all done"], RunnerTool(inner, "Signs."), name="outer"
    )
    flow = Chain("flow", store).add_node("first", world.step("first")).add_node("team", outer, output_key="said")
    return flow.add_node("last", world.step("last")).connect("first", "team").connect("team", "last")


def many_turns(store, turns, size):
    """So many turns, each with a tool that returns so many characters."""

    def look(number: int) -> str:
        return f"{number} {'x' * size}"

    def say(messages):
        number = len(messages) // 2
        return ToolCall(f"c{number}", "look", {"number": number}) if number < turns else "done"

    return Agent("many", FunctionModel(say), [tool(look)], max_turns=turns + 1, checkpointer=store)
