"""Blocks of rows spread over Python threads.

Serial kernels that release the GIL, run by a pool of ours, survive what Numba's own layers do not:
a fork after use (OpenMP kills the child), and calls from several Python threads at once
(workqueue aborts the process).
"""

import itertools
import os
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from numba import config

SERIAL_NS = 150_000
"""Below this much work threads cost more than they bring."""

_lock = threading.Lock()
_pool: ThreadPoolExecutor | None = None


def _forget_pool() -> None:
    """After a fork: the parent's threads do not exist here, and its lock may be held for ever."""
    global _lock, _pool
    _lock = threading.Lock()
    _pool = None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_pool)


def thread_count() -> int:
    """``numba.get_num_threads()`` without starting Numba's threading layer for it.

    Asking Numba launches its layer, after which a fork is no longer safe. While nobody has
    launched it, nobody has changed the number either.
    """
    parallel = sys.modules.get("numba.np.ufunc.parallel")
    if parallel is not None and parallel._is_initialized:
        return parallel.get_num_threads()
    return config.NUMBA_NUM_THREADS


def _executor() -> ThreadPoolExecutor:
    global _pool
    with _lock:
        if _pool is None:
            _pool = ThreadPoolExecutor(max(1, config.NUMBA_NUM_THREADS), "sparsemap_np")
        return _pool


def run_tasks(task: Callable[[int], None], count: int) -> None:
    """Call ``task(0) ... task(count - 1)``, in any order, on the caller's thread and the pool's."""
    workers = min(thread_count(), count)
    if workers <= 1:
        for i in range(count):
            task(i)
        return
    ticket = itertools.count()

    def drain() -> None:
        while (i := next(ticket)) < count:
            task(i)

    futures = [_executor().submit(drain) for _ in range(workers - 1)]
    try:
        drain()
    finally:
        # A helper that has not started finds nothing left to do: do not wait for it.
        waiting = [future for future in futures if not future.cancel()]
    for future in waiting:
        future.result()
