"""The turn at one connection: who works, who waits, and what happens to those whose worker is stopped."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from fastdur.checkpointers._patience import Again
from fastdur.checkpointers._turns import Job, Turns, _rest
from fastdur.errors import StaleRun, StoreUnavailable


class Connection:
    """Stands for a connection; notes what is done, and holds the first transaction back until told to go on."""

    def __init__(self):
        self.transactions = []
        self.entered = threading.Event()
        self.go = threading.Event()
        self.fails = None
        self.turns = Turns(self.perform, self.apart)

    def perform(self, work):
        transaction = []
        self.transactions.append(transaction)
        result = work(transaction)
        if len(self.transactions) == 1:
            self.entered.set()
            self.go.wait()
        elif self.fails is not None:
            raise self.fails
        return result

    def apart(self, transaction, job):
        try:
            job.result = job.work(transaction)
        except StaleRun as error:
            job.error = error

    def waiting(self, count):
        while len(self.turns._queue) < count:
            pass


@pytest.fixture
def connection():
    made = Connection()
    yield made
    made.go.set()


def note(name):
    def work(transaction):
        transaction.append(name)
        return name

    return work


def test_one_alone_works_at_once_and_waits_for_nobody(connection):
    connection.go.set()
    assert connection.turns.run(note("a")) == "a"
    assert connection.turns.run(note("b")) == "b"
    assert connection.transactions == [["a"], ["b"]]


def test_those_who_wait_are_done_together_by_the_first_of_them(connection):
    with ThreadPoolExecutor(5) as pool:
        first = pool.submit(connection.turns.run, note("first"))
        connection.entered.wait()
        others = []
        for name in "abcd":
            others.append(pool.submit(connection.turns.run, note(name)))
            connection.waiting(len(others))
        connection.go.set()
        assert [job.result() for job in (first, *others)] == ["first", *"abcd"]
    assert connection.transactions == [["first"], list("abcd")]


def test_whoever_only_wants_the_turn_has_it_alone(connection):
    seen = []

    def hold():
        with connection.turns:
            seen.append([list(t) for t in connection.transactions])

    with ThreadPoolExecutor(4) as pool:
        first = pool.submit(connection.turns.run, note("first"))
        connection.entered.wait()
        before = pool.submit(connection.turns.run, note("before"))
        connection.waiting(1)
        holder = pool.submit(hold)
        connection.waiting(2)
        after = pool.submit(connection.turns.run, note("after"))
        connection.waiting(3)
        connection.go.set()
        for job in (first, before, holder, after):
            job.result()
    assert seen == [[["first"], ["before"]]]
    assert connection.transactions[-1] == ["after"]


def test_one_that_comes_between_takes_along_what_it_finds(connection):
    connection.go.set()
    left = Job(note("left"))
    connection.turns._queue.append(left)
    assert connection.turns.run(note("came")) == "came"
    assert connection.transactions == [["came", "left"]]
    assert left.outcome() == "left"


@pytest.mark.parametrize("error", [StoreUnavailable("full"), Again("busy", unclear=False)])
def test_when_the_commit_of_many_fails_all_of_them_are_told(connection, error):
    def stale(transaction):
        raise StaleRun

    connection.fails = error
    with ThreadPoolExecutor(4) as pool:
        first = pool.submit(connection.turns.run, note("first"))
        connection.entered.wait()
        others = []
        for work in (note("a"), stale, note("b")):
            others.append(pool.submit(connection.turns.run, work))
            connection.waiting(len(others))
        connection.go.set()
        assert first.result() == "first"
        for job in others:
            with pytest.raises(type(error)):
                job.result()


def test_when_the_one_who_works_for_others_is_stopped_they_do_not_know_and_nobody_hangs(connection):
    connection.fails = KeyboardInterrupt()
    with ThreadPoolExecutor(4) as pool:
        first = pool.submit(connection.turns.run, note("first"))
        connection.entered.wait()
        leader = pool.submit(connection.turns.run, note("leader"))
        connection.waiting(1)
        follower = pool.submit(connection.turns.run, note("follower"))
        connection.waiting(2)
        connection.go.set()
        assert first.result() == "first"
        with pytest.raises(KeyboardInterrupt):
            leader.result()
        with pytest.raises(Again) as caught:
            follower.result()
        assert caught.value.unclear
    connection.fails = None
    assert connection.turns.run(note("later")) == "later"


class Interrupted:
    """A gate at which the waiting thread is interrupted; `before` happens first."""

    def __init__(self, before):
        self.before = before

    def acquire(self, timeout=None):
        self.before()
        raise KeyboardInterrupt

    def release(self):
        pass


@pytest.fixture
def elsewhere():
    """The name of another thread that is there."""
    go = threading.Event()
    parked = threading.Thread(target=go.wait)
    parked.start()
    yield parked.ident
    go.set()
    parked.join()


def test_one_who_is_interrupted_while_waiting_takes_its_work_back(connection, elsewhere):
    turns = connection.turns
    connection.go.set()
    with turns:
        turns._holder = elsewhere
        job = Job(note("given up"))
        job.gate = Interrupted(lambda: None)
        with pytest.raises(KeyboardInterrupt):
            turns._wait(job)
    assert turns.run(note("next")) == "next"
    assert connection.transactions == [["next"]]


def test_one_who_is_interrupted_when_the_turn_has_just_come_hands_it_on(connection, elsewhere):
    turns = connection.turns
    connection.go.set()
    turns.__enter__()
    turns._holder = elsewhere
    job = Job(_rest)
    job.gate = Interrupted(turns._leave)
    with pytest.raises(KeyboardInterrupt):
        turns._wait(job)
    assert turns.run(note("next")) == "next"


class Late:
    """A lock that is given up only after somebody has found it taken: the one moment when nobody would be called."""

    def __init__(self, lock, happening):
        self.lock = lock
        self.happening = happening

    def acquire(self, *, blocking):
        return self.lock.acquire(blocking=blocking)

    def release(self):
        self.happening()
        self.lock.release()


@pytest.mark.parametrize("given_up", [False, True])
def test_one_who_queues_up_in_the_moment_in_which_the_turn_is_given_up_gets_it(connection, given_up):
    turns = connection.turns
    connection.go.set()
    late = Job(_rest)

    def happening():
        turns._turn = turns._turn.lock
        turns._queue.append(late)

    turns.__enter__()
    turns._turn = Late(turns._turn, happening)
    if given_up:
        late.gate = Interrupted(lambda: None)
    late.gate.release() if not given_up else None
    late.gate = threading.Semaphore(0)
    turns._turn.lock, lock = threading.Lock(), turns._turn.lock
    turns._turn.lock = lock
    turns._leave()
    assert late.leads
    turns._leave()
    assert turns.run(note("next")) == "next"


def test_a_turn_that_is_given_up_just_before_the_work_is_queued_is_taken(connection):
    turns = connection.turns
    connection.go.set()
    job = Job(note("came"))
    assert turns._wait(job) is True
    turns._together(job)
    assert job.outcome() == "came"


def left_by(who):
    """The turn as one leaves it whom a signal has thrown out of his call at the worst moment."""
    if who == "a thread that is no more":
        gone = threading.Thread(target=lambda: None)
        gone.start()
        gone.join()
        return gone.ident
    return threading.get_ident() if who == "this thread" else None


@pytest.mark.parametrize("who", ["this thread", "a thread that is no more", "one who was not yet noted"])
def test_a_turn_that_was_left_without_being_given_up_is_taken_over(connection, who):
    turns = connection.turns
    connection.go.set()
    turns._turn.acquire()
    turns._holder = left_by(who)
    assert turns.run(note("first")) == "first"
    assert turns.run(note("second")) == "second"
    turns._turn.acquire()
    turns._holder = left_by(who)
    with turns:
        assert turns._turn.locked()
    assert not turns._turn.locked()


def test_a_turn_is_not_taken_over_from_one_who_is_at_work(connection, elsewhere):
    turns = connection.turns
    connection.go.set()
    turns._turn.acquire()
    turns._holder = elsewhere
    job = Job(note("waits"))
    assert not turns._take_over(known=elsewhere)
    assert not turns._take_over(known=None, job=job)
    turns._holder = None
    assert not turns._take_over(known=None, job=job)  # somebody has taken the job along
    job.leads = True
    turns._queue.append(job)
    assert not turns._take_over(known=None, job=job)
    turns._queue.clear()
    turns._turn.release()
    assert not turns._take_over(known=None)


def test_a_turn_that_somebody_was_seen_to_wait_for_is_kept_where_nobody_does_any_more(connection):
    assert not connection.turns._handed_on()
