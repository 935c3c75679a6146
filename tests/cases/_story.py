"""The chains of the cases, each built from a world and a store, so that any process builds the same one."""

from __future__ import annotations

import os
from functools import partial
from types import SimpleNamespace

import fastdur
from fastdur import Chain


def line(world, store, name, **steps):
    """Nodes one after another; each value is the keywords of its step."""
    chain = Chain(name, checkpointer=store)
    for place, (node, keywords) in enumerate(steps.items()):
        chain.add_node(node, world.step(node, **keywords))
        if place:
            chain.connect([*steps][place - 1], node)
    return chain


def three(world, store):
    return line(world, store, "three", a={}, b={"pays": True}, c={})


def five(world, store):
    return line(world, store, "five", a={}, b={"pays": True}, c={"pays": True}, d={}, e={"pays": True})


def asking(world, store):
    """The middle one of three asks, and pays before and after is somebody else's business."""
    return line(world, store, "asking", a={}, b={"asks": ("ok?",)}, c={"pays": True})


def asking_twice(world, store):
    return line(world, store, "asking twice", a={}, b={"asks": ("first?", "second?")}, c={"pays": True})


def asking_first(world, store):
    """Its only node asks, so that a pause is its first row."""
    return line(world, store, "asking first", b={"asks": ("ok?",)})


def asking_thrice(world, store):
    """A chain in a chain in a chain; the innermost asks three times."""
    inner = line(world, store, "inner", x={}, y={"asks": ("1?", "2?", "3?")}, z={"pays": True})
    middle = Chain("middle").add_node("m", world.step("m")).add_node("in", inner).connect("m", "in")
    outer = Chain("outer", checkpointer=store).add_node("o", world.step("o")).add_node("mid", middle)
    return outer.add_node("end", world.step("end")).connect("o", "mid").connect("mid", "end")


def each_level(world, store):
    """Every level of a nesting asks a question of its own before it goes further down."""
    low = line(world, store, "low", l={"asks": ("low?",)})
    middle = Chain("middle").add_node("m", world.step("m", asks=("middle?",))).add_node("low", low)
    middle.connect("m", "low")
    top = Chain("top", checkpointer=store).add_node("t", world.step("t", asks=("top?",)))
    return top.add_node("mid", middle).connect("t", "mid")


def child_asks_twice(world, store):
    """A parent around a child of which two nodes ask."""
    child = line(world, store, "child", c1={"asks": ("Q1",)}, c2={"asks": ("Q2",)})
    parent = Chain("parent", checkpointer=store).add_node("p", world.step("p")).add_node("child", child)
    return parent.add_node("q", world.step("q", pays=True)).connect("p", "child").connect("child", "q")


def _rounds(state):
    return {"round": state.get("round", 0) + 1}


def four_rounds(world, store):
    """A cycle that needs four rounds, and a publish step behind it."""
    return rounds(world, store, needs=4, bound=5)


def endless(world, store):
    """A cycle that never has enough: its bound of five entries trips."""
    return rounds(world, store, needs=1_000, bound=4)


def asking_round(world, store):
    """The same, its third round pausing."""
    asked = world.step("work", asks=("go on?",), does=_rounds)
    plain = world.step("work", does=_rounds)

    def work(state):
        return (asked if state.get("round", 0) == 2 else plain)(state)

    async def awaited(state):
        return await work(state)

    return rounds(world, store, needs=1_000, bound=4, work=awaited if world.flavour == "async" else work)


def rounds(world, store, *, needs, bound, work=None):
    chain = Chain("rounds", checkpointer=store)
    chain.add_node("work", work or world.step("work", does=_rounds)).add_node(
        "publish", world.step("publish", pays=True)
    )
    chain.connect("work", "work", when=lambda state: state["round"] < needs, max_iterations=bound)
    return chain.connect("work", "publish")


