"""A job's events over HTTP: who comes back with the last id misses nothing and sees nothing twice."""

import threading
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import httpx
import orjson
import pytest

from inference import results
from inference.broker import Broker
from inference.models import Job
from inference.states import FailureReason
from tests import factories, waiting
from tests.integration.api_server import Api, Hand, forget_everything

pytest_plugins = ["tests.integration.api_fixtures"]


@dataclass(frozen=True)
class Seen:
    id: str
    event: str
    data: dict[str, Any]

    @property
    def what(self) -> str:
        """A word for each event."""
        if self.event == "chunk":
            return " ".join(str(chunk["n"]) for chunk in self.data["chunks"])
        return str(self.data.get("state", self.event))


def chunk(number: int) -> bytes:
    return b'data: {"n": %d}\n\n' % number


def submit(api: Api, **fields: Any) -> str:
    response = api.post("/api/v1/jobs/", {"body": factories.make_chat(**fields)})
    assert response.status_code == 201
    return str(response.json()["id"])


def listen(api: Api, job_id: str, *, after: str | None = None) -> Iterator[Seen]:
    headers = {"Last-Event-ID": after} if after else {}
    with api.client.stream("GET", f"/api/v1/jobs/{job_id}/events/", headers=headers) as response:
        assert response.status_code == 200
        assert response.headers["content-type"] == "text/event-stream"
        yield from parse(response)


def parse(response: httpx.Response) -> Iterator[Seen]:
    fields: dict[str, str] = {}
    for line in response.iter_lines():
        name, _, value = line.partition(": ")
        if not line and "id" in fields:
            yield Seen(fields["id"], fields["event"], orjson.loads(fields["data"]))
            fields = {}
        elif name:
            fields[name] = value


class Listener:
    """Reads a job's events in a thread."""

    def __init__(self, api: Api, job_id: str, *, after: str | None = None) -> None:
        self.seen: list[Seen] = []
        self._thread = threading.Thread(target=self._read, args=(api, job_id, after))
        self._thread.start()

    @property
    def whats(self) -> list[str]:
        return [seen.what for seen in self.seen]

    def wait_for(self, what: str) -> None:
        waiting.until(lambda: what in self.whats)

    def finish(self) -> list[str]:
        self._thread.join(timeout=waiting.PATIENCE_SECONDS)
        assert not self._thread.is_alive(), self.whats
        return self.whats

    def _read(self, api: Api, job_id: str, after: str | None) -> None:
        for seen in listen(api, job_id, after=after):
            self.seen.append(seen)


def test_states_and_output_come_live_and_end_with_the_job(api: Api, hand: Hand) -> None:
    listener = Listener(api, submit(api, stream=True))
    listener.wait_for("queued")
    claimed = hand.claim()
    hand.say(claimed, chunk(1), chunk(2) + chunk(3), b"data: [DONE]\n\n")
    listener.wait_for("2 3")
    hand.say(claimed, b"", kind="end")
    hand.succeed(claimed, {})
    assert [w for w in listener.finish() if w != "running"] == ["queued", "1", "2 3", "end", "succeeded"]
    assert listener.seen[-1].data["claim_id"] == str(claimed.token.claim_id)


def test_a_late_reader_is_told_everything(api: Api, hand: Hand) -> None:
    job_id = submit(api, stream=True)
    claimed = hand.claim()
    hand.say(claimed, chunk(1), chunk(2))
    hand.succeed(claimed, {})
    assert [seen.what for seen in listen(api, job_id)] == ["queued", "running", "1", "2", "succeeded"]


@pytest.mark.parametrize("place", range(6))
def test_a_reader_that_comes_back_misses_nothing_and_sees_nothing_twice(api: Api, hand: Hand, place: int) -> None:
    job_id = submit(api, stream=True)
    claimed = hand.claim()
    hand.say(claimed, chunk(1), chunk(2), chunk(3))
    hand.succeed(claimed, {})
    whole = list(listen(api, job_id))
    assert [seen.what for seen in whole] == ["queued", "running", "1", "2", "3", "succeeded"]
    again = list(listen(api, job_id, after=whole[place].id))
    assert [seen.what for seen in again] == [seen.what for seen in whole[place + 1 :]] or place == 5


