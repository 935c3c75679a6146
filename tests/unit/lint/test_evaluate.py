"""How names are followed: through imports, classes, containers, arguments, results."""

from __future__ import annotations

from textwrap import dedent

import pytest

from tests.unit.lint.linting import check

WAYS = {
    "import as": "fd.Chain('c').add_node('n', node)",
    "the module of the class": "fastdur.chain.Chain('c').add_node('n', node)",
    "from the module": "Direct('c').add_node('n', fn=node)",
    "a factory": """
        def make():
            return fd.Chain("c")
        make().add_node("n", node)
        """,
    "a parameter": """
        def given(chain):
            chain.add_node("n", node)
        given(fd.Chain("c"))
        """,
    "an annotation": """
        def annotated(chain: "fd.Chain | None", other: "no type(", third: node):
            other.add_node("n", third.x)
            chain.add_node("n", node)
        """,
    "an annotated name": """
        chain: fd.Chain
        chain.add_node("n", node)
        """,
    "a subclass": """
        class Flow(fd.Chain):
            def __init__(self, name):
                self.add_node("n", node)
        """,
    "an attribute": """
        class Holder:
            def __init__(self):
                self.chain = fd.Chain("c")
            def build(self):
                self.chain.add_node("n", node)
        """,
    "an annotated attribute": """
        class Holder:
            def __init__(self, chain):
                self.chain: fd.Chain = chain
                chain[0]: int = 5
            def build(self):
                self.chain.add_node("n", node)
        """,
    "a field of a dataclass": """
        class Holder:
            chain: fd.Chain
        def build(holder: Holder):
            holder.chain.add_node("n", node)
        """,
    "an attribute of the class": """
        class Holder:
            chain = fd.Chain("c")
        Holder().chain.add_node("n", node)
        """,
    "an attribute of a base": """
        class Base:
            chain = fd.Chain("c")
        class Holder(Base):
            pass
        Holder().chain.add_node("n", node)
        Holder.chain.nothing
        """,
    "a property": """
        class Holder:
            @property
            def ready(self):
                return fd.Chain("c")
        Holder().ready.add_node("n", node)
        """,
    "a static method": """
        class Holder:
            @staticmethod
            def made():
                return fd.Chain("c")
        Holder().made().add_node("n", node)
        Holder.made()
        """,
    "a class method": """
        class Holder:
            @classmethod
            def made(cls):
                return fd.Chain("c")
        Holder.made().add_node("n", node)
        """,
    "a dict": "fd.Chain('c').add_node('n', {'a': node}['a'])",
    "a comprehension": "[fd.Chain('c').add_node(name, each) for name, each in {'n': node}.items()]",
    "comprehensions of every kind": """
        kept = {name: each for name, each in [("n", node)]}
        them = {each for each in kept.values()}
        for one in (each for each in them):
            fd.Chain("c").add_node("n", one)
        """,
    "a loop": """
        chain = fd.Chain("c")
        for name, each in (("n", node),):
            chain = chain.add_node(name, each)
        """,
    "a decorator": """
        def retried(fn):
            @functools.wraps(fn)
            def again(*args):
                return fn(*args)
            return again
        fd.Chain("c").add_node("n", retried(node))
        """,
    "a decorated function": """
        @unknown
        def wrapper(state):
            return node(state)
        fd.Chain("c").add_node("n", wrapper)
        """,
    "partial": "fd.Chain('c').add_node('n', functools.partial(node, 1))",
    "after an edge": "fd.Chain('c').connect('a', 'b').add_node('n', node)",
    "unpacking": """
        (chain, [fn, *rest]), other = (fd.Chain("c"), (node, 1)), 2
        chain.add_node("n", fn)
        """,
    "unpacking a name": """
        both = fd.Chain("c"), node
        chain, *rest = both
        chain.add_node("n", rest[0])
        """,
    "keywords": """
        def keywords(*, fn=None, **more):
            fd.Chain("c").add_node("n", fn)
        keywords(fn=node, other=1, **{})
        """,
    "a default": """
        def default(fn=node):
            fd.Chain("c").add_node("n", fn)
        """,
    "a generator that is a context": """
        @contextlib.contextmanager
        def opened():
            yield fd.Chain("c")
        with opened() as chain:
            chain.add_node("n", node)
        """,
    "an object that is called": """
        class Node:
            def __call__(self, state):
                return node(state)
        class Silent:
            pass
        fd.Chain("c").add_node("n", Node()).add_node("s", Silent()).add_node("m", time)
        fd.Chain("c").add_node("x", Silent()())
        """,
    "a method": """
        class Flow:
            def step(self, state):
                return node(state)
        fd.Chain("c").add_node("n", Flow().step)
        """,
    "carry": "fd.Chain('c').add_node('n', carry(carry(node)))",
    "global": """
        the_chain = None
        def build():
            global the_chain
            the_chain = fd.Chain("c")
            the_chain.add_node("n", node)
        """,
    "an inner function": """
        def deep():
            def inner():
                return fd.Chain("c")
            if (chain := inner()):
                chain.add_node("n", node)
        """,
    "a walrus in a comprehension": """
        [chain := fd.Chain("c") for one in (1,)]
        chain.add_node("n", node)
        """,
    "copies of a list": "fd.Chain('c').add_node('n', list(reversed([node]))[0])",
    "a lambda with defaults": "fd.Chain('c').add_node('n', lambda state, a=1, *, fn=node: fn(state))",
    "lists of lists": """
        handlers = [[node], [print]] if unknown else [[node]]
        fd.Chain("c").add_node("n", handlers[0])
        """,
}


