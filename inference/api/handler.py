"""A lean ASGI handler for the API: no middleware, no thread of its own, one place for what ends with a request.

Django's own handler costs an API request four switches to other threads (`request_started`, each layer of
synchronous middleware, `request_finished`) and a thread that lives as long as the request does. None of it is of
use here: the API has no session and no cookie, and `executor` looks after the database connections, which is what
the two signals' receivers do. Every view is asynchronous (`routes.adapt`).
"""

import asyncio
import contextlib
import io
import logging
import urllib.parse
from collections.abc import Iterator
from typing import Any, Final, cast

from django.core.exceptions import DisallowedHost, RequestAborted
from django.core.handlers.asgi import ASGIHandler, ASGIRequest
from django.http.response import HttpResponseBase

from inference import errors
from inference.api import authentication, bodies, intake, queries, sse
from inference.api.errors import event as error_event
from inference.api.errors import response as error_response
from inference.limits import MAX_BODY_BYTES

logger = logging.getLogger(__name__)

JOB_ID_HEADER: Final = "x-sluice-job-id"

BODY_SECONDS: Final = 30.0
"""A body must have arrived by then: until it has, it takes memory."""
CLOSING_SECONDS: Final = 4.0
"""What calls that the process's end cuts short may take to cancel their jobs; `up` kills 10 s after SIGTERM."""
KEYLESS: Final = ("/api/schema/", "/api/docs/", "/dashboard/")
"""Paths that ask for no key. None takes a body."""
KEYLESS_BODY_BYTES: Final = 16 * 1024


class ApiRequest(ASGIRequest):
    """A request that knows what must be done when it ends, however it ends."""

    def __init__(self, scope: dict[str, Any], body_file: io.BytesIO, room: intake.Held) -> None:
        super().__init__(scope, body_file)
        self.room = room
        """Held for the body. Given back at the end, or as soon as the body is on record."""
        self.body_bytes = body_file.seek(0, io.SEEK_END)
        body_file.seek(0)
        # DRF takes a request without a length, sent in chunks, for one without a body.
        self.META["CONTENT_LENGTH"] = str(self.body_bytes)
        self.closing = contextlib.AsyncExitStack()
        """Unwound after the last byte was sent, or as soon as the client has left. It is never cut short."""
        self.answer_headers: dict[str, str] = {}
        """Sent with whatever the answer will be, errors too."""
        self.answer: HttpResponseBase | None = None
        """What is being sent."""

    def take_body(self) -> bytes:
        """Return the body and keep it no longer: a client that waits must cost little. Works once."""
        taken, self._body, self._stream = self.body, b"", io.BytesIO()
        return taken

    def get_host(self) -> str:
        """Return the Host header as it is: it only shapes links that go back to the sender.

        Raises DisallowedHost if no link can be made of it.
        """
        host = str(self._get_raw_host())  # type: ignore[attr-defined]
        try:
            urllib.parse.urlsplit(f"//{host}")
        except ValueError:
            raise DisallowedHost("The Host header is no host.") from None
        return host


class ApiHandler(ASGIHandler):
    """Serves the API's paths."""

    request_class = ApiRequest

    def __init__(self) -> None:
        super().__init__()
        self._intake = intake.Intake()
        self._open: set[asyncio.Task[Any]] = set()

    def load_middleware(self, is_async: bool = False) -> None:  # noqa: FBT001, FBT002 - Django's signature
        """Load none."""

    async def __call__(self, scope: dict[str, Any], receive: Any, send: Any) -> None:
        """Serve one request: nobody's body is read before it is known whose it is."""
        with self._counted(), intake.held(self._intake) as room:
            try:
                request = self.request_class(scope, io.BytesIO(await _body(scope, receive, room)), room)
            except RequestAborted:
                return
            except asyncio.CancelledError:  # as in `_answer`
                await self.send_response(_refusal(_stopping()), send)
                return
            except Exception as error:  # as in `_response`
                await self.send_response(_refusal(error), send)
                return
            async with request.closing:
                await self._answer(request, receive, send)

    async def closed(self) -> None:
        """Wait until all requests are over and what they leave is done: CLOSING_SECONDS at most."""
        if not self._open:
            return
        _, left = await asyncio.wait(self._open, timeout=CLOSING_SECONDS)
        if left:
            logger.error("calls cut off before they were closed", extra={"action": "cut_off", "count": len(left)})

    @contextlib.contextmanager
    def _counted(self) -> Iterator[None]:
        """Be among the requests that `closed` waits for."""
        task = cast("asyncio.Task[Any]", asyncio.current_task())
        self._open.add(task)
        try:
            yield
        finally:
            self._open.discard(task)

    async def _answer(self, request: ApiRequest, receive: Any, send: Any) -> None:
        """Answer, or stop as soon as the client leaves; the body is read, so `receive` ends only then."""
        leaving = asyncio.create_task(receive())
        try:
            with _cancelled_by(leaving):
                await self._respond(request, send)
        except asyncio.CancelledError:
            if not leaving.done():  # by the server that stops, which would print a traceback of it
                await self._take_leave(request, send)
        finally:
            leaving.cancel()

    async def _take_leave(self, request: ApiRequest, send: Any) -> None:
        """Say that the server stops, as far as there is a form for it."""
        if request.answer is None:
            await self._send(request, error_response(_stopping()), send)
        elif isinstance(request.answer, sse.EventStream):
            await send({"type": "http.response.body", "body": error_event(_stopping()), "more_body": False})

    async def _respond(self, request: ApiRequest, send: Any) -> None:
        await self._send(request, await self._response(request), send)

    async def _send(self, request: ApiRequest, response: HttpResponseBase, send: Any) -> None:
        for name, value in request.answer_headers.items():
            response.headers[name] = value
        request.answer = response
        await self.send_response(response, send)

    async def _response(self, request: ApiRequest) -> HttpResponseBase:
        try:
            view, args, kwargs = self.resolve_request(request)
            queries.check(request, view)
            response = await view(request, *args, **kwargs)
        except Exception as error:  # the last resort: every error has an envelope
            return error_response(error)
        return response  # type: ignore[no-any-return]