def routed(world, store):
    """A router sends the run to `refuse`; a second look would send it to `pay`."""

    def bad(_state):
        world.mark("route")
        return world.count("route") == 1

    chain = Chain("routed", checkpointer=store).add_node("judge", world.step("judge"))
    chain.add_node("refuse", world.step("refuse")).add_node("pay", world.step("pay", pays=True))
    return chain.connect("judge", "refuse", when=bad).connect("judge", "pay")


def fanned(world, store):
    """Start fans out to a, b and c, which join."""
    return _fan(world, store, {})


def fanned_asking(world, store):
    """The same, b asking."""
    return _fan(world, store, {"asks": ("ok?",)})


def _fan(world, store, b):
    chain = Chain("fanned", checkpointer=store)
    for node in ("start", "a", "b", "c", "join"):
        chain.add_node(node, world.step(node, pays=node != "start", **(b if node == "b" else {})))
    for node in "abc":
        chain.connect("start", node)
    for node in "abc":
        chain.connect(node, "join")
    return chain


def two_levels(world, store):
    """A nested chain of three between two nodes."""
    return _two_levels(world, store)


def two_levels_with_input(world, store):
    """The same, its input function breakable."""

    def given(state):
        world.mark("input")
        world.check("input")
        return {"path": state["path"]}

    return _two_levels(world, store, input=given)


def _two_levels(world, store, **keywords):
    child = line(world, store, "child", x={}, y={"pays": True}, z={})
    parent = Chain("parent", checkpointer=store).add_node("p", world.step("p")).add_node("child", child, **keywords)
    return parent.add_node("q", world.step("q", pays=True)).connect("p", "child").connect("child", "q")


def asking_renamed(world, store):
    """`asking` with its middle node under another name."""
    return line(world, store, "asking", a={}, b2={"asks": ("ok?",)}, c={"pays": True})


def asking_removed(world, store):
    """`asking` without its middle node."""
    return line(world, store, "asking", a={}, c={"pays": True})


def misreturning(world, store):
    """The node in the middle returns a list while it is broken."""
    chain = Chain("misreturning", checkpointer=store).add_node("a", world.step("a"))

    def b(_state):
        return ["a list"] if world.broken("returns") else {}

    async def awaited(state):
        return b(state)

    chain.add_node("b", awaited if world.flavour == "async" else b).add_node("c", world.step("c"))
    return chain.connect("a", "b").connect("b", "c")


def two_levels_with_bad_input(world, store):
    """Its input function returns a list while it is broken."""
    return _two_levels(
        world, store, input=lambda state: ["a list"] if world.broken("input") else {"path": state["path"]}
    )


PACKAGE = [before + name for name in ("decide", "cancel", "delete_execution", "prune") for before in ("", "a")]


def package(_world, store):
    """The functions of the package, as if they were methods of a chain on this store."""
    methods = {name: partial(getattr(fastdur, name), checkpointer=store) for name in PACKAGE}
    return SimpleNamespace(**methods)


def asking_each_round(world, store):
    """A cycle of two rounds, each asking."""
    work = world.step("work", asks=("go on?",), does=_rounds)
    return rounds(world, store, needs=2, bound=4, work=work)


def seven_hundred(world, store):
    """A cycle of 699 rounds and a last step."""

    def count(state):
        world.mark("round")
        return {"round": state.get("round", 0) + 1}

    async def acount(state):
        return count(state)

    chain = Chain("seven hundred", checkpointer=store).add_node("round", acount if world.flavour == "async" else count)
    chain.add_node("last", world.step("last")).connect("round", "last")
    return chain.connect("round", "round", when=lambda state: state["round"] < 699, max_iterations=700)


def routed_breakable(world, store):
    """A router that raises while it is broken."""

    def bad(_state):
        world.check("route")
        return True

    chain = Chain("routed", checkpointer=store).add_node("judge", world.step("judge"))
    chain.add_node("refuse", world.step("refuse")).add_node("pay", world.step("pay", pays=True))
    return chain.connect("judge", "refuse", when=bad).connect("judge", "pay")