def test_a_reader_that_comes_back_in_mid_stream_hears_the_rest_live(api: Api, hand: Hand) -> None:
    job_id = submit(api, stream=True)
    claimed = hand.claim()
    hand.say(claimed, chunk(1), chunk(2))
    first = next(seen for seen in listen(api, job_id) if seen.what == "1")
    listener = Listener(api, job_id, after=first.id)
    listener.wait_for("2")
    hand.say(claimed, chunk(3))
    listener.wait_for("3")
    hand.succeed(claimed, {})
    assert listener.finish() == ["2", "3", "succeeded"]


def test_many_readers_of_one_job_each_hear_all(api: Api, hand: Hand) -> None:
    job_id = submit(api, stream=True)
    listeners = [Listener(api, job_id) for _ in range(3)]
    claimed = hand.claim()
    hand.say(claimed, chunk(1))
    for listener in listeners:
        listener.wait_for("1")
    hand.succeed(claimed, {})
    assert all(listener.finish()[-2:] == ["1", "succeeded"] for listener in listeners)


def test_a_job_without_output_tells_its_states(api: Api, hand: Hand) -> None:
    job_id = submit(api)
    listener = Listener(api, job_id)
    listener.wait_for("queued")
    hand.fail(hand.claim(), FailureReason.ENGINE_ERROR, "out of luck")
    assert listener.finish()[-1] == "failed"
    assert [seen.what for seen in listen(api, job_id)] == ["queued", "running", "failed"]


def test_two_attempts_are_told_apart(api: Api, hand: Hand) -> None:
    listener = Listener(api, submit(api, stream=True))
    first = hand.claim()
    hand.say(first, chunk(1))
    hand.release(first)
    second = hand.claim()
    hand.say(second, chunk(2))
    hand.succeed(second, {})
    told = [what for what in listener.finish() if what not in {"queued", "running", "released"}]
    assert told == ["1", "interrupted", "2", "succeeded"]
    claims = {seen.what: seen.data["claim_id"] for seen in listener.seen if seen.event == "chunk"}
    assert claims == {"1": str(first.token.claim_id), "2": str(second.token.claim_id)}


def test_a_job_begun_anew_by_hand_is_followed_to_its_new_end(api: Api, hand: Hand) -> None:
    job_id = submit(api, stream=True)
    first = hand.claim()
    hand.say(first, chunk(1))
    hand.fail(first, FailureReason.ENGINE_ERROR, "out of luck")
    assert api.post(f"/api/v1/jobs/{job_id}/retry/").status_code == 200
    listener = Listener(api, job_id)
    listener.wait_for("queued")
    second = hand.claim()
    hand.say(second, chunk(2))
    hand.succeed(second, {})
    assert listener.finish()[-2:] == ["2", "succeeded"]


def test_the_end_is_told_although_redis_was_wiped(
    api: Api, hand: Hand, sluice: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(results, "SILENCE_SECONDS", 0.1)
    job_id = submit(api, stream=True)
    listener = Listener(api, job_id)
    claimed = hand.claim()
    hand.say(claimed, chunk(1))
    listener.wait_for("1")
    forget_everything(sluice)
    hand.succeed(claimed, {})
    assert listener.finish()[-1] == "succeeded"


def test_a_reader_that_leaves_does_not_cancel_the_job(api: Api, hand: Hand) -> None:
    job_id = submit(api, stream=True)
    assert next(listen(api, job_id)).what == "queued"
    hand.succeed(hand.claim(), {})
    assert Job.objects.get(id=job_id).status == "succeeded"


@pytest.mark.parametrize("after", ["soon", "-1", "1-2-3", "9" * 30, "9" * 20, "253402300800000-0"])
def test_an_id_that_is_none_is_refused(api: Api, after: str) -> None:
    path = f"/api/v1/jobs/{submit(api)}/events/"
    by_query, by_header = api.get(path, params={"after": after}), api.get(path, headers={"Last-Event-ID": after})
    for name, response in {"after": by_query, "Last-Event-ID": by_header}.items():
        error = response.json()["error"]
        assert (response.status_code, error["param"]) == (400, name)
        assert error["message"].startswith(name)
