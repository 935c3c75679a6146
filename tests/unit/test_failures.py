"""Recorded failures: what of an exception comes back, and exceptions that defend themselves."""

import asyncio
import io
import json
import subprocess
import threading
import urllib.error

import pytest

from fastdur import EffectFailed, Resume, idempotent, interrupt
from fastdur._codec import dumps, loads
from fastdur._failures import frozen_failure, replayed_failure
from fastdur._functions import shown
from fastdur.records import EffectRecord
from tests.unit.running import flow


def again(error, known=()):
    """The failure as a later process gets it."""
    frozen = loads(dumps(frozen_failure(error, known)))
    return replayed_failure(EffectRecord("k", "pay", "digest", "failed", "a1", "a#1", error=frozen), known)


class Refused(KeyError):
    def __init__(self, code, *, why):
        super().__init__(f"{code}")
        self.code, self.why = code, why


class Slotted(Exception):
    __slots__ = ("code", "never")

    def __init__(self, code):
        self.code = code


class Ours(ValueError):
    """Has a private part that cannot be stored."""

    def __init__(self, text):
        super().__init__(text)
        self._lock, self.text = threading.Lock(), text


PARTS = [
    "args",
    "code",
    "cmd",
    "end",
    "errno",
    "exceptions",
    "filename",
    "filename2",
    "lineno",
    "message",
    "msg",
    "name",
    "name",
    "obj",
    "object",
    "offset",
    "output",
    "path",
    "reason",
    "returncode",
    "start",
    "stderr",
    "strerror",
    "text",
    "url",
    "value",
    "why",
    "characters_written",
]


def parts(error):
    """What can be read of an exception; exceptions in it by their own parts."""
    found = {name: getattr(error, name) for name in PARTS if hasattr(error, name)}
    if isinstance(error, ExceptionGroup):
        found["args"], found["exceptions"] = error.message, [parts(each) for each in error.exceptions]
    cause = error.__cause__
    return (
        type(error),
        str(error),
        found,
        getattr(error, "__notes__", None),
        None if cause is None else parts(cause),
        error.__suppress_context__,
    )


def noted(error):
    error.add_note("look at the bill")
    return error


def caused(error, cause):
    error.__cause__ = cause
    return error


@pytest.mark.parametrize(
    "error",
    [
        KeyError("k"),
        TimeoutError(),
        ValueError(1, (2, 3), {"a": 1.0}, b"x", None),
        FileNotFoundError(2, "gone", "f.txt"),
        OSError(18, "cross", "a", None, "b"),
        OSError("only a text"),
        BlockingIOError(11, "again", 5),
        UnicodeDecodeError("utf-8", b"\xff", 0, 1, "bad"),
        UnicodeEncodeError("ascii", "\u20ac", 0, 1, "bad"),
        ImportError("none", name="n", path="p"),
        NameError("none", name="n"),
        AttributeError("none", name="n", obj=[3]),
        SyntaxError("bad", ("f", 1, 2, "text")),
        StopIteration(5),
        noted(ValueError("n")),
        caused(ValueError("outer"), caused(KeyError("k"), OSError(2, "gone", "f"))),
        ExceptionGroup("all", [ValueError(1), ExceptionGroup("in", [noted(KeyError("k")), OSError(2, "x", "f")])]),
        noted(ExceptionGroup("all", [ValueError("\ud800")])),
    ],
    ids=repr,
)
def test_a_built_in_exception_comes_back_whole(error):
    assert parts(again(error)) == parts(error)


@pytest.mark.parametrize(
    "error",
    [
        Refused(4, why="w"),
        Slotted(4),
        subprocess.CalledProcessError(3, ["ls"], b"o", b"e"),
        subprocess.TimeoutExpired(["ls"], 5.0, b"o"),
        json.JSONDecodeError("m", "doc", 1),
        caused(Refused(4, why="w"), Slotted(5)),
        ExceptionGroup("all", [Refused(4, why="w")]),
    ],
    ids=repr,
)
def test_one_of_a_class_that_the_effect_names_comes_back_whole(error):
    assert parts(again(error, (Exception,))) == parts(error)
    assert vars(again(error, (Exception,))) == vars(error)


