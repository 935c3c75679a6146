"""The payment server counts what it is asked to do, by the rules of real ones, whatever becomes of its clients."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPConnection
from threading import Barrier

import pytest

from scenarios._http import PaymentError, Payments
from scenarios._serving import ROOT
from scenarios.payments import PaymentServer, recorded

# Sends what it is given, waits for the first byte of the answer if told to, and dies without reading it.
DYING_CLIENT = """
import os, signal, socket, sys
connection = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
connection.sendall(sys.stdin.buffer.read())
if sys.argv[2] == "answered":
    connection.recv(1, socket.MSG_PEEK)
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture
def server():
    with PaymentServer() as server:
        yield server


def port_of(url):
    return int(url.rsplit(":", 1)[1])


def request(customer, amount, key=None):
    body = json.dumps({"customer": customer, "amount": amount}).encode()
    head = f"POST /charges HTTP/1.1\r\nHost: here\r\nContent-Length: {len(body)}\r\n"
    return (head + (f"Idempotency-Key: {key}\r\n" if key else "") + "\r\n").encode() + body


def die_after(url, sent, when="sent"):
    died = subprocess.run([sys.executable, "-c", DYING_CLIENT, str(port_of(url)), when], input=sent, check=False)
    assert died.returncode == -signal.SIGKILL


