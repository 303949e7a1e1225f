"""The backend: named by `DATABASES["default"]["ENGINE"]`, the module's name is Django's."""

import threading
from collections.abc import Callable
from typing import Any, ClassVar, Final, Self

import psycopg
from django.db.backends.base.base import NO_DB_ALIAS
from django.db.backends.postgresql import base
from psycopg_pool import ConnectionPool, PoolTimeout

_making: Final = threading.Lock()


class _Connection(psycopg.Connection[Any]):
    """Remembers why the last attempt to connect failed: the pool only logs it."""

    failure: ClassVar[str] = ""

    @classmethod
    def connect(cls, *args: Any, **kwargs: Any) -> Self:
        """Connect as psycopg does."""
        try:
            made = super().connect(*args, **kwargs)
        except psycopg.Error as error:
            cls.failure = str(error).strip()
            raise
        cls.failure = ""
        return made


class Pool(ConnectionPool[_Connection]):
    """Drops all idle connections when one of them turns out to be broken.

    A restarted server broke them all. The stock pool finds that out one by one, with a pause after each that
    doubles from a second on.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(connection_class=_Connection, check=self._check_or_drain, open=False, **options)

    def getconn(self, timeout: float | None = None) -> _Connection:
        """Return a sound connection. Raises PoolTimeout, which says why there is none."""
        try:
            return super().getconn(timeout)
        except PoolTimeout as error:
            raise PoolTimeout(f"{error}: {_Connection.failure or 'all are in use'}") from error

    def _check_or_drain(self, connection: _Connection) -> None:
        try:
            self.check_connection(connection)
        except psycopg.Error:
            self.drain()
            raise


class DatabaseWrapper(base.DatabaseWrapper):
    """Django's, with our pool in place of the stock one: `OPTIONS["pool"]` holds its arguments."""

    _connection_pools: ClassVar[dict[str, Pool]]
    _configure_connection: Callable[[Any], Any]
    """Django's; its stubs leave them out."""

    @property
    def pool(self) -> Pool | None:
        """Return the process's pool, made at the first call; None where the options name none."""
        options = self.settings_dict["OPTIONS"].get("pool")
        if self.alias == NO_DB_ALIAS or not options:
            return None
        with _making:
            if self.alias not in self._connection_pools:
                self._connection_pools[self.alias] = self._new_pool(options)
            return self._connection_pools[self.alias]

    def _new_pool(self, options: dict[str, Any]) -> Pool:
        # Autocommit, as Django's own: Django sets it as it needs it.
        arguments = {**self.get_connection_params(), "autocommit": True}
        return Pool(kwargs=arguments, configure=self._configure_connection, **options)