def test_an_attribute_that_cannot_be_stored_is_left_out_and_a_public_one_is_named():
    found = again(Ours("t"), (Ours,))
    assert (type(found), vars(found)) == (Ours, {"text": "t"})
    error = Ours("t")
    error.lock = error.gate = threading.Lock()
    found = again(error, (Ours,))
    assert (found.text, hasattr(found, "lock")) == ("t", False)
    assert found.__notes__ == ["It comes from a record, without what cannot be stored: lock, gate."]
    found = again(urllib.error.HTTPError("u", 404, "gone", {}, io.BytesIO(b"body")), (OSError,))
    assert (type(found), found.code, str(found)) == (urllib.error.HTTPError, 404, "HTTP Error 404: gone")


def test_a_cause_and_a_member_of_a_class_that_is_not_known_keep_their_text():
    error = caused(ValueError("v"), Slotted(4))
    cause = again(error).__cause__
    assert (type(cause), cause.type_name, str(cause).rpartition(" ")[2]) == (
        EffectFailed,
        "tests.unit.test_failures.Slotted",
        "4",
    )
    (member,) = again(ExceptionGroup("all", [Slotted(4)])).exceptions
    assert type(member) is EffectFailed


def test_a_cause_that_leads_in_a_circle_and_a_group_without_end_are_cut():
    error = ValueError("v")
    error.__cause__ = error
    assert type(again(error)) is ValueError
    deep = ValueError("v")
    for _ in range(20):
        deep = ExceptionGroup("in", [deep])
    found = again(deep)
    for _ in range(8):
        assert type(found) is ExceptionGroup
        (found,) = found.exceptions
    assert type(found) is EffectFailed
    error = caused(ValueError("v"), KeyboardInterrupt())
    assert again(error).__cause__ is None


def test_an_attribute_that_a_later_version_of_the_class_does_not_take_is_left_out():
    class Sealed(Exception):
        pass

    error = Sealed("s")
    error.code = 4
    frozen = frozen_failure(error, (Sealed,))
    Sealed.code = property(lambda self: 5)
    record = EffectRecord("k", "pay", "digest", "failed", "a1", "a#1", error=frozen)
    assert replayed_failure(record, (Sealed,)).code == 5


# -- exceptions that defend themselves -----------------------------------------------------------------------------------


class Stop(BaseException):
    pass


class Text(str):
    __slots__ = ()


def mute(kind):
    """An exception whose every text raises."""

    def say(self):
        raise kind

    return type("Mute", (ValueError,), {"__str__": say, "__repr__": say})


class Odd(ValueError):
    def __str__(self):
        return Text("odd")


class Unmakeable(ValueError):
    def __init__(self, *args, made=False):
        super().__init__(*args)

    def __new__(cls, *args, made=False):
        if not made:
            raise RuntimeError
        return super().__new__(cls, *args)


class Locked(ValueError):
    """An exception of which nothing can be read; `raised` is what each try raises."""

    @property
    def __dict__(self):
        raise RuntimeError

    @property
    def args(self):
        raise RuntimeError

    @property
    def __cause__(self):
        raise RuntimeError

    @property
    def __notes__(self):
        raise RuntimeError

    @property
    def __class__(self):
        raise RuntimeError

    def __reduce__(self):
        raise RuntimeError

    def __bool__(self):
        raise RuntimeError


class Deaf(ValueError):
    def __getattribute__(self, name):
        raise RuntimeError(name)

    def __setattr__(self, name, value):
        raise RuntimeError(name)


class Shut(type):
    def __getattribute__(cls, name):
        if name in ("__module__", "__mro__", "__qualname__", "__name__", "__dict__", "__subclasses__"):
            raise RuntimeError(name)
        return super().__getattribute__(name)


class Group(ExceptionGroup):
    @property
    def exceptions(self):
        raise RuntimeError


class Dictionary(dict):
    def items(self):
        raise RuntimeError

    def __getitem__(self, key):
        raise RuntimeError

    def setdefault(self, key, default=None):
        raise RuntimeError


def holding(held, error=None):
    error = error or ValueError("x")
    error.__dict__ = held
    return error


def nested(depth):
    return [nested(depth - 1)] if depth else []


class Unequal:
    def __eq__(self, other):
        raise RuntimeError

    __hash__ = None


class Faceless:
    @property
    def __class__(self):
        raise RuntimeError

    def __repr__(self):
        raise Stop


def silent(error):
    error.__notes__ = None
    return error


