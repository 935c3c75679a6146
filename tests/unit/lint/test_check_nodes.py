"""What is found in nodes, in routes, and in what they call."""

from __future__ import annotations

import pytest

from fastdur.lint._config import Config
from tests.unit.lint.linting import check


def test_an_effect_before_a_question_is_worse_than_one_without(tmp_path):
    messages = check(
        tmp_path,
        """
        import requests
        from fastdur import Chain, interrupt

        def review(state):
            requests.post("https://x", json=state)  #: FDL01
            answer = interrupt("release", {})
            requests.post("https://x", json={"ok": answer.approved})  #: FDL02

        chain = Chain("c").add_node("review", review)
        """,
    )
    assert messages[0] == (
        "node 'review' sends an HTTP request (requests.post) before it asks with interrupt(), so again when the answer comes."
    )
    assert (
        messages[1]
        == "node 'review' sends an HTTP request (requests.post) outside of @idempotent, so again after a crash."
    )


def test_the_way_leads_through_helpers_and_ends_in_the_file_of_the_node(tmp_path):
    messages = check(
        tmp_path,
        {
            "shop/__init__.py": "",
            "shop/flow.py": """
            from fastdur import Chain
            from shop import mail
            from .bank import Bank

            def tell(state):
                mail.send(state["to"])  #: FDL02

            def pay(state):
                tell(state)
                return {"id": Bank("x").charge(5)}  #: FDL02

            Chain("c").add_node("pay", pay)
            """,
            "shop/mail.py": """
            import smtplib

            def send(to):
                with smtplib.SMTP("localhost") as smtp:
                    smtp.sendmail("a", [to], "text")
            """,
            "shop/bank.py": """
            from httpx import Client

            class Base:
                def __init__(self, url):
                    self.client = Client(base_url=url)

                def _ask(self, method, amount):
                    return self.client.request(method, "/charges", json={"amount": amount})

            class Bank(Base):
                def charge(self, amount):
                    return self._ask("POST", amount)
            """,
        },
    )
    assert messages[0].endswith(
        "Way: pay > tell (shop/flow.py:10) > send (shop/flow.py:7) > smtplib.SMTP.sendmail.".replace(
            "shop/", str(tmp_path / "shop") + "/"
        )
    )
    assert "charge" in messages[1]


def test_what_is_recorded_or_runs_plainly_on_purpose_is_right(tmp_path):
    check(
        tmp_path,
        """
        import requests
        from fastdur import Chain, effect_key, idempotent, interrupt

        @idempotent
        def charge(amount):
            return requests.post("https://x", json={"amount": amount, "key": effect_key()}).json()

        def pay(state):
            interrupt("ok?", {})
            charge.plain(1)
            return {"id": charge(state["amount"])}

        @idempotent(name="whole")
        def whole(state):
            return requests.post("https://x", headers={"Idempotency-Key": effect_key()}).json()

        chain = Chain("c").add_node("pay", pay).add_node("whole", whole)
        plain = idempotent(name="plain", on_unknown="raise")(requests.post)
        """,
    )


def test_order_in_a_node_follows_its_branches_loops_and_ways_out(tmp_path):
    check(
        tmp_path,
        """
        from fastdur import Chain, interrupt
        import subprocess as sp

        def branches(state):
            if state["a"]:
                sp.run(["one"])  #: FDL01
            else:
                interrupt("q", {})
            if state["b"]:
                sp.run(["two"])  #: FDL02
                return
            elif sp.run(["test"]):  #: FDL01
                raise ValueError(sp.run(["raised"]))  #: FDL02
            interrupt("q", {})
            match state["c"]:
                case sp.x if sp.run(["guard"]): #: FDL02
                    pass
                case [*rest]:
                    sp.run(rest)  #: FDL01
                case other:
                    other = 1
            interrupt("again", {})
            def later():
                sp.run(["never called"])
            class Local:
                pass

        def loops(state):
            for one in state["many"]:
                interrupt("q", {})
                if one == 1:
                    continue
                if one == 2:
                    sp.run(["last"])  #: FDL02
                    break
                sp.run([one])  #: FDL01
            else:
                sp.run(["no turn"])  #: FDL02
            while state["more"]:
                sp.run(["turn"])  #: FDL02

        def tries(state):
            with sp.Popen(["a"]) as process:  #: FDL01
                try:
                    sp.run(["b"])  #: FDL01
                except ValueError:
                    interrupt("q", {})
                else:
                    sp.run(["c"])  #: FDL01
                finally:
                    sp.run(["d"])  #: FDL01
            try:
                return sp.run(["e"])  #: FDL01
            finally:
                interrupt("last", {})

        def comprehended(state):
            return {"all": [(sp.run([one]), interrupt("q", {})) for one in state["many"]]}  #: FDL01

        async def waits(state):
            async with state["lock"]:
                async for one in state["many"]:
                    await sp.run([one])  #: FDL02

        chain = Chain("c")
        for each in (branches, loops, tries, comprehended, waits):
            chain.add_node(each.__name__, each)
        chain.add_node("lambda", lambda state: {"a": sp.run(["x"]), "b": interrupt("q", {})})  #: FDL01
        """,
    )


