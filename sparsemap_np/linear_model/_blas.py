"""One BLAS thread while a fit runs its own.

NumPy and SciPy each bring an OpenBLAS, whose idle threads spin: the small products of a fit
and of L-BFGS steal each other's cores and take ten times as long. Blocks of rows on threads
of ours use the cores better.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

from threadpoolctl import ThreadpoolController

_lock = threading.Lock()
_users = 0
_limit = None


@cache
def _controller() -> ThreadpoolController:
    """Find the loaded BLAS libraries, which takes a millisecond or ten, once."""
    return ThreadpoolController()


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Limit every BLAS to one thread; the last of several concurrent fits restores them.

    Yields
    ------
    None
        The limit holds inside.
    """
    global _users, _limit
    with _lock:
        if _users == 0:
            _limit = _controller().limit(limits=1, user_api="blas")
        _users += 1
    try:
        yield
    finally:
        with _lock:
            _users -= 1
            if _users == 0:
                _limit.restore_original_limits()
                _limit = None