def three_passes(world, store):
    """A loop whose exit condition says what it sees."""

    def more(state):
        world.mark(f"saw {state['round']}")
        return state["round"] < 3

    chain = Chain("passes", checkpointer=store).add_node("work", world.step("work", does=_rounds))
    chain.add_node("publish", world.step("publish", pays=True)).connect("work", "publish")
    return chain.connect("work", "work", when=more, max_iterations=5)


def tricky(world, store):
    """It moves values about and takes its route from the state."""

    def second(state):
        return {"list": [*state["list"], state["value"]], "again": state["value"]}

    chain = Chain("tricky", checkpointer=store).add_node("first", world.step("first"))
    chain.add_node("second", world.step("second", does=second)).connect("first", "second")
    for route in ("pay", "refuse"):
        chain.add_node(route, world.step(route))
        chain.connect("second", route, when=lambda state, route=route: state["route"] == route)
    return chain


def paying_and_asking(world, store):
    """The middle one of three pays and then asks."""
    return line(world, store, "paying and asking", a={}, b={"pays": True, "asks": ("ok?",)}, c={"pays": True})


def stubborn(world, store):
    """Its node catches whatever its effects raise and tries others, which each process has of its own."""

    tries = ("x", "x", "y", "z")

    def failed(what, error):
        world.mark(f"{type(error).__name__} for {what}")

    def b(state):
        for what in tries:
            try:
                world.pay(f"{what} {os.getpid()}")
            except Exception as error:
                failed(what, error)
        return {"path": [*state["path"], "b"]}

    async def awaited(state):
        for what in tries:
            try:
                await world.pay(f"{what} {os.getpid()}")
            except Exception as error:
                failed(what, error)
        return {"path": [*state["path"], "b"]}

    chain = Chain("stubborn", checkpointer=store).add_node("a", world.step("a"))
    chain.add_node("b", awaited if world.flavour == "async" else b).add_node("c", world.step("c", pays=True))
    return chain.connect("a", "b").connect("b", "c")


def catching(world, store):
    """Its nodes catch every exception of their effects and go on."""

    def b(state):
        world.mark("b")
        try:
            paid = world.pay("b")
        except Exception as error:
            paid = str(error)
        return {"path": [*state["path"], "b"], "paid": paid}

    async def awaited(state):
        world.mark("b")
        try:
            paid = await world.pay("b")
        except Exception as error:
            paid = str(error)
        return {"path": [*state["path"], "b"], "paid": paid}

    chain = Chain("catching", checkpointer=store).add_node("a", world.step("a"))
    chain.add_node("b", awaited if world.flavour == "async" else b).add_node("c", world.step("c", pays=True))
    return chain.connect("a", "b").connect("b", "c")


def calling(world, store):
    """A node that starts a run of its own, which pays and asks; then a node that asks."""
    child = line(world, store, "child", x={"pays": True}, y={"asks": ("child?",)})

    def call(state):
        world.mark("call")
        return {"path": [*state.get("path", ()), "call"], "child": child.execute({}).status}

    async def acall(state):
        world.mark("call")
        return {"path": [*state.get("path", ()), "call"], "child": (await child.aexecute({})).status}

    chain = Chain("calling", checkpointer=store).add_node("call", acall if world.flavour == "async" else call)
    return chain.add_node("b", world.step("b", asks=("ok?",))).connect("call", "b")


def called(world, store):
    """The run that the node of `calling` starts, by itself."""
    return line(world, store, "child", x={"pays": True}, y={"asks": ("child?",)})


def paying_inside(world, store):
    """A chain in a chain: the inner one pays and then asks."""
    inner = line(world, store, "inner", x={"pays": True}, y={"asks": ("ok?",)})
    outer = Chain("outer", checkpointer=store).add_node("o", world.step("o", pays=True)).add_node("in", inner)
    return outer.add_node("end", world.step("end", pays=True)).connect("o", "in").connect("in", "end")
