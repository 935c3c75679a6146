"""What the linter knows of names: which are effects, which read otherwise the next time, which have no stored form."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from fastdur.lint._libraries import CLIENT, EFFECTS, FILE, INSERT, READS, ROWS, SETTING, Kind

if TYPE_CHECKING:
    from collections.abc import Iterable


def pattern(lines: Iterable[str]) -> re.Pattern[str]:
    """One expression for several patterns."""

    def expression(line: str) -> str:
        text = re.escape(line)
        for plain, meant in (
            (r"\{", "(?:"),
            (r"\}", ")"),
            (",", "|"),
            (r"\*\*", ".+"),
            (r"\*", r"[^.]*"),
        ):
            text = text.replace(plain, meant)
        return text

    return re.compile("|".join(map(expression, lines)))


_LINES: list[str] = []


def _pattern(lines: Iterable[str]) -> re.Pattern[str]:
    """A pattern of this catalogue: what it names is followed."""
    lines = list(lines)
    _LINES.extend(lines)
    return pattern(lines)


_KINDS = tuple((kind, _pattern(lines)) for kind, lines in EFFECTS)

_OPENING = _pattern(("{builtins,io,codecs}.open", "pathlib.Path().open", "aiofiles.open"))
_BY_METHOD = _pattern(
    (
        "{requests,httpx}.{request,stream}",
        f"{CLIENT}.{{request,stream}}",
        "aiohttp.request",
        "urllib3.{request,PoolManager().request,PoolManager().urlopen}",
        "http.client.{HTTPConnection,HTTPSConnection}().{request,putrequest}",
    )
)
_SAFE = frozenset({"GET", "HEAD", "OPTIONS"})
_SETTING = frozenset({"PUT", "DELETE"})
METHODS = _SAFE | _SETTING | {"POST", "PATCH"}

_READ = tuple((what, _pattern(lines)) for what, lines in READS)
_WITH_ARGUMENT = pattern(("time.{localtime,gmtime,ctime}",)), pattern(("time.strftime",))

SAYING = frozenset({"debug", "info", "warning", "warn", "error", "exception", "critical", "log", "print"})
"""Calls whose arguments only reach a log."""

UNSTORABLE = _pattern(
    (
        "requests.{Session,Response}()",
        "requests.{get,post,put,patch,delete,head,options,request}()",
        "requests.Session().{get,post,put,patch,delete,head,options,request,send}()",
        "httpx.{Client,AsyncClient,Response}()",
        "httpx.{get,post,put,patch,delete,head,options,request}()",
        "httpx.{Client,AsyncClient}().{get,post,put,patch,delete,head,options,request,send}()",
        "aiohttp.{ClientSession,ClientResponse}()",
        "urllib.request.urlopen()",
        "http.client.{HTTPConnection,HTTPSConnection,HTTPResponse}()",
        "sqlite3.{Connection,Cursor,connect}()",
        "{psycopg,psycopg2.extensions}.{Connection,AsyncConnection,Cursor,AsyncCursor,connection,cursor}()",
        "{psycopg,psycopg2}.connect()",
        "psycopg_pool.{ConnectionPool,AsyncConnectionPool}()",
        "asyncpg.{Connection,Pool}()",
        "sqlalchemy.{Engine,Connection,create_engine}()",
        "sqlalchemy.{engine,orm,ext.asyncio}.{Engine,Connection,Session,AsyncSession,AsyncEngine,AsyncConnection}()",
        "{redis,redis.asyncio}.{Redis,StrictRedis}()",
        "smtplib.{SMTP,SMTP_SSL,LMTP}()",
        "stripe.StripeClient()",
        "openai.{OpenAI,AsyncOpenAI}()",
        "anthropic.{Anthropic,AsyncAnthropic}()",
        "twilio.rest.Client()",
        "sendgrid.SendGridAPIClient()",
        "boto3.{client,resource,Session}()",
        "{builtins,io}.open()",
        "io.{TextIOWrapper,BufferedReader,BufferedWriter,BytesIO,StringIO,FileIO,IOBase}()",
        "typing.{IO,TextIO,BinaryIO,Callable,Iterator,Generator,AsyncIterator,AsyncGenerator,Coroutine,Awaitable}()",
        "collections.abc.{Callable,Iterator,Generator,AsyncIterator,AsyncGenerator,Coroutine,Awaitable}()",
        "pathlib.{Path,PosixPath,PurePath,PurePosixPath,WindowsPath}()",
        "threading.{Lock,RLock,Event,Condition,Semaphore,Thread,local}()",
        "asyncio.{Lock,Event,Queue,Semaphore,Task,Future,AbstractEventLoop}()",
        "queue.{Queue,SimpleQueue}()",
        "concurrent.futures.{Executor,ThreadPoolExecutor,ProcessPoolExecutor,Future}()",
        "socket.socket()",
        "logging.{Logger,getLogger}()",
        "random.Random()",
        "types.{ModuleType,FunctionType,SimpleNamespace}()",
        "fastdur.{Chain,Checkpointer,SQLiteCheckpointer,PostgresCheckpointer}()",
    )
)
"""Values of these have no canonical form and cannot be stored."""

PLAIN_BASES = frozenset({"builtins.object", "abc.ABC"})
"""Bases that give a class of the user's no fields that a key could be made of."""