@pytest.mark.parametrize(
    "call",
    [
        "httpx.post('u')",
        "httpx.Client().patch('u')",
        "requests.Session().delete('u')",
        "requests.session().request('POST', 'u')",
        "urllib.request.urlopen('u', data=b'x')",
        "urlopen(request)",
        "boto3.client('s3').put_object(Bucket='b')",
        "boto3.resource('sqs').Queue('q').send_message()",
        "stripe.PaymentIntent.create(amount=1)",
        "stripe.StripeClient('k').v1.charges.create({})",
        "twilio.rest.Client().messages.create(to='x')",
        "sendgrid.SendGridAPIClient().send(m)",
        "openai.OpenAI().chat.completions.create(model='m')",
        "anthropic.Anthropic().messages.create(model='m')",
        "aiohttp.request('POST', 'u')",
        "cursor.execute('INSERT INTO t VALUES (1)')",
        "cursor.execute(f'UPDATE {table} SET n = 1')",
        "cursor.execute('WITH x AS (SELECT 1) DELETE FROM t')",
        "cursor.executemany(STATEMENT, rows)",
        "cursor.execute(text('DROP TABLE t'))",
        "cursor.execute(sql.SQL('UPDATE t').format())",
        "cursor.execute(sql.SQL('INSERT INTO {}').format(name))",
        "cursor.execute('INSERT INTO ' + table)",
        "open('f', 'w').write('x')",
        "open('f', mode='ab')",
        "Path('f').open('w')",
        "Path('f').write_text('x')",
        "os.remove('f')",
        "shutil.copy('a', 'b')",
        "subprocess.check_output(['a'])",
        "asyncio.create_subprocess_exec('a')",
        "functools.partial(requests.post, 'u')()",
        "typing.cast(requests.Session, requests.Session()).post('u')",
        "session.post('u')",
        "maybe.post('u')",
        "[requests.post][0]('u')",
        "(requests.post if state else requests.put)('u')",
        "(state or requests.post)('u')",
        "{'a': requests.post}.get('a')('u')",
        "retry(lambda: requests.post('u'))",
        "max(requests.post('u'), key=len)",
        "(f := requests.post)('u')",
    ],
)
def test_known_libraries_are_recognised(tmp_path, call):
    check(
        tmp_path,
        f"""
        import aiohttp, anthropic, asyncio, boto3, functools, httpx, openai, os, requests, sendgrid, shutil, stripe
        import subprocess, twilio.rest, typing, urllib.request
        from pathlib import Path
        from typing import Annotated, Optional
        from urllib.request import urlopen
        from sqlalchemy import text
        from psycopg import sql
        from fastdur import Chain
        STATEMENT = "INSERT INTO t VALUES (%s)"

        def node(state, session: "requests.Session | None" = None, maybe: Annotated[Optional[httpx.Client], 1] = None):
            return {{"x": {call}}}  #: FDL02

        Chain("c").add_node("n", node)
        """,
    )


