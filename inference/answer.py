"""What one thread owes another: made by the thousand each second, so without the lock of the library's futures."""

import logging
import threading
from collections.abc import Callable
from typing import Generic, TypeVar

logger = logging.getLogger(__name__)

T = TypeVar("T")


class Answer(Generic[T]):
    """A result or an error that comes later, once. Any thread may give it, and any wait for it."""

    __slots__ = ("_calls", "_error", "_result", "is_there")

    def __init__(self) -> None:
        self.is_there = False
        self._result: T
        self._error: BaseException | None = None
        self._calls: list[Callable[[Answer[T]], None]] = []

    def give(self, result: T) -> None:
        """Give the result; on this thread go the calls that wait for it."""
        self._result, self.is_there = result, True
        self._tell()

    def fail(self, error: BaseException) -> None:
        """Give an error instead."""
        self._error, self.is_there = error, True
        self._tell()

    def then(self, call: Callable[["Answer[T]"], None]) -> None:
        """Call once it is there: now, or on the thread that gives it."""
        self._calls.append(call)  # before it is asked whether it is there: whoever comes second calls
        if self.is_there:
            self._tell()

    def result(self, timeout: float | None = None) -> T:
        """Return it, or raise its error; after `timeout` seconds without it, TimeoutError."""
        if error := self.error(timeout):
            raise error
        return self._result

    def error(self, timeout: float | None = None) -> BaseException | None:
        """Return its error, None if it has a result. Raises TimeoutError as `result` does."""
        if not self.is_there:
            came = threading.Event()
            self.then(lambda _: came.set())
            if not came.wait(timeout):
                raise TimeoutError
        return self._error

    def _tell(self) -> None:
        while self._calls:
            try:
                call = self._calls.pop()
            except IndexError:  # the other thread was quicker
                return
            try:
                call(self)
            except Exception:  # not the concern of the thread that answers
                logger.exception("an answer could not be taken", extra={"action": "answer_not_taken"})
