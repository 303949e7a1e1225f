"""What goes on while things break: jobs of all tiers, submitted in every way there is, followed, and cancelled."""

import collections
import contextlib
import random
import threading
from collections.abc import Callable
from typing import Any, Final

import httpx

from inference.states import JobStatus
from tests.acceptance.followers import Chat, Follower
from tests.acceptance.stacks import Stack

TIERS: Final = ("realtime", "standard", "bulk")
FIRST_JOBS: Final = 75
PAUSE_SECONDS: Final = 0.2
MOST_READERS: Final = 12
PATIENCE_SECONDS: Final = 8.0
"""Of a client whose call is not answered."""
LAWFUL: Final = {200, 201, 429, 503, 504}
"""What a client may be told, whatever breaks: `docs/api.md`."""


class Load(threading.Thread):
    """Runs until told to stop. What it does, but not how it goes, is up to the seed."""

    def __init__(self, stack: Stack, model: str, seed: int) -> None:
        super().__init__(name="load", daemon=True)
        self.accepted: list[str] = []
        """In the order in which they were."""
        self.cancelled: set[str] = set()
        """Those of which a client was told so."""
        self.answers: collections.Counter[int] = collections.Counter()
        self.followers: list[Follower] = []
        self.chats: list[Chat] = []
        self._stack, self._model, self._dice = stack, model, random.Random(seed)
        self._enough = threading.Event()

    def __str__(self) -> str:
        state = "goes on" if self.is_alive() else "has ended"
        return f"the load {state}, {len(self.accepted)} jobs accepted, answers {dict(self.answers)}"

    def run(self) -> None:
        """Do one thing after another."""
        deeds: dict[Callable[[], object], int] = {
            self._submit_many: 5,
            self._submit_one: 4,
            self._follow: 3,
            self._call: 2,
            self._cancel: 3,
        }
        with self._stack.client() as client:
            client.timeout = httpx.Timeout(PATIENCE_SECONDS)
            self._client = client
            while not self._enough.wait(PAUSE_SECONDS):
                [deed] = self._dice.choices(list(deeds), list(deeds.values())) if self.accepted else [self._fill]
                with contextlib.suppress(httpx.TransportError):  # nobody there, or no answer
                    deed()

    def stop(self) -> None:
        """Begin nothing any more, and wait for the calls under way to end."""
        self._enough.set()
        self.join(4 * PATIENCE_SECONDS)
        assert not self.is_alive()

    def check(self, jobs: list[dict[str, Any]]) -> None:
        """Every client was told what is so, in words that are documented."""
        by_id = {job["id"]: job for job in jobs}
        statuses = set(self.answers) | {chat.status for chat in self.chats if chat.status}
        assert statuses <= LAWFUL, self.answers
        assert set(self.accepted) <= set(by_id), "what was accepted is there"
        for job_id in self.cancelled:
            assert by_id[job_id]["status"] == JobStatus.CANCELLED, by_id[job_id]
        for follower in self.followers:
            follower.check(by_id[follower.job_id])
        for chat in self.chats:
            chat.join(PATIENCE_SECONDS)
            if chat.job_id:
                chat.check(by_id[chat.job_id])

    def _body(self, **fields: object) -> dict[str, Any]:
        """A job of 0.5 to 2.5 s, of any length class, and any tier."""
        words = "word " * self._dice.choice((5, 5, 5, 700, 2500))
        body = {"model": self._model, "messages": [{"role": "user", "content": words}]}
        sizes = {"max_tokens": self._dice.randint(10, 50), "ignore_eos": True}
        return {"tier": self._dice.choice(TIERS), "body": {**body, **sizes, **fields}}

    def _post(self, path: str, document: dict[str, Any] | None = None) -> dict[str, Any]:
        answer = self._client.post(path, json=document)
        self.answers[answer.status_code] += 1
        found: dict[str, Any] = answer.json() if answer.is_success else {}
        return found

    def _submit_many(self) -> None:
        made = self._post("/api/v1/jobs/", {"jobs": [self._body() for _ in range(self._dice.randint(2, 12))]})
        self.accepted += [job["id"] for job in made.get("jobs", [])]

    def _fill(self) -> None:
        """Have jobs wait: both engines together run 64."""
        made = self._post("/api/v1/jobs/", {"jobs": [self._body() for _ in range(FIRST_JOBS)]})
        self.accepted += [job["id"] for job in made.get("jobs", [])]

    def _submit_one(self, **fields: object) -> str:
        made = self._post("/api/v1/jobs/", self._body(**fields))
        self.accepted += [made["id"]] if made else []
        return str(made.get("id", ""))

    def _follow(self) -> None:
        job_id = self._submit_one(stream=self._dice.random() < 0.7)
        if job_id and len(self.followers) < MOST_READERS:
            self.followers.append(Follower(self._stack, job_id))
            self.followers[-1].start()

    def _call(self) -> None:
        if len(self.chats) < MOST_READERS:
            self.chats.append(Chat(self._stack, max_tokens=self._dice.randint(10, 50)))
            self.chats[-1].start()

    def _cancel(self) -> None:
        if self.accepted:
            job_id = self._dice.choice(self.accepted[-30:])
            told = self._post(f"/api/v1/jobs/{job_id}/cancel/")
            self.cancelled |= {job_id} if told.get("status") == JobStatus.CANCELLED else set()
