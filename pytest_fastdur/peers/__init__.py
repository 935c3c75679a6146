"""The same refund on several engines, as subjects: charge, wait for an approval, finish. Each needs its own engine.

None of them tells the provider a key, so the table shows what an engine does by itself.

`python -m pytest_fastdur.peers` sweeps those that are installed and prints one table.
"""

from __future__ import annotations

RUN = "refund-1"
"""The name of the run."""