THREADS = _pattern(
    (
        "threading.{Thread,Timer}",
        "concurrent.futures.{ThreadPoolExecutor,Executor,thread.ThreadPoolExecutor}().{submit,map}",
        "multiprocessing.pool.ThreadPool().{apply,apply_async,map,map_async,imap,imap_unordered,starmap}",
        "asyncio.{get_running_loop,get_event_loop,new_event_loop,AbstractEventLoop}().run_in_executor",
        "_thread.start_new_thread",
    )
)
"""What runs a function in a thread that knows no run."""

PROCESSES = _pattern(
    (
        "multiprocessing.Process",
        "concurrent.futures.ProcessPoolExecutor().{submit,map}",
        "multiprocessing.Pool().{apply,apply_async,map,map_async,imap,imap_unordered,starmap}",
    )
)
"""What runs a function in another process."""

UNORDERED = _pattern(
    ("builtins.{set,frozenset}", "os.{listdir,scandir}", "glob.{glob,iglob}", "pathlib.Path().{iterdir,glob,rglob}")
)
"""Calls whose result comes in another order in another process."""

MUTABLE = _pattern(
    (
        "builtins.{list,dict,set,bytearray}",
        "collections.{defaultdict,deque,Counter,OrderedDict}",
        "itertools.{count,cycle}",
        "builtins.iter",
    )
)
MUTATORS = frozenset(
    {
        "append",
        "appendleft",
        "extend",
        "insert",
        "remove",
        "pop",
        "popleft",
        "popitem",
        "clear",
        "update",
        "setdefault",
        "add",
        "discard",
        "sort",
        "reverse",
    }
)
"""Methods that change a list, dict, set or deque."""

ASKING_RUN = frozenset(
    f"fastdur.{name}" for name in ("interrupt", "effect_key", "execution_id", "fence", "transaction")
)
"""Calls that need to know the run they are in."""

BUILTINS = frozenset(
    {
        "open",
        "print",
        "next",
        "hash",
        "id",
        "list",
        "dict",
        "set",
        "frozenset",
        "bytearray",
        "tuple",
        "sorted",
        "reversed",
        "iter",
        "map",
        "zip",
        "enumerate",
        "object",
        "BaseException",
        "Exception",
        "getattr",
        "min",
        "max",
    }
)

CONTAINERS = frozenset(
    f"builtins.{name}"
    for name in ("dict", "enumerate", "frozenset", "iter", "list", "map", "reversed", "set", "sorted", "tuple", "zip")
)
WITHOUT_RESULT = frozenset({"builtins.next", "builtins.getattr", "builtins.min", "builtins.max"})

_EXACT = (
    "fastdur.{Chain().add_node,Chain().connect,idempotent(),carry,interrupt,effect_key,execution_id,fence,transaction}",
    "fastdur.{tool,tool(),FunctionTool,Agent,Supervisor}",
    "fastdur.{InterruptSignal,agent,chain,errors,scope,supervisor,tools}",
    f"builtins.{{{','.join(sorted(BUILTINS))}}}",
    "functools.{partial,wraps()}",
    "contextlib.suppress",
    "asyncio.{create_task,ensure_future,gather,get_running_loop,get_event_loop}",
    "abc.ABC",
    "typing.{cast,Annotated,Optional,Final,Dict,List,Set,FrozenSet,Tuple,Union,Sequence,Mapping,Iterable}",
    "collections.abc.{Iterable,Mapping,Sequence,Collection}",
    "time.{localtime,gmtime,ctime,strftime}",
)
_LINES.extend(_EXACT)


class Known:
    """Which names any rule asks for, or may ask for once more is appended; nothing else is followed."""

    def __init__(self, extra: Iterable[str] = ()) -> None:
        self._heads: set[str] = set()
        self._open: set[str] = set()
        self._memo: dict[str, bool] = {}
        lines = [*_LINES, *extra]
        self._whole = pattern(lines)
        for line in lines:
            for each in _spelled(line):
                head, star, _ = each.partition("*")
                pieces = re.split(r"(?=\.|\(\))", head)
                self._heads.update("".join(pieces[:count]) for count in range(1, len(pieces) + (not star)))
                if "**" in each:
                    self._open.add(head)
        self._starts = tuple(self._open)

    def __contains__(self, dotted: str) -> bool:
        """Whether a name is worth following."""
        if dotted not in self._memo:
            self._memo[dotted] = (
                dotted in self._heads
                or self._whole.fullmatch(dotted) is not None
                or (dotted.startswith(self._starts) and dotted.count(".") + dotted.count("(") <= _LONGEST)
            )
        return self._memo[dotted]


