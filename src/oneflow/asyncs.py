"""Worker threads of OneFlow's runtime, to which programs assign operators; here each operator runs at once."""

from contextlib import ContextDecorator

__all__ = ["Thread", "thread"]


class Thread:
    """A worker thread."""


class thread(ContextDecorator):  # noqa: N801  (OneFlow's name)
    """A context whose operators belong to a worker thread; their results are the same in any thread."""

    def __init__(self, worker_thread: Thread) -> None:
        self.worker_thread = worker_thread

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: object) -> None:
        pass