@pytest.mark.parametrize(
    "call",
    [
        "open('f')",
        "open('f', mode)",
        "cursor.execute('SELECT 1')",
        "cursor.execute('INSERT INTO t VALUES (1) ON CONFLICT DO NOTHING')",
        "cursor.execute('insert or ignore into t values (1)')",
        "cursor.execute('CREATE TABLE IF NOT EXISTS t (n)')",
        "cursor.execute(state['sql'])",
        "cursor.execute(unknown)",
        "cursor.execute(state)",
        "cursor.execute()",
        "cursor.execute(1 + 2)",
        "time.perf_counter()",
        "time.strftime('%Y', state['at'])",
        "time.localtime(state['at'])",
        "datetime.fromisoformat(state['at'])",
        "uuid.uuid5(uuid.NAMESPACE_DNS, 'x')",
        "random.Random(4).random()",
        "seeded()",
        "log.info('at %s', time.time())",
        "print(f'{time.time()}')",
        "log.info(os.environ['A'])",
        "unknown.post('u')",
        "state['client'].post('u')",
        "hasattr(requests, 'post')",
        "mystery(*args)",
        "Chain('inner').add_node('x', other).execute({})",
    ],
)
def test_what_does_no_harm_is_left_alone(tmp_path, call):
    check(
        tmp_path,
        f"""
        import datetime as dt, logging, os, random, requests, time, uuid
        from datetime import datetime
        from fastdur import Chain

        log = logging.getLogger(__name__)

        def seeded():
            dice = random.Random(5)
            return dice.random()

        def other(state):
            return {{}}

        def node(state):
            return {{"x": {call}}}

        Chain("c").add_node("n", node)
        """,
    )


@pytest.mark.parametrize(
    "read",
    [
        "time.time()",
        "now()",
        "dt.datetime.now(dt.UTC)",
        "datetime.utcnow()",
        "dt.date.today()",
        "time.strftime('%Y')",
        "time.localtime()",
        "random.random()",
        "choice([1, 2])",
        "random.Random()",
        "random.Random().random()",
        "dice.random()",
        "made()",
        "uuid.uuid4()",
        "secrets.token_hex()",
        "os.urandom(4)",
        "os.getenv('A')",
        "os.environ['A']",
        "os.environ.get('A')",
        "environ['A']",
        "'A' in os.environ",
        "os.getpid()",
        "socket.gethostname()",
        "hash('x')",
        "id(state)",
        "requests.get('u')",
        "requests.request('GET', 'u')",
        "urlopen('u')",
        "http.client.HTTPConnection('h').request('GET', '/')",
        "helper()",
    ],
)
def test_what_reads_otherwise_the_next_time_is_found(tmp_path, read):
    check(
        tmp_path,
        f"""
        import datetime as dt, http.client, os, random, requests, secrets, socket, time, uuid
        from datetime import datetime
        from os import environ
        from random import choice
        from time import time as now
        from urllib.request import urlopen
        from fastdur import Chain

        dice = random.Random(1)

        def made():
            dice = random.Random()  #: {"FDL03" if read == "made()" else ""}
            return dice.random()  #: {"FDL03" if read == "made()" else ""}

        def helper():
            return now()  #: {"FDL03" if read == "helper()" else ""}

        def node(state):
            return {{"x": {read}}}  #: {"FDL03" if read not in ("made()", "helper()") else ""}

        Chain("c").add_node("n", node)
        """,
    )


def test_the_environment_in_another_file_is_found_at_the_call(tmp_path):
    (message,) = check(
        tmp_path,
        {
            "flow.py": """
            from fastdur import Chain
            import settings

            Chain("c").add_node("n", lambda state: {"at": settings.url()})  #: FDL03
            """,
            "settings.py": """
            import os

            def url():
                return os.environ["URL"]
            """,
        },
    )
    assert "Way: <lambda> > url (" in message


def test_a_route_and_an_input_are_held_to_the_same(tmp_path):
    messages = check(
        tmp_path,
        """
        import time
        from fastdur import Chain, effect_key, interrupt

        def late(state):
            return time.time() > 5  #: FDL03

        def first(state):
            interrupt("q", {})  #: FDL05
            return {}

        def ask(state):
            return interrupt("q", {})  #: FDL05

        def keyed(state):
            return {"key": effect_key()}  #: FDL05

        inner = Chain("inner").add_node("keyed", keyed)
        chain = Chain("c").add_node(id="a", fn=inner, input=first)
        chain.add_node(name, inner).connect("a", "b", late).connect(source="a", target="c", when=ask)
        """,
    )
    assert messages[0].startswith("when= of edge 'a' -> 'b' reads the clock (time.time)")
    assert messages[1].startswith("input= of node 'a' asks with interrupt()")


