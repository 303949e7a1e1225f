"""What the commands `queues` and `workers` share: a look, again and again if wanted, and the three acts."""

import dataclasses
import getpass
import json
import time
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.core.serializers.json import DjangoJSONEncoder

from inference import broker, errors
from inference.halts import Action
from inference.management import database

WATCH_SECONDS: Final = 1.0
CLEAR: Final = "\x1b[H\x1b[J"


class HaltingCommand(BaseCommand):
    """A command that shows rows, and pauses, resumes or drains what they are about."""

    noun: str
    pattern_help: str
    acts: Mapping[Action, str]
    """What each of them means."""

    @abstractmethod
    def rows(self) -> Sequence[Any]:
        """Return what there is, as frozen dataclasses."""

    @abstractmethod
    def drawn(self, rows: Sequence[Any]) -> str:
        """Return them as a table."""

    @abstractmethod
    def halt(self, action: Action, pattern: str) -> list[str]:
        """Do it, and return the names that were meant. Raises errors.NotFound."""

    def add_arguments(self, parser: CommandParser) -> None:
        """Say how to look and what to do."""
        parser.add_argument("--json", action="store_true", help="Print JSON, one line a look.")
        parser.add_argument("--watch", action="store_true", help="Look every second, until Ctrl-C.")
        acts = parser.add_subparsers(
            dest="action", metavar="pause|resume|drain", title="acts, live within a second"
        )
        for action, means in self.acts.items():
            act = acts.add_parser(action, help=means, description=means)
            act.add_argument("pattern", metavar=self.noun.upper(), help=self.pattern_help)

    def handle(self, *args: Any, **options: Any) -> None:  # noqa: ARG002 - Django's signature
        """Look or act. Raises CommandError that says what there is, or which server is away."""
        with database.explained():
            try:
                if options["action"]:
                    self._act(Action(options["action"]), options["pattern"])
                else:
                    self._look(options)
            except broker.BrokerAway as error:
                which = "REDIS_URL says which it is, or else the stack that runs in SLUICE_STATE_DIR"
                raise CommandError(f"Redis does not answer ({error}): {which}") from error

    def _act(self, action: Action, pattern: str) -> None:
        try:
            names = self.halt(action, pattern)
        except errors.NotFound as error:
            raise CommandError(str(error)) from error
        for name in names:
            self.stdout.write(f"{action} {name}")

    def _look(self, options: dict[str, Any]) -> None:
        shown: Callable[[Sequence[Any]], str] = _json if options["json"] else self.drawn
        with suppress(KeyboardInterrupt):
            self._show(shown, clear=options["watch"] and not options["json"])
            while options["watch"]:
                time.sleep(WATCH_SECONDS)
                self._show(shown, clear=not options["json"])

    def _show(self, shown: Callable[[Sequence[Any]], str], *, clear: bool) -> None:
        self.stdout.write((CLEAR if clear else "") + shown(self.rows()))
        self.stdout.flush()


def by() -> str:
    """Return who acts, as rows and logs have it."""
    try:
        return f"command of {getpass.getuser()}"
    except (KeyError, OSError):  # a container's user may have no name
        return "command"


def _json(rows: Sequence[Any]) -> str:
    return json.dumps([dataclasses.asdict(row) for row in rows], cls=DjangoJSONEncoder)
