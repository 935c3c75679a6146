"""The teams of the cases, each built from a world and a store, so that any process builds the same one."""

from __future__ import annotations

from fastdur import Agent, Chain, RunnerTool, Supervisor, Swarm, TestModel, ToolCall, Worker, tool
from tests.cases._agents import asked, charging, flavoured, noting


def _valid(messages):
    """Whether each tool call has exactly one answer, right behind its question, in order: what providers accept."""
    waiting = []
    for message in messages:
        if message.role == "tool" and (not waiting or waiting.pop(0) != message.tool_call_id):
            return False
        if message.role != "tool" and waiting:
            return False
        waiting += [call.id for call in message.tool_calls]
    return not waiting


def _checked(world, *script):
    """A model that marks each question, and what no provider would take."""
    model = TestModel([*script])
    plain = model.complete

    def complete(request):
        if not _valid(request.messages):
            world.mark("refused by the provider")
        return plain(request)

    model.complete = complete
    return asked(world, model)


def _payer(world, **options):
    """Charges twice, one a turn, each with approval; beside the first it wants to take a note."""
    script = [
        [ToolCall("1", "charge", {"amount": 1}), ToolCall("2", "note", {"text": "beside"})],
        ToolCall("3", "charge", {"amount": 2}),
        "paid",
    ]
    tools = [charging(world, needs_approval=True), noting(world)]
    return Agent("payer", _checked(world, *script), tools, **options)


def _writer(world):
    return Agent("writer", _checked(world, ToolCall("1", "note", {"text": "w"}), "written"), [noting(world)])


def alone(world, store):
    """The one agent with a gate by itself."""
    return _payer(world, checkpointer=store)


def supervised(world, store):
    """One worker writes, then the other pays."""
    script = [
        ToolCall("1", "delegate_to_writer", {"task": "write"}),
        ToolCall("2", "delegate_to_money", {"task": "pay"}),
        "all done",
    ]
    workers = [Worker(_writer(world)), Worker(_payer(world), "money")]
    return Supervisor("boss", _checked(world, *script), workers, checkpointer=store)


def swarmed(world, store):
    """The front takes a note and hands over to the payer."""
    turn = [ToolCall("8", "handoff_to_payer", {"reason": "money"}), ToolCall("9", "note", {"text": "w"})]
    front = Agent("front", _checked(world, turn), [noting(world)])
    return Swarm("desk", [front, _payer(world)], checkpointer=store)


def as_a_tool(world, store):
    """The agent is a tool of another."""
    script = [ToolCall("1", "payer", {"input": "pay"}), "all done"]
    return Agent("outer", _checked(world, *script), [RunnerTool(_payer(world), "Pays.")], checkpointer=store)


def third_level(world, store):
    """A chain around a supervisor around a swarm whose second agent pays."""
    script = [ToolCall("1", "delegate_to_desk", {"task": "pay"}), "all done"]
    boss = Supervisor("boss", _checked(world, *script), [Worker(swarmed(world, None))])
    flow = Chain("flow", store).add_node("first", world.step("first")).add_node("team", boss, output_key="said")
    return flow.add_node("last", world.step("last")).connect("first", "team").connect("team", "last")


def two_tasks(world, store):
    """Two tasks for one worker in one turn, and a third in the next."""
    both = [ToolCall(str(n), "delegate_to_writer", {"task": f"task {n}"}) for n in range(2)]
    script = [both, ToolCall("2", "delegate_to_writer", {"task": "task 2"}), "all done"]
    echo = Agent("writer", _checked(world, ToolCall("1", "echo"), "written"), [_echo(world)])
    return Supervisor("boss", _checked(world, *script), [Worker(echo)], checkpointer=store)


def _echo(world):
    def echo() -> str:
        world.mark("echo")
        return "echo"

    return tool(flavoured(world, echo))


def two_tasks_unstored(world, store):
    """The same, kept nowhere."""
    team = two_tasks(world, store)
    team._given = False
    return team


def failing(world, store):
    """A chain whose middle node is a team in which a worker's model fails."""

    class Down:
        def complete(self, request):
            world.check("line")
            return TestModel("up").complete(request)

    script = [ToolCall("1", "delegate_to_w", {"task": "x"}), "all done"]
    boss = Supervisor("boss", TestModel(script), [Worker(Agent("w", Down()))])
    flow = Chain("flow", store).add_node("first", world.step("first")).add_node("team", boss, output_key="said")
    return flow.add_node("last", world.step("last")).connect("first", "team").connect("team", "last")


def bytes_from_a_tool(world, store):
    """A worker whose tool returns bytes while `bytes` is broken, else a text."""

    def look() -> object:
        world.mark("look")
        return b"x" if world.broken("bytes") else "text"

    worker = Agent("w", TestModel([ToolCall("1", "look"), "seen"]), [tool(flavoured(world, look))])
    script = [ToolCall("1", "delegate_to_w", {"task": "x"}), "all done"]
    return Supervisor("boss", asked(world, TestModel(script)), [Worker(worker)], checkpointer=store)