def test_state_outside_of_the_state_is_found(tmp_path):
    check(
        tmp_path,
        """
        from collections import defaultdict
        from itertools import count
        from fastdur import Chain, interrupt

        SEEN = []
        CACHE: dict = {}
        TOTALS = defaultdict(int)
        LIMITS = (1, 2)
        numbers = count(1)
        n = 0

        def generated():
            yield 1

        def node(state):
            global n
            n += 1  #: FDL12
            SEEN.append(state["a"])  #: FDL12
            CACHE["a"] = 1  #: FDL12
            del CACHE["b"]  #: FDL12
            TOTALS["a"] += 1  #: FDL12
            next(numbers)  #: FDL12
            next(STREAM)  #: FDL12
            next(iter(state))
            state["list"].append(1)
            state["k"] = 1
            own = []
            own.append(1)
            own[0] = 2
            LIMITS.index(1)
            LIMITS.clear()
            unknown.append(1)
            unknown["k"] = 1
            parts = [each.append(1) for each in state]
            helper(own)
            def inner():
                nonlocal own
                own = [1]
                own.append(2)
            inner()
            return {"n": n}

        STREAM = generated()

        def helper(given):
            given.append(1)

        def outer():
            found = {}
            counted = 0
            def node2(state):
                nonlocal counted
                counted = 1  #: FDL12
                found.update(a=1)  #: FDL12
            return node2

        class Flow:
            tries = 0
            def __init__(self):
                self.ready = False
            def step(self, state):
                self.tries += 1  #: FDL12
                state.x = 1
                self.helper()
            def helper(self):
                self.other = 1
            @staticmethod
            def free(state):
                return {}

        Chain("c").add_node("n", node).add_node("o", outer()).add_node("m", Flow().step).add_node("f", Flow.free)
        """,
    )


def test_a_thread_needs_carry_where_it_needs_its_run(tmp_path):
    messages = check(
        tmp_path,
        """
        import asyncio, threading
        from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
        from functools import partial
        from multiprocessing import Process
        from fastdur import Chain, carry, effect_key, fence, idempotent, interrupt

        @idempotent(name="charge")
        def charge(amount):
            return amount

        def indirect(amount):
            return charge(amount)

        def harmless(amount):
            return amount

        def node(state):
            with ThreadPoolExecutor() as pool, ProcessPoolExecutor() as processes:
                pool.submit(charge, 1)  #: FDL14
                pool.submit(carry(charge), 1)
                pool.map(indirect, [1])  #: FDL14
                pool.submit(lambda: charge(1))  #: FDL14
                pool.submit(harmless, 1)
                pool.submit(partial(carry(indirect), 1))
                pool.submit(charge.plain, 1)
                processes.submit(carry(charge), 1)  #: FDL14
            threading.Thread(target=indirect, args=(1,)).start()  #: FDL14
            threading.Thread(target=carry(indirect)).start()

        async def anode(state):
            loop = asyncio.get_running_loop()
            await loop.run_in_executor(None, charge, 1)  #: FDL14
            await state["loop"].run_in_executor(None, indirect, 1)  #: FDL14
            await asyncio.to_thread(charge, 1)

        @idempotent(name="outer")
        def outer(amount):
            threading.Thread(target=inside).start()  #: FDL14

        def inside():
            return fence()

        Chain("c").add_node("n", node).add_node("a", anode)
        """,
    )
    assert "a lambda that needs its run" in messages[2]
    assert "to another process (concurrent.futures.ProcessPoolExecutor.submit)" in messages[3]


def test_a_helper_that_starts_threads_is_not_blamed_for_what_it_is_handed(tmp_path):
    check(
        tmp_path,
        """
        from concurrent.futures import ThreadPoolExecutor
        from fastdur import Chain, carry, idempotent

        def each(fn, many):
            with ThreadPoolExecutor() as pool:
                return list(pool.map(fn, many))

        @idempotent(name="charge")
        def charge(amount):
            return amount

        chain = Chain("c").add_node("right", lambda state: {"x": each(carry(charge), [1])})
        chain.add_node("wrong", lambda state: {"x": each(charge, [1])})  #: FDL14
        """,
    )


def test_what_is_async_is_awaited(tmp_path):
    messages = check(
        tmp_path,
        """
        import asyncio
        from fastdur import Chain, idempotent, interrupt

        @idempotent(name="charge")
        async def charge(amount):
            return amount

        async def ask():
            return interrupt("q", {})

        async def harmless():
            return 1

        async def node(state):
            charge(1)  #: FDL11
            ask().approved  #: FDL11
            harmless()
            asyncio.create_task(charge(2))  #: FDL11
            asyncio.create_task(ask())  #: FDL11
            asyncio.create_task(harmless())
            asyncio.create_task(state["x"])
            task = asyncio.create_task(charge(3))
            await task
            await asyncio.gather(charge(4), charge(5))
            return {"id": charge(6), "ok": await charge(7)}  #: FDL11

        Chain("c").add_node("n", node)
        """,
    )
    assert messages[0] == "node 'n' calls charge(), which is async, and does not await it."
    assert messages[2] == "node 'n' starts a task of charge() and does not await it."