_LONGEST = 8


def _spelled(line: str) -> list[str]:
    """A pattern without alternatives, once for each of them."""
    found = re.search(r"\{([^}]*)\}", line)
    if found is None:
        return [line]
    return [
        each for word in found[1].split(",") for each in _spelled(line[: found.start()] + word + line[found.end() :])
    ]


_FASTDUR = re.compile(
    r"fastdur\.(?:\w+\.)+(?=(?:Chain|Agent|Supervisor|FunctionTool|tool|interrupt|idempotent|carry|effect_key|execution_id|fence|transaction|\w*Signal)\b)"
)
_SAME = {
    "requests.sessions.Session": "requests.Session",
    "requests.session": "requests.Session",
    "requests.api": "requests",
    "typing_extensions": "typing",
    "fastdur.Chain().add_node()": "fastdur.Chain()",
    "fastdur.Chain().connect()": "fastdur.Chain()",
}


def public(module: str, name: str | None) -> str:
    """How something imported from fastdur is called, wherever it was imported from."""
    return canonical(module if name is None else f"{module}.{name}")


def canonical(dotted: str) -> str:
    """One name for what has several."""
    dotted = _FASTDUR.sub("fastdur.", dotted)
    for name, same in _SAME.items():
        if dotted == name or dotted.startswith((f"{name}.", f"{name}(")):
            dotted = same + dotted[len(name) :]
    return dotted


def method_of(dotted: str, call: ast.Call) -> ast.expr | None:
    """The argument that says which method a request has."""
    return argument(call, 0, "method") if _BY_METHOD.fullmatch(dotted) else None


def effect_kind(dotted: str, call: ast.Call, methods: frozenset[str] = frozenset()) -> Kind | None:
    """Which kind of effect a call of this name is, as a request with one of these methods; None for none."""
    if _OPENING.fullmatch(dotted):
        return FILE if _writes(dotted, call) else None
    if is_safe(dotted, call, methods):
        return None
    if methods and methods <= _SAFE | _SETTING:
        return SETTING
    for kind, names in _KINDS:
        if names.fullmatch(dotted):
            return kind
    return None


def is_safe(dotted: str, call: ast.Call, methods: frozenset[str]) -> bool:
    """Whether a request only asks: its method says so."""
    if _BY_METHOD.fullmatch(dotted):
        return bool(methods) and methods <= _SAFE
    if dotted == "urllib.request.urlopen":
        address = argument(call, 0, "url")
        return argument(call, 1, "data") is None and isinstance(address, ast.Constant | ast.JoinedStr)
    return False


def _writes(dotted: str, call: ast.Call) -> bool:
    mode = argument(call, 0 if dotted.startswith("pathlib") else 1, "mode")
    return isinstance(mode, ast.Constant) and bool(set("wax+") & set(str(mode.value)))


def argument(call: ast.Call, position: int, name: str) -> ast.expr | None:
    """An argument of a call by its place or name."""
    if position < len(call.args) and not any(isinstance(each, ast.Starred) for each in call.args[: position + 1]):
        return call.args[position]
    return next((keyword.value for keyword in call.keywords if keyword.arg == name), None)


def read_kind(dotted: str, call: ast.Call | None, methods: frozenset[str] = frozenset()) -> str | None:
    """What a call of this name reads that may be different the next time; None for nothing of the kind."""
    if call is not None:
        if is_safe(dotted, call, methods):
            return "the network"
        if any(names.fullmatch(dotted) and len(call.args) <= most for most, names in enumerate(_WITH_ARGUMENT)):
            return "the clock"
        if dotted in ("random.Random", "random.SystemRandom"):
            return None if call.args else "random numbers"
    for what, names in _READ:
        if names.fullmatch(dotted):
            return what
    return None


_STATEMENT = re.compile(
    r"\s*(?:WITH\b.*?\b)?(INSERT|UPDATE|DELETE|REPLACE|MERGE|TRUNCATE|DROP|ALTER|CREATE)\b", re.IGNORECASE | re.DOTALL
)
_UPSERT = re.compile(r"ON\s+CONFLICT|ON\s+DUPLICATE|\bOR\s+(?:IGNORE|REPLACE)\b|IF\s+(?:NOT\s+)?EXISTS", re.IGNORECASE)
EXECUTES = frozenset({"execute", "executemany", "executescript", "execute_async"})


def is_statement(text: str) -> bool:
    """Whether a text is a statement that changes something."""
    return _STATEMENT.match(text) is not None


def sql_kind(text: str) -> Kind | None:
    """Which kind of effect a statement is; one that may be repeated as it is written is none: `ON CONFLICT`."""
    found = _STATEMENT.match(text)
    if found is None or _UPSERT.search(text) or found[1].upper() in ("REPLACE", "MERGE"):
        return None
    return INSERT if found[1].upper() == "INSERT" else ROWS
