"""The rules: what each is about, why it breaks durability, and the way out."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule. `cure` is the way out in a clause, `why`, `wrong` and `right` are its page."""

    code: str
    name: str
    title: str
    cure: str
    why: str
    wrong: str
    right: str


RULES: dict[str, Rule] = {}


def _rule(code: str, name: str, title: str, cure: str, why: str, wrong: str, right: str) -> None:
    RULES[code] = Rule(code, name, title, cure, " ".join(why.split()), wrong.strip("\n"), right.strip("\n"))


_rule(
    "FDL01",
    "effect-before-question",
    "An effect before interrupt() in the same node",
    "put it into a function under @idempotent, or into a node of its own before this one",
    """When the answer comes the node runs again from its top, in another process perhaps. Whatever stands before
    interrupt() and is not recorded happens again: once for the question, once for the answer, and once more for each
    further question of the node. No crash is needed for that.""",
    """
def review(state):
    requests.post(URL, json={"hold": state["amount"]})
    answer = interrupt("release", {"amount": state["amount"]})
    return {"released": answer.approved}
""",
    """
@idempotent(name="hold")
def hold(amount):
    return requests.post(URL, json={"hold": amount}, headers={"Idempotency-Key": effect_key()}).json()


def review(state):
    hold(state["amount"])
    answer = interrupt("release", {"amount": state["amount"]})
    return {"released": answer.approved}
""",
)
_rule(
    "FDL02",
    "effect-in-node",
    "An effect in a node, outside of @idempotent",
    "put it into a function under @idempotent and call that",
    """A node that has begun and whose row is not stored runs again from its top. A process that dies between the call
    and the row repeats the call; so does retry=. Only what is under @idempotent is recorded and answered from its
    record.""",
    """
def pay(state):
    return {"receipt": requests.post(URL, json={"amount": state["amount"]}).json()}
""",
    """
@idempotent(name="charge")
def charge(amount):
    return requests.post(URL, json={"amount": amount}, headers={"Idempotency-Key": effect_key()}).json()


def pay(state):
    return {"receipt": charge(state["amount"])}
""",
)
_rule(
    "FDL03",
    "changing-read",
    "A clock, chance, the environment or the network read in a node",
    "hand it in with the input, or read it in a function under @idempotent: the record then gives the same value again",
    """A node that runs again reads another value. What it has already handed to an effect or shown to a human was made
    from the first one, what it stores is made from the second, and a route may go the other way. In a route the value
    decides which nodes run.""",
    """
def stamp(state):
    return {"due": time.time() + 3600}
""",
    """
@idempotent(name="now")
def now():
    return time.time()


def stamp(state):
    return {"due": now() + 3600}
""",
)
_rule(
    "FDL04",
    "swallowed-pause",
    "A pause that is caught and not passed on",
    "catch Exception, which a pause is not, or raise it again",
    """interrupt() pauses by raising InterruptSignal, a BaseException. Code that catches it and goes on would go on
    without an answer; the run then fails with InterruptSwallowed, after everything that the node still did.""",
    """
def review(state):
    try:
        return {"ok": interrupt("release", {}).approved}
    except BaseException:
        return {"ok": False}
""",
    """
def review(state):
    try:
        return {"ok": interrupt("release", {}).approved}
    except Exception:
        return {"ok": False}
""",
)
_rule(
    "FDL05",
    "call-in-the-wrong-place",
    "A question, a key or a transaction where it is refused",
    "ask in a node, before or after the effect; take effect_key() and transaction() in the body of their effect",
    """A question inside an effect, its key_fn, a when= or an input= could not be answered without repeating or skipping
    what stands around it, so it is refused with InterruptNotAllowed. effect_key() belongs to one effect, so in a node
    it raises ScopeError, and so does transaction() outside of a transactional effect. Inside one another effect would
    be committed apart: InTransaction. The run fails there each time it gets that far.""",
    """
@idempotent(name="charge")
def charge(amount):
    if amount > 100:
        interrupt("over_limit", {"amount": amount})
    return provider.charge(amount, key=effect_key())
""",
    """
@idempotent(name="charge")
def charge(amount):
    return provider.charge(amount, key=effect_key())


def pay(state):
    if state["amount"] > 100:
        interrupt("over_limit", {"amount": state["amount"]})
    return {"charge": charge(state["amount"])}
""",
)
_rule(
    "FDL06",
    "unstorable-effect",
    "An effect whose key or result cannot be stored",
    "pass key_fn= to say what tells two calls apart, make the default immutable, and return plain data",
    """The key of an effect is made of its arguments. A client, a connection, a function or an object of a plain class
    has no form that is the same in another process, so the call is refused with IdempotencyError. A mutable default
    is one object for all calls: once the body changes it, the same call has another key. A result that cannot be
    stored is worse: the body has run, and every replay raises.""",
    """
@idempotent(name="charge")
def charge(client: httpx.Client, amount: int) -> httpx.Response:
    return client.post(URL, json={"amount": amount}, headers={"Idempotency-Key": effect_key()})
""",
    """
@idempotent(name="charge", key_fn=lambda client, amount: amount)
def charge(client: httpx.Client, amount: int) -> dict:
    return client.post(URL, json={"amount": amount}, headers={"Idempotency-Key": effect_key()}).json()
""",
)
_rule(
    "FDL07",
    "changing-key",
    "A key_fn that gives another key the next time",
    "make the key of what identifies the call: an order number, a customer, an amount",
    """The key is how a replay finds the record. A key made of a clock, a random number, an address or a hash of this
    process is another one after a crash: the record is not found and the body runs again.""",
    """
@idempotent(name="mail", key_fn=lambda to: [to, time.time()])
def mail(to): ...
""",
    """
@idempotent(name="mail", key_fn=lambda to: to)
def mail(to): ...
""",
)
_rule(
    "FDL08",
    "key-leaves-out",
    "An effect that closes over what is not in its key",
    "pass it as an argument",
    """What a function has closed over is no part of its key. Where the node runs again with another value, in the
    next turn of a cycle or after modified_state, the call has the same key and is answered with the result for the
    first value.""",
    """
def pay(state):
    @idempotent(name="charge")
    def charge():
        return provider.charge(state["amount"], key=effect_key())

    return {"charge": charge()}
""",
    """
@idempotent(name="charge")
def charge(amount):
    return provider.charge(amount, key=effect_key())


def pay(state):
    return {"charge": charge(state["amount"])}
""",
)
_rule(
    "FDL09",
    "nameless-effect",
    "A lambda or a closure under @idempotent without name=",
    'give it a name of its own: @idempotent(name="...")',
    """Without name= an effect is known by its module and qualname. All lambdas of a function share one, and so do all
    functions that a factory or a loop makes: the second one in a run raises IdempotencyError. Moving the code to
    another function changes the name, and a run that is under way does not find its records any more.""",
    """
def build(provider):
    @idempotent
    def charge(amount):
        return provider.charge(amount, key=effect_key())
""",
    """
def build(provider):
    @idempotent(name="charge")
    def charge(amount):
        return provider.charge(amount, key=effect_key())
""",
)
_rule(
    "FDL10",
    "provider-without-key",
    "An effect that gives its provider no key",
    'hand the provider effect_key(), or say what is meant: on_unknown="raise", a function that asks it, or "rerun"',
    """Between the end of the body and the record of its result a crash leaves nobody who knows whether it happened. By
    default the body then runs again. With effect_key() the provider sees that it is the same call; without it, that
    is a second payment. Where a repeat does no harm, say so: on_unknown="rerun".""",
    """
@idempotent(name="charge")
def charge(amount):
    return requests.post(URL, json={"amount": amount}).json()
""",
    """
@idempotent(name="charge")
def charge(amount):
    return requests.post(URL, json={"amount": amount}, headers={"Idempotency-Key": effect_key()}).json()
""",
)
_rule(
    "FDL11",
    "not-awaited",
    "An async effect or question that is not awaited",
    "await it, or await the task before the node returns",
    """A coroutine that nobody awaits does nothing. A task that nobody awaits goes on after its node has ended, where
    it can begin nothing any more (ScopeEnded), and what it does is not in the run when the process dies.""",
    """
async def pay(state):
    asyncio.create_task(charge(state["amount"]))
""",
    """
async def pay(state):
    return {"charge": await charge(state["amount"])}
""",
)
_rule(
    "FDL12",
    "state-outside-the-state",
    "A node that changes something outside of the state",
    "keep it in the state: what a node returns or changes in place is stored",
    """A variable of the module, of an enclosing function or of an object lives in one process. The process that takes
    over begins with a fresh one, and in the same process a node that runs again changes it twice.""",
    """
drafts = 0


def draft(state):
    global drafts
    drafts += 1
    return {"text": f"draft {drafts}"}
""",
    """
def draft(state):
    drafts = state["drafts"] + 1
    return {"drafts": drafts, "text": f"draft {drafts}"}
""",
)
_rule(
    "FDL13",
    "questions-without-order",
    "Questions asked in an order that is not the same the next time",
    "sort it first: for name in sorted(names)",
    """The k-th call of interrupt() in a visit gets the k-th answer. A set of texts has another order in another
    process, and a folder in another file system: the answer meets another question, and the run fails with
    InterruptMismatch.""",
    """
def clear(state):
    for department in {"legal", "finance"}:
        interrupt(department, {})
""",
    """
def clear(state):
    for department in ("legal", "finance"):
        interrupt(department, {})
""",
)
_rule(
    "FDL14",
    "thread-without-carry",
    "A thread that calls an effect and does not know its run",
    "hand it carry(fn) in place of fn; effects and questions in another process are not possible",
    """The run is known through a context variable, and a new thread begins without it. An effect or a question there
    raises ScopeLost while a run is active, and runs unrecorded once none is.""",
    """
def pay_all(state):
    with ThreadPoolExecutor() as pool:
        return {"ids": list(pool.map(charge, state["amounts"]))}
""",
    """
def pay_all(state):
    with ThreadPoolExecutor() as pool:
        return {"ids": list(pool.map(carry(charge), state["amounts"]))}
""",
)
_rule(
    "FDL90",
    "unused-suppression",
    "A suppression that suppresses nothing",
    "take it out",
    """What was suppressed is gone, or stands elsewhere now. A comment that stays would hide the next mistake in that
    line.""",
    """
def add(state):
    return {"n": state["n"] + 1}  # fastdur: ignore[FDL03] the clock is only shown
""",
    """
def add(state):
    return {"n": state["n"] + 1}
""",
)
_rule(
    "FDL91",
    "malformed-suppression",
    "A suppression without known codes or without a reason",
    "write # fastdur: ignore[FDL03] and why, in the line of the finding or in the line above it",
    """A suppression says which rule is meant, so that it hides nothing else, and why, so that the next reader can tell
    whether it still holds. One that does not is ignored.""",
    """
def stamp(state):
    return {"shown_at": time.time()}  # fastdur: ignore
""",
    """
def stamp(state):
    return {"shown_at": time.time()}  # fastdur: ignore[FDL03] only for the screen, nothing is decided by it
""",
)

ALWAYS = frozenset({"FDL90", "FDL91"})
"""Rules about the linter's own comments: nothing suppresses them."""


def explained(code: str) -> str:
    """The page of a rule as text."""
    rule = RULES[code]
    return "\n".join(
        [
            f"{rule.code} {rule.name}: {rule.title}",
            "",
            rule.why,
            "",
            "Wrong:",
            "",
            *_indented(rule.wrong),
            "",
            "Right:",
            "",
            *_indented(rule.right),
            "",
            f"Way out: {rule.cure}.",
        ]
    )


def _indented(code: str) -> list[str]:
    return [f"    {line}".rstrip() for line in code.splitlines()]
