"""Teams for tests: one agent whose tool needs approval, and every form in which it can be used."""

from __future__ import annotations

from fastdur import (
    Agent,
    Chain,
    FunctionModel,
    Resume,
    RunnerTool,
    Supervisor,
    Swarm,
    TestModel,
    ToolCall,
    Usage,
    Worker,
    tool,
)

RUN = "r"
YES = Resume(approved=True)
NO = Resume(approved=False, metadata={"reason": "too much"})
COST = Usage(10, 1)


class Ledger(list):
    """What was really done."""

    def charge(self):
        @tool(needs_approval=True)
        def charge(amount: int) -> str:
            self.append(("charge", amount))
            return f"charged {amount}"

        return charge

    def note(self):
        @tool
        def note(text: str) -> str:
            self.append(("note", text))
            return f"noted {text}"

        return note


def scripted(*script):
    return TestModel([*script], usage=COST)


def called(number, name, **arguments):
    return ToolCall(f"c{number}", name, arguments)


def payer(ledger, *amounts, store=None, **options):
    """An agent that charges these amounts, one a turn, each with approval."""
    script = [called(n, "charge", amount=amount) for n, amount in enumerate(amounts or (5,))]
    return Agent("payer", scripted(*script, "paid"), [ledger.charge()], checkpointer=store, **options)


def writer(ledger, store=None):
    """An agent that notes its task, and says it louder."""

    def say(messages):
        task = next(message.content for message in messages if message.role == "user")
        return called(0, "note", text=task) if messages[-1].role == "user" else task.upper()

    return Agent("writer", FunctionModel(say, usage=COST), [ledger.note()], checkpointer=store)


def boss(ledger, *script, store=None, workers=None, **options):
    """A supervisor of both."""
    team = [Worker(writer(ledger), "writer", "Writes."), Worker(payer(ledger), "money", "Pays.")]
    return Supervisor("boss", scripted(*script, "all done"), workers or team, checkpointer=store, **options)


def desk(ledger, store=None, *, first=(), second=(), **options):
    """A swarm in which the front hands over to the payer."""
    front = Agent("front", scripted(*(first or (called(9, "handoff_to_payer", reason="money"),)), "bye"))
    back = payer(ledger)
    if second:
        back.model = scripted(*second)
    return Swarm("desk", [front, back], checkpointer=store, **options)


FORMS = {
    "alone": (lambda ledger, store: payer(ledger, store=store), "agent:payer/tool:charge", "turn:0/tool:charge"),
    "worker": (
        lambda ledger, store: boss(ledger, called(0, "delegate_to_money", task="pay"), store=store),
        "supervisor:boss/worker:money/tool:charge",
        "turn:0/tool:delegate_to_money/turn:0/tool:charge",
    ),
    "swarm": (desk, "swarm:desk/agent:payer/tool:charge", "payer/turn:0/tool:charge"),
    "tool": (
        lambda ledger, store: Agent(
            "outer",
            scripted(called(0, "payer", input="pay"), "all done"),
            [RunnerTool(payer(ledger), "Pays.")],
            checkpointer=store,
        ),
        "agent:outer/agent:payer/tool:charge",
        "turn:0/tool:payer/turn:0/tool:charge",
    ),
    "node": (
        lambda ledger, store: Chain("flow", store).add_node("team", payer(ledger)),
        "chain:flow/agent:payer/tool:charge",
        "team/turn:0/tool:charge",
    ),
    "swarm in a worker in a chain": (
        lambda ledger, store: Chain("flow", store).add_node(
            "team",
            boss(ledger, called(0, "delegate_to_desk", task="pay"), workers=[Worker(desk(ledger))]),
        ),
        "chain:flow/supervisor:boss/worker:desk/agent:payer/tool:charge",
        "team/turn:0/tool:delegate_to_desk/payer/turn:0/tool:charge",
    ),
}
"""Each form with the agent path and the address at which it asks."""


def ids(store, run=RUN):
    return [row.node_id for row in store.list(run)]