BROKEN = {
    "text raises": lambda: mute(ValueError)("x"),
    "text raises a BaseException": lambda: mute(Stop)("x"),
    "text of a class of its own": lambda: Odd("x"),
    "notes are None": lambda: silent(ValueError("x")),
    "notes that defend themselves": lambda: setattr(error := ValueError("x"), "__notes__", [Unequal()]) or error,
    "notes are no list": lambda: setattr(error := ValueError("x"), "__notes__", 5) or error,
    "cannot be made": lambda: Unmakeable("x", made=True),
    "not hashable": lambda: type("Unhashable", (ValueError,), {"__eq__": lambda self, other: 1 / 0})("x"),
    "holds a broken one": lambda: ValueError(mute(Stop)("x")),
    "caused by a broken one": lambda: caused(ValueError("x"), mute(Stop)("y")),
    "nothing can be read": lambda: Locked("x"),
    "no attribute can be read": lambda: Deaf("x"),
    "nothing can be read of its class": lambda: Shut("Closed", (ValueError,), {})("x"),
    "nothing can be read of its group": lambda: ValueError(Group("all", [ValueError("x")])),
    "its cause cannot be read": lambda: caused(ValueError("x"), Locked("y")),
    "its module is no text": lambda: type("Placeless", (ValueError,), {"__module__": 5})("x"),
    "attributes without a text": lambda: holding({5: 1, (1, 2): threading.Lock(), "\ud800": threading.Lock()}),
    "attributes in a dictionary of its own": lambda: holding(Dictionary(a=1, b=threading.Lock())),
    "attributes that defend themselves": lambda: holding({"a": Faceless(), "b": mute(Stop)("x"), "c": nested(300)}),
    "arguments that defend themselves": lambda: ValueError(Faceless()),
    "http": lambda: urllib.error.HTTPError("u", 404, "gone", {}, io.BytesIO()),
}


@pytest.fixture(params=["sync", "async"])
def go_on(request):
    """Call it in the one way or the other and tell whether it raised; asyncio itself shows what ends its tasks."""

    def caught(method, *args, **options):
        try:
            method(*args, **options)
        except (ValueError, OSError):
            return True

    def acaught(method, *args, **options):
        async def inside():
            try:
                await getattr(method.__self__, f"a{method.__name__}")(*args, **options)
            except (ValueError, OSError):
                return True

        return asyncio.run(inside())

    return caught if request.param == "sync" else acaught


@pytest.mark.parametrize("kind", [(), (ValueError, OSError)])
@pytest.mark.parametrize("how", BROKEN)
def test_a_broken_exception_is_recorded_and_replayed_and_its_run_ends_as_any(store, go_on, how, kind):
    caught, calls, raised, make = [], [], [], BROKEN[how]

    @idempotent(name="pay", raises=kind)
    def pay():
        calls.append(1)
        raised.append(make())
        raise raised[0]

    def a(state):
        try:
            pay()
        except Exception as error:
            caught.append(error)
        interrupt("ok?")
        raise make()

    made = flow(store, a)
    go_on(made.execute, execution_id="r")
    assert go_on(made.resume, "r", Resume(True))
    assert (len(calls), len(caught)) == (1, 2)
    assert caught[0] is raised[0]
    assert issubclass(type(caught[1]), (EffectFailed, type(caught[0])))
    assert [row.step_type for row in store.list("r")][-1] == "run_end"
    assert store.get_execution("r").status == "failed"


class Key:
    def __init__(self, kind):
        self.kind = kind

    def __repr__(self):
        raise self.kind

    def __hash__(self):
        return 1


@pytest.mark.parametrize("kind", [ValueError, Stop])
def test_a_key_without_a_text_is_named_by_its_class(store, go, kind):
    assert shown(Key(kind)) == "<Key>"

    @idempotent(name="pay")
    def pay(what):
        return {"what": {Key(kind): 1}}

    seen = []

    def a(state):
        for do in (lambda: pay({Key(kind): 1}), lambda: pay({"in": {(Key(kind),): 1}}), lambda: pay(1)):
            with pytest.raises(Exception, match="Key") as caught:
                do()
            seen.append(str(caught.value))

    go(flow(store, a).execute)
    assert len(seen) == 3


def test_ctrl_c_in_a_text_is_still_ctrl_c():
    with pytest.raises(KeyboardInterrupt):
        shown(Key(KeyboardInterrupt))