@pytest.mark.parametrize("way", WAYS)
def test_a_node_is_found_however_it_is_handed_over(tmp_path, way):
    head = """
import contextlib, functools, time
import fastdur as fd, fastdur, fastdur.chain
from fastdur import carry
from fastdur.chain import Chain as Direct

def node(state):
    return {"at": time.time()}  #: FDL03

"""
    check(tmp_path, head + dedent(WAYS[way]))


def test_without_being_handed_over_a_function_is_no_node(tmp_path):
    check(tmp_path, "import time\nfrom fastdur import Chain\ndef node(state):\n    return time.time()\n")


def test_an_effect_that_is_a_method_is_recorded_too(tmp_path):
    check(
        tmp_path,
        """
        import requests
        from dataclasses import dataclass
        from fastdur import Chain, effect_key, idempotent

        @dataclass
        class Account:
            client = requests.Session()

            @idempotent(name="charge")
            def charge(self, amount):
                return self.client.post("u", headers={"key": effect_key()}).json()

        def node(state):
            account = Account()
            account.client.post("u")  #: FDL02
            account.charge.plain(1)
            return {"id": account.charge(5)}

        Chain("c").add_node("n", node)
        """,
    )


def test_imports_lead_through_packages_and_reexports(tmp_path):
    check(
        tmp_path,
        {
            "src/shop/__init__.py": """
            from shop.impl import send as deliver
            from .impl import *
            """,
            "src/shop/impl.py": """
            import requests

            def send(to):
                requests.post("u")

            def other(to):
                requests.post("u")
            """,
            "src/shop/deep/__init__.py": "",
            "src/shop/deep/er.py": """
            from ..impl import send
            from .. import impl
            from . import missing
            from .nothing import x

            def far(to):
                send(to)

            def further(to):
                impl.send(to)
            """,
            "tests/test_flow.py": """
            import shop
            import shop.deep.er as er
            from shop.deep import er as same
            from shop.impl import nothing_there
            from fastdur import *

            def node(state):
                shop.deliver("a")  #: FDL02
                shop.other("a")  #: FDL02
                shop.deep.er.far("a")  #: FDL02
                er.further("a")  #: FDL02
                same.far("a")  #: FDL02
                er.missing("a")
                er.x("a")
                nothing_there("a")
                shop.nothing("a")
                print("a")

            Chain("c").add_node("n", node)
            """,
        },
    )