def run(script, *arguments):
    done = subprocess.run(
        [sys.executable, "-c", script, *arguments], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def outcomes(payments):
    return [attempt["outcome"] for attempt in payments.attempts()]


def test_without_a_key_every_request_pays(server):
    assert server.client.charge("ada", 120) == {"id": "ch_1", "customer": "ada", "amount": 120}
    assert server.client.charge("ada", 120)["id"] == "ch_2"
    assert [charge["id"] for charge in server.client.charges()] == ["ch_1", "ch_2"]


def test_the_same_key_and_payment_get_the_first_payment_again(server):
    first = server.client.charge("ada", 120, "k")
    assert server.client.charge("ada", 120, "k") == first
    assert server.client.charges() == [first]
    assert outcomes(server.client) == ["made", "replayed"]


def test_an_empty_key_is_a_key(server):
    assert server.client.charge("ada", 1, "") == server.client.charge("ada", 1, "")


@pytest.mark.parametrize(
    "other",
    [
        lambda payments: payments.charge("ada", 121, "k"),
        lambda payments: payments.charge("eve", 120, "k"),
        lambda payments: payments.refund("ada", 120, "k"),
    ],
    ids=["amount", "customer", "kind"],
)
def test_the_same_key_with_another_payment_is_a_conflict_and_pays_nothing(server, other):
    first = server.client.charge("ada", 120, "k")
    with pytest.raises(PaymentError, match=r"key 'k' was used for another payment \(ch_1\)") as refused:
        other(server.client)
    assert refused.value.status == 409
    assert (server.client.charges(), server.client.refunds()) == ([first], [])
    assert outcomes(server.client) == ["made", "refused"]
    assert server.client.charge("ada", 120, "k") == first  # a refusal takes no key


def test_charges_and_refunds_are_listed_by_kind_and_customer(server):
    odd = "zoë & söhne/?=#%"
    ada, other, back = server.client.charge("ada", 1), server.client.charge(odd, 2), server.client.refund("ada", 3)
    assert server.client.charges("ada") == [ada]
    assert server.client.charges(odd) == [other]
    assert server.client.charges("nobody") == []
    assert server.client.charges("") == []
    assert server.client.charges() == [ada, other]
    assert server.client.refunds("ada") == [back]
    assert back["id"] == "re_1"


def test_a_delete_forgets_one_kind_and_its_keys(server):
    server.client.charge("ada", 1, "c")
    refund = server.client.refund("ada", 1, "r")
    connection = HTTPConnection("127.0.0.1", port_of(server.url))
    connection.request("DELETE", "/charges")
    assert connection.getresponse().read() == b"[]"
    connection.close()
    assert (server.client.charges(), server.client.refunds()) == ([], [refund])
    assert server.client.refund("ada", 1, "r") == refund
    assert server.client.charge("ada", 7, "c") == {"id": "ch_1", "customer": "ada", "amount": 7}


def test_a_reset_forgets_everything(server):
    server.client.charge("ada", 1, "c")
    server.client.refund("ada", 1, "r")
    server.client.reset()
    assert server.client.attempts() == recorded(server.file) == []
    assert server.client.charge("eve", 9, "c")["id"] == "ch_1"


def test_the_server_goes_back_to_any_moment_keys_included(server):
    server.client.charge("ada", 1, "old")
    then = server.client.attempts()
    server.client.charge("ada", 2, "new")
    server.client.restore(then)
    assert server.client.attempts() == recorded(server.file) == then
    server.client.charge("ada", 1, "old")
    server.client.charge("eve", 3, "new")
    assert outcomes(server.client) == ["made", "replayed", "made"]


def test_the_file_says_what_the_server_says_as_soon_as_it_has_answered(server):
    for number, key in enumerate((None, "k", "k", None, "l", "k", "l"), 1):
        server.client.charge("ada", 5, key)
        assert len(recorded(server.file)) == number
        assert recorded(server.file) == server.client.attempts()


def test_a_server_started_on_an_old_file_goes_on_from_there(tmp_path):
    file = tmp_path / "payments.jsonl"
    with PaymentServer(file) as server:
        first = server.client.charge("ada", 1, "k")
    with PaymentServer(file) as server:
        assert server.client.charges() == [first]
        assert server.client.charge("ada", 1, "k") == first
        assert server.client.charge("ada", 1)["id"] == "ch_2"


@pytest.mark.parametrize(
    ("asked", "body", "status", "message"),
    [
        ("POST /charges", b"{", 400, "the body is not JSON"),
        ("POST /charges", b"", 400, "not a payment"),
        ("POST /charges", b'{"customer": "ada"}', 400, "not a payment"),
        ("POST /charges", b'{"customer": "ada", "amount": "1"}', 400, "not a payment"),
        ("POST /charges", b'{"customer": "ada", "amount": 0}', 400, "not a payment"),
        ("POST /charges", b'{"customer": "ada", "amount": 1, "currency": "x"}', 400, "not a payment"),
        ("POST /attempts", b'{"customer": "ada", "amount": 1}', 404, "nothing at /attempts"),
        ("GET /payouts", b"", 404, "nothing at /payouts"),
        ("DELETE /attempts", b"", 404, "nothing at /attempts"),
        ("PUT /charges", b"[]", 400, "only a list of attempts"),
        ("PUT /attempts", b"{}", 400, "only a list of attempts"),
    ],
)
def test_what_makes_no_sense_is_refused_and_leaves_the_connection_usable(server, asked, body, status, message):
    connection = HTTPConnection("127.0.0.1", port_of(server.url))
    connection.request(*asked.split(), body)
    answer = connection.getresponse()
    assert (answer.status, message in json.loads(answer.read())["error"]) == (status, True)
    connection.request("GET", "/attempts")  # on the same connection
    assert connection.getresponse().read() == b"[]"
    connection.close()


def together(count, function):
    """Call `function(0)` to `function(count - 1)` in as many threads, all at once."""
    barrier = Barrier(count)

    def each(number):
        barrier.wait()
        return function(number)

    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(each, range(count)))


def test_requests_at_once_under_one_key_are_one_payment(server):
    answers = together(16, lambda _: server.client.charge("ada", 120, "k"))
    assert answers == server.client.charges() * 16
    assert sorted(outcomes(server.client)) == ["made"] + ["replayed"] * 15


def test_requests_at_once_for_different_payments_under_one_key_are_one_payment(server):
    def charge(number):
        try:
            return server.client.charge("ada", number + 1, "k")["id"]
        except PaymentError as error:
            return error.status

    assert sorted(together(16, charge), key=str) == [409] * 15 + ["ch_1"]
    assert len(server.client.charges()) == 1