@contextlib.contextmanager
def _cancelled_by(end: "asyncio.Task[Any]") -> Iterator[None]:
    """Cancel what is under way in the block once the other task ends, and nothing after the block."""
    task, is_open = cast("asyncio.Task[Any]", asyncio.current_task()), True

    def cancel(_: "asyncio.Task[Any]") -> None:
        if is_open:
            task.cancel()

    end.add_done_callback(cancel)
    try:
        yield
    finally:
        is_open = False


async def _body(scope: dict[str, Any], receive: Any, room: intake.Held) -> bytes:
    """Read the body, if the sender has a key and there is room for it.

    Raises Unauthenticated, Unavailable, TooSlow, and what `_read` raises.
    """
    is_keyless = scope["path"].removeprefix(scope.get("root_path", "")).startswith(KEYLESS)
    if not is_keyless and _announces_body(scope):
        await authentication.caller_by_header(_values(scope, b"authorization").decode("latin-1"))
    limit = KEYLESS_BODY_BYTES if is_keyless else MAX_BODY_BYTES
    await room.take(_announced_bytes(scope, limit=limit))
    try:
        async with asyncio.timeout(BODY_SECONDS):
            return await _read(receive, room, limit=limit)
    except TimeoutError:
        raise errors.TooSlow(f"body: not complete after {BODY_SECONDS:g} s", param="body") from None


def _announces_body(scope: dict[str, Any]) -> bool:
    return _values(scope, b"content-length") not in {b"", b"0"} or bool(_values(scope, b"transfer-encoding"))


def _values(scope: dict[str, Any], wanted: bytes) -> bytes:
    """Return a header as Django's `META` has it."""
    return b",".join(value for name, value in scope["headers"] if name == wanted)


def _announced_bytes(scope: dict[str, Any], *, limit: int) -> int:
    """Return the body's length, 0 if it is not told. Raises TooLarge."""
    size = max((int(value) for name, value in scope["headers"] if name == b"content-length"), default=0)
    if size > limit:
        raise bodies.too_large(size, limit=limit)
    return size


async def _read(receive: Any, room: intake.Held, *, limit: int) -> bytes:
    """Read the whole body. Raises TooLarge as early as it can be known, RequestAborted if the client leaves."""
    body = bytearray()
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise RequestAborted
        body += message.get("body", b"")
        if len(body) > limit:
            raise bodies.too_large(len(body), limit=limit)
        if len(body) > intake.SMALL_BYTES:
            await room.take(limit)  # of a length that was not told
        if not message.get("more_body", False):
            return bytes(body)


def _stopping() -> errors.Unavailable:
    message = "The server is stopping and cancels the jobs of calls that wait. Send the request again."
    return errors.Unavailable(message, code="stopping")


def _refusal(error: Exception) -> HttpResponseBase:
    if isinstance(error, UnicodeDecodeError):
        return error_response(errors.InvalidRequest("The address is not valid UTF-8.", code="bad_request"))
    response = error_response(error)
    if isinstance(error, errors.TooSlow | errors.Unavailable):  # what is still to come must not be waited for
        response.headers["Connection"] = "close"
    return response