def test_a_package_does_not_look_beside_itself(tmp_path):
    check(
        tmp_path,
        {
            "shop/__init__.py": "",
            "shop/requests.py": "def post(url): ...\n",
            "shop/flow.py": """
            import requests
            from fastdur import Chain

            Chain("c").add_node("n", lambda state: requests.post("u"))  #: FDL02
            """,
        },
    )


def test_what_goes_in_circles_comes_to_an_end(tmp_path):
    check(
        tmp_path,
        {
            "a.py": """
            from b import *
            from b import one
            from fastdur import Chain, interrupt

            def two(state, fn=None):
                one(state, lambda: two(state, fn))
                return two(state, [fn])

            class A(A):
                x = A
                def m(self):
                    return self.nothing.m(self)

            def three(state):
                x = state
                x = x.a.b
                x = [x]
                for x in x:
                    x = x()
                A().m()
                A.other
                A().other()
                return three

            def four(state):
                interrupt("q", {})
                return four(state)

            y = z = y
            unknownDEEP()

            Chain("c").add_node("n", two).add_node("m", three).add_node("o", four)
            """.replace("DEEP", ".b" * 200),
            "b.py": """
            from a import *
            from a import two

            def one(state, fn):
                fn()
                two(state, fn)
            """,
        },
    )


def test_a_function_that_is_called_with_many_others_is_looked_at_once_for_all(tmp_path):
    calls = "\n".join(f"            attempt(lambda: {number})" for number in range(20))
    check(
        tmp_path,
        f"""
        import requests
        from fastdur import Chain

        def attempt(fn):
            return fn()

        def node(state):
{calls}
            return attempt(lambda: requests.post("u"))  #: FDL02

        Chain("c").add_node("n", node)
        """.replace("            attempt(", "            attempt("),
    )


def test_deep_helpers_are_followed_as_far_as_it_makes_sense(tmp_path):
    helpers = "\n".join(f"        def f{number}(state): return f{number + 1}(state)" for number in range(60))
    check(
        tmp_path,
        f"""
        import threading
        from fastdur import Chain, idempotent, interrupt

{helpers}

        @idempotent
        def charge(state): ...

        def f60(state):
            charge(1)
            interrupt("q", {{}})

        def node(state):
            threading.Thread(target=f0).start()
            return f0(state)

        Chain("c").add_node("n", node)
        """,
    )


def test_syntax_of_every_kind_is_read(tmp_path):
    check(
        tmp_path,
        """
        from __future__ import annotations
        import time, fastdur
        from fastdur import Chain

        async def agen(state):
            async for x in state:
                yield x
            yield

        def gen(state):
            got = yield from state
            yield got

        def node(state, /, *args, key=time.time, **kwargs):
            match state:
                case {"a": 1, **rest}:
                    pass
                case [first, *others] as whole:
                    del first
                case _:
                    pass
            try:
                pass
            except ValueError as error:
                print(error)
            for i, (j, *k) in []:
                state.x[i] = j
            x: int
            y: int = 5
            self.z = state.w = 1
            with open("f") as state["f"], open("g") as (a, b):
                pass
            return {"at": key(), "z": {**state}, "s": [c for c in a if c if b]}  #: FDL03

        class K:
            free = lambda: 1
            k: int = 5
            def m():
                nonlocal missing
                return K.free()
            def s(self, *, cls=None):
                self.k = self.free
                return self.free(), self.k(), self.missing

        K().s()
        Chain("c").add_node("n", node).add_node(**{"id": "x"}).add_node("y").add_node(*[1, 2])
        fastdur.idempotent
        fastdur.idempotent()
        fastdur.idempotent(5)
        """,
    )