def test_requests_at_once_without_a_key_are_all_paid_and_all_different(server):
    answers = together(16, lambda _: server.client.charge("ada", 1))
    assert len({answer["id"] for answer in answers}) == len(server.client.charges()) == 16


@pytest.mark.parametrize("missing", [1, 30, 60, 100], ids=["last byte", "body", "headers", "request line"])
def test_a_client_killed_in_the_middle_of_its_request_has_paid_nothing(capfd, missing):
    with PaymentServer() as server:
        die_after(server.url, request("ada", 120, "k")[:-missing])
        assert server.client.charges() == []
        assert server.client.charge("ada", 120, "k")["id"] == "ch_1"  # the next process begins anew
        assert outcomes(server.client) == ["made"]
    assert capfd.readouterr().err == ""


def test_a_client_killed_before_it_reads_the_answer_has_paid_and_a_key_finds_that_payment(capfd):
    with PaymentServer() as server:
        die_after(server.url, request("ada", 120, "k"), "answered")
        made = server.client.charges()
        assert [charge["amount"] for charge in made] == [120]
        assert [server.client.charge("ada", 120, "k")] == made == server.client.charges()
    assert capfd.readouterr().err == ""


def test_a_client_killed_before_it_reads_the_answer_pays_twice_without_a_key(server):
    die_after(server.url, request("ada", 120), "answered")
    server.client.charge("ada", 120)
    assert len(server.client.charges()) == 2


def test_a_client_killed_at_once_after_sending_pays_once_if_it_is_sent_again_under_its_key(capfd):
    with PaymentServer() as server:
        for number in range(8):  # whether the server reads it before or after the death is for the machine to say
            die_after(server.url, request("ada", 120, f"k{number}"))
            server.client.charge("ada", 120, f"k{number}")
        assert len(server.client.charges()) == 8
    assert capfd.readouterr().err == ""


def test_no_signal_to_the_group_of_the_process_under_test_reaches_the_server(server):
    assert os.getsid(server.pid) == os.getpgid(server.pid) == server.pid


def test_a_child_made_by_fork_leaves_the_server_running():
    script = """if True:
        import os
        from scenarios.payments import PaymentServer
        with PaymentServer() as server:
            child = os.fork()
            if child:
                os.waitpid(child, 0)
            server.client.charge("ada", 1)
            if child:
                print(len(server.client.charges()))
    """
    assert run(script) == "2\n"


def test_the_server_ends_when_the_process_that_started_it_is_killed():
    script = """if True:
        import os, signal, sys
        from scenarios.payments import PaymentServer
        with PaymentServer() as server:
            print(server.url, flush=True)
            sys.stdin.read()
    """
    with subprocess.Popen(
        [sys.executable, "-c", script], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as owner:
        url = owner.stdout.readline().strip()
        with socket.create_connection(("127.0.0.1", port_of(url)), timeout=30) as connection:
            Payments(url).charge("ada", 1)  # it lives
            owner.kill()
            assert connection.recv(1) == b""  # its end closes the connection


def test_by_hand_it_prints_its_port_and_ends_quietly_at_an_interrupt(tmp_path):
    command = [sys.executable, "-m", "scenarios.payments", "--port", "0", "--file", str(tmp_path / "p.jsonl")]
    with subprocess.Popen(
        command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as server:
        port = int(server.stdout.readline())
        assert Payments(f"http://127.0.0.1:{port}").charge("ada", 1)["id"] == "ch_1"
        server.send_signal(signal.SIGINT)
        assert server.communicate() == ("", "")
        assert server.returncode == 0


def test_a_server_that_cannot_start_says_so(tmp_path, capfd):
    with pytest.raises(RuntimeError, match="did not start"), PaymentServer(tmp_path):
        pass
    assert "IsADirectoryError" in capfd.readouterr().err


def test_a_client_that_meets_nobody_raises_at_once():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound, but nobody listens
        with pytest.raises(ConnectionRefusedError):
            Payments(f"http://127.0.0.1:{taken.getsockname()[1]}").charge("ada", 1)
