"""CLAIM, LEASE: taking ownership of a run, keeping it and giving it up."""

from __future__ import annotations

import pytest

from fastdur.errors import StaleRun
from fastdur.records import Claim
from pytest_fastdur.conformance._bench import Bench
from pytest_fastdur.conformance._clause import Group, clause
from pytest_fastdur.conformance._made import everything, head, row, start, states


class Claiming(Group):
    """The clauses of `claim_execution`, `release` and `renew`."""

    @clause("claims", "rows")
    def test_claim_01_a_claim_moves_the_epoch_on(self, bench: Bench) -> None:
        """A claim adds one to the epoch, sets token, owner and status running, keeps the seq and appends no row."""
        claim = start(bench.store)
        bench.store.put(claim, row(claim), "failed")
        taken = bench.store.claim_execution(head(bench.store), "second", "you")
        assert taken is not None
        assert (taken.epoch, taken.token, taken.seq, taken.run) == (2, "second", 1, claim.run)
        found = head(bench.store)
        assert (found.status, found.epoch, found.seq) == ("running", 2, 1)
        assert (found.token, found.owner, found.lease_live) == ("second", "you", True)
        assert len(bench.store.list("r")) == 1

    @clause("claims")
    def test_claim_02_an_old_epoch_claims_nothing(self, bench: Bench) -> None:
        """A claim as of a reading whose epoch has moved since is None and changes nothing."""
        start(bench.store)
        seen = head(bench.store)
        assert bench.store.claim_execution(seen, "second", "you") is not None
        before = head(bench.store)
        assert bench.store.claim_execution(seen, "third", "they") is None
        assert head(bench.store) == before

    @clause("claims", "rows")
    def test_claim_03_an_old_seq_claims_nothing(self, bench: Bench) -> None:
        """A claim as of a reading whose seq has moved since is None and changes nothing, with a row or without."""
        claim = start(bench.store)
        seen = head(bench.store)
        bench.store.put(claim, row(claim), "running")
        before = everything(bench.store)
        assert bench.store.claim_execution(seen, "second", "you") is None
        assert bench.store.claim_execution(seen, "third", "you", row(seen, "late"), {"new": 1}) is None
        assert everything(bench.store) == before

    @clause("claims")
    def test_claim_04_an_old_token_claims_nothing(self, bench: Bench) -> None:
        """A claim as of a reading whose owner has given up since is None and changes nothing."""
        claim = start(bench.store)
        seen = head(bench.store)
        bench.store.release(claim)
        before = head(bench.store)
        assert bench.store.claim_execution(seen, "second", "you") is None
        assert head(bench.store) == before

    @clause("claims", "rows")
    def test_claim_05_a_claim_may_bring_a_row_and_a_graph(self, bench: Bench) -> None:
        """A claim appends its row and replaces the graph in the same write."""
        start(bench.store)
        seen = head(bench.store)
        taken = bench.store.claim_execution(seen, "second", "you", row(seen, {"n": "edited"}), {"nodes": 2})
        assert taken is not None
        assert taken.seq == head(bench.store).seq == 1
        assert head(bench.store).graph == {"nodes": 2}
        assert states(bench.store) == [{"n": "edited"}]
        bench.store.put(taken, row(taken), "running")

    @clause("claims", "rows")
    def test_claim_06_a_claim_sent_again_is_done(self, bench: Bench) -> None:
        """A claim sent again with its own token is the same claim, with a row and without, and nothing is counted twice."""
        start(bench.store)
        seen = head(bench.store)
        taken = [bench.store.claim_execution(seen, "second", "you") for _ in range(2)]
        assert [claim and (claim.epoch, claim.token, claim.seq) for claim in taken] == [(2, "second", 0)] * 2
        assert (head(bench.store).epoch, head(bench.store).attempts) == (2, 1)
        seen = head(bench.store)
        edited = row(seen)
        taken = [bench.store.claim_execution(seen, "third", "you", edited) for _ in range(2)]
        assert [claim and (claim.epoch, claim.token, claim.seq) for claim in taken] == [(3, "third", 1)] * 2
        assert len(bench.store.list("r")) == 1

    @clause("claims", "rows")
    def test_claim_07_attempts_count_the_claims_since_the_newest_row(self, bench: Bench) -> None:
        """`attempts` counts the claims since the newest row; a row sets it to nought."""
        claim: Claim | None = start(bench.store)
        for expected in (1, 2, 3):
            claim = bench.store.claim_execution(head(bench.store), f"t{expected}", "you")
            assert head(bench.store).attempts == expected
        assert claim is not None
        bench.store.put(claim, row(claim), "running")
        assert head(bench.store).attempts == 0

    @clause("claims", "rows")
    def test_claim_08_a_release_gives_up_the_claim_alone(self, bench: Bench) -> None:
        """A release takes owner and token away, leaves status, seq and epoch, and the claim no longer writes."""
        claim = start(bench.store)
        bench.store.release(claim)
        found = head(bench.store)
        assert (found.status, found.seq, found.epoch) == ("running", 0, 1)
        assert (found.owned, found.owner, found.lease_live) == (False, None, False)
        with pytest.raises(StaleRun):
            bench.store.put(claim, row(claim), "running")
        assert bench.store.claim_execution(found, "second", "you") is not None

    @clause("claims")
    def test_claim_09_a_release_of_another_claim_does_nothing(self, bench: Bench) -> None:
        """A release, or a renewal, of a claim that is no longer the run's does nothing and raises nothing."""
        old = start(bench.store)
        assert bench.store.claim_execution(head(bench.store), "second", "me") is not None
        before = head(bench.store)
        bench.store.release(old)
        bench.store.renew([old])
        assert head(bench.store) == before

    @clause("claims", "clock")
    def test_lease_01_a_lease_runs_out(self, bench: Bench) -> None:
        """A lease is live until its length has passed by the store's clock, and then no longer."""
        start(bench.store)
        self.move_clock(bench.store, self.lease - 1)
        assert head(bench.store).lease_live
        self.move_clock(bench.store, self.lease + 1)
        assert (head(bench.store).lease_live, head(bench.store).owned) == (False, True)

    @clause("claims", "clock")
    def test_lease_02_a_renewal_moves_a_lease_on(self, bench: Bench) -> None:
        """`renew` moves the leases of its claims on from now, and of no others."""
        claims = [start(bench.store, each) for each in "abc"]
        self.move_clock(bench.store, self.lease + 1)
        bench.store.renew([claims[0], claims[2], Claim("b", claims[1].run, 1, "not the token", 0)])
        assert [head(bench.store, each).lease_live for each in "abc"] == [True, False, True]
        bench.store.renew([])
        self.move_clock(bench.store, 2 * self.lease + 2)
        assert [head(bench.store, each).lease_live for each in "abc"] == [False, False, False]

    @clause("claims", "rows", "clock")
    def test_lease_03_a_write_moves_a_lease_on(self, bench: Bench) -> None:
        """A row moves the lease of its claim on from now."""
        claim = start(bench.store)
        self.move_clock(bench.store, self.lease - 1)
        bench.store.put(claim, row(claim), "running")
        self.move_clock(bench.store, 2 * self.lease - 2)
        assert head(bench.store).lease_live
        self.move_clock(bench.store, 2 * self.lease)
        assert not head(bench.store).lease_live

    @clause("claims", "rows", "clock")
    def test_lease_04_a_lease_that_ran_out_fences_nobody(self, bench: Bench) -> None:
        """An owner whose lease has run out still writes until another has claimed the run, and then no longer."""
        claim = start(bench.store)
        self.move_clock(bench.store, self.lease + 1)
        bench.store.put(claim, row(claim), "running")
        assert bench.store.claim_execution(head(bench.store), "second", "you") is not None
        with pytest.raises(StaleRun):
            bench.store.put(claim, row(claim), "running")

    @clause("claims", "clock")
    def test_lease_05_a_claim_begins_a_lease(self, bench: Bench) -> None:
        """A claim of a run whose lease has run out begins a lease from now."""
        start(bench.store)
        self.move_clock(bench.store, 5 * self.lease)
        assert bench.store.claim_execution(head(bench.store), "second", "you") is not None
        assert head(bench.store).lease_live
        self.move_clock(bench.store, 6 * self.lease - 1)
        assert head(bench.store).lease_live
        self.move_clock(bench.store, 6 * self.lease + 1)
        assert not head(bench.store).lease_live

    @clause("claims", "clock")
    def test_lease_06_a_clock_set_back_loses_no_run(self, bench: Bench) -> None:
        """A clock that is set back keeps the lease live and lets the run be claimed."""
        start(bench.store)
        self.move_clock(bench.store, -86400)
        assert head(bench.store).lease_live
        assert bench.store.claim_execution(head(bench.store), "second", "you") is not None
        assert head(bench.store).lease_live