def test_the_configuration_names_further_effects_and_nodes(tmp_path):
    messages = check(
        tmp_path,
        {
            "mylib.py": """
            def send(to):
                return to

            class Bank:
                def pay(self, amount):
                    return amount
            """,
            "flow.py": """
            import time
            import mylib
            import other.things
            from mylib import send as deliver
            from flows import step, plain
            from fastdur import Chain

            from .near import act

            def local(): ...

            @step
            def one(state):
                local()
                act()
                (local or act)()
                unknown()
                deliver("a")  #: FDL02
                mylib.Bank().pay(1)  #: FDL02
                other.things.act("x")  #: FDL02

            @step(name="two")
            def two(state):
                return {"at": time.time()}  #: FDL03

            @plain
            def three(state):
                return {"at": time.time()}
            """,
        },
        Config(effects=("mylib.send", "mylib.Bank.pay", "other.*.act"), node_decorators=("flows.step",)),
    )
    assert messages[0] == (
        "node 'one' calls what the configuration names as an effect (mylib.send) outside of @idempotent, so again after a crash."
    )


def test_the_method_of_a_request_is_followed_to_where_it_is_said(tmp_path):
    check(
        tmp_path,
        """
        import requests
        from fastdur import Chain, idempotent

        def ask(method, path):
            return requests.request(method, path).json()

        @idempotent(name="charge", on_unknown="raise")
        def charge():
            return ask("POST", "u")

        @idempotent(name="look")
        def look():
            return ask("GET", "u")

        @idempotent(name="set")
        def put():
            return ask("PUT", "u")

        def node(state):
            look(), charge(), put()
            ask(state["method"], "u")  #: FDL02
            ask("POST", "u")  #: FDL02
            return {"n": ask("GET", "u")}  #: FDL03

        Chain("c").add_node("n", node)
        """,
    )


def test_a_statement_is_followed_to_where_it_is_written(tmp_path):
    check(
        tmp_path,
        """
        import sqlite3
        from fastdur import Chain, effect_key, idempotent

        ONCE = "INSERT INTO t (n, key) VALUES (?, ?) ON CONFLICT (key) DO NOTHING"
        PLAIN = "INSERT INTO t (n) VALUES (?)"

        class Shop:
            def run(self, statement, *values):
                with sqlite3.connect("f") as connection:
                    connection.execute(self.said(statement), values)

            def said(self, statement):
                return statement.replace("?", "%s")

        shop = Shop()

        @idempotent(name="right")
        def right(n):
            shop.run(ONCE, n, effect_key())

        @idempotent(name="wrong")
        def wrong(n):
            shop.run(PLAIN, n)  #: FDL10

        def node(state):
            shop.run(ONCE, 1, 2)
            shop.run(PLAIN, 1)  #: FDL02
            right(1), wrong(1)

        Chain("c").add_node("n", node)
        """,
    )


def test_a_helper_that_effects_call_too_is_not_blamed(tmp_path):
    check(
        tmp_path,
        """
        import requests
        from fastdur import Chain, effect_key, idempotent

        def post(key):
            return requests.post("u", headers={"key": key}).json()

        @idempotent(name="right")
        def right():
            return post(effect_key())

        @idempotent(name="wrong")
        def wrong():
            return post(None)  #: FDL10

        def node(state):
            right(), wrong()
            return {"n": post(None)}  #: FDL02

        Chain("c").add_node("n", node)
        """,
    )


def test_a_helper_is_judged_for_each_of_its_callers(tmp_path):
    check(
        tmp_path,
        """
        import requests
        from fastdur import Chain, effect_key, idempotent

        def attempt(fn):
            return fn()

        def wrapped(fn):
            def run():
                return fn()
            return run()

        @idempotent(name="charge")
        def charge():
            return attempt(lambda: requests.post("u", headers={"key": effect_key()})).status_code

        def pure(state):
            wrapped(lambda: 2)
            return {"n": attempt(lambda: 1)}

        def wrong(state):
            wrapped(lambda: requests.put("u"))  #: FDL02
            return {"n": attempt(lambda: requests.post("u"))}  #: FDL02

        Chain("c").add_node("a", pure).add_node("b", wrong)
        """,
    )
