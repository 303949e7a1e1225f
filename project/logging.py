"""Log lines: a sentence for people, then `key=value` for machines. Never a prompt."""

import logging
from typing import Final

FIELDS: Final = ("action", "job_id", "claim_id", "worker", "queue", "attempt", "reason", "seconds", "count")
"""The keys of `extra=` that a line shows, in this order; `action` is stable and meant to be matched on."""


class LineFormatter(logging.Formatter):
    """One line a record, with the known fields behind the sentence."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(name)s %(message)s")

    def format(self, record: logging.LogRecord) -> str:
        """Return the line; a traceback follows on lines of its own."""
        first, newline, rest = super().format(record).partition("\n")
        pairs = [f"{k}={record.__dict__[k]}" for k in FIELDS if k in record.__dict__]
        return " ".join([first, *pairs]) + newline + rest


class Refusals(logging.Filter):
    """Tells of a request that was refused (4xx) without a traceback: it is no fault of ours."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Let every record pass."""
        if record.levelno < logging.ERROR:
            record.exc_info = None
        return True


class BadHosts(logging.Filter):
    """Tells of a request to another host's name in a line: anybody can send one, and no fault of ours it is."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Let every record pass, as a warning."""
        record.levelno, record.levelname, record.exc_info = logging.WARNING, "WARNING", None
        return True
