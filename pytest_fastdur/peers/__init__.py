"""The same refund on several engines, as subjects: charge, wait for an approval, finish. Each needs its own engine.

`python -m pytest_fastdur.peers` sweeps those that are installed and prints one table.
"""

from __future__ import annotations

RUN = "refund-1"
"""The name of the run; it is also the key that the provider is told of the charge."""
