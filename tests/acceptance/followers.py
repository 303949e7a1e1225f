"""Clients that follow a job while things break, and what they were told."""

import json
import threading
from collections.abc import Iterator
from itertools import groupby, pairwise
from typing import Any

import httpx

from inference.states import TERMINAL
from tests.acceptance import fleet
from tests.acceptance.stacks import Stack
from tests.waiting import until

FOLLOW_SECONDS = 60.0
RETRY_SECONDS = 0.1


class Follower(threading.Thread):
    """Reads a job's events to the end, and comes back with the last id when the connection breaks."""

    def __init__(self, stack: Stack, job_id: str) -> None:
        super().__init__(name=f"follower-{job_id}", daemon=True)
        self.job_id = job_id
        self.messages: list[tuple[str, str, dict[str, Any]]] = []
        """Id, event and data of each."""
        self.connections = 0
        self._stack = stack
        self._leaving = threading.Event()

    @property
    def is_done(self) -> bool:
        return any(event == "state" and data["state"] in TERMINAL for _, event, data in self.messages)

    def run(self) -> None:
        """Follow until the job's end."""
        while not (self.is_done or self._leaving.is_set()):
            try:
                self._read()
            except httpx.HTTPError:
                self._leaving.wait(RETRY_SECONDS)

    def leave(self) -> None:
        """Follow no more, whether or not the end came."""
        self._leaving.set()
        self.join(FOLLOW_SECONDS)

    def _read(self) -> None:
        last = self.messages[-1][0] if self.messages else "0-0"
        path, headers = f"/api/v1/jobs/{self.job_id}/events/", {"Last-Event-ID": last}
        with self._stack.client() as client, client.stream("GET", path, headers=headers) as answer:
            answer.raise_for_status()
            self.connections += 1
            for message in _messages(answer.iter_lines()):
                self.messages.append(message)
                if self.is_done or self._leaving.is_set():
                    return

    def said(self, claim_id: str) -> str:
        """The output of one claim, as it was told."""
        told = [data for _, event, data in self.messages if event == "chunk" and data["claim_id"] == claim_id]
        return "".join(map(text_of, (chunk for data in told for chunk in data["chunks"])))

    def check(self, job: dict[str, Any]) -> None:
        """Each event was told once and in order, one end came and came last, and attempts did not mix."""
        until(lambda: self.is_done, seconds=FOLLOW_SECONDS, what=f"the end was told: {self.messages[-3:]}")
        ids = [tuple(map(int, message[0].split("-"))) for message in self.messages]
        assert all(one <= two for one, two in pairwise(ids)), ids
        ends = [
            i for i, (_, event, data) in enumerate(self.messages) if event == "state" and data["state"] in TERMINAL
        ]
        assert ends == [len(self.messages) - 1], self.messages
        assert self.messages[-1][2]["state"] == job["status"]
        claims = [data["claim_id"] for _, event, data in self.messages if event == "chunk"]
        assert len({claim for claim, _ in groupby(claims)}) == len(list(groupby(claims))), claims
        for claim_id in set(claims):
            self._check_output(claim_id, job)

    def _check_output(self, claim_id: str, job: dict[str, Any]) -> None:
        """No piece was told twice: the simulated engine says the same in every attempt."""
        if job["result"]:
            whole = job["result"]["choices"][0]["message"]["content"]
            assert whole.startswith(self.said(claim_id)), (whole, self.said(claim_id))


def text_of(chunk: dict[str, Any]) -> str:
    """The text in one chunk of a streamed chat."""
    return "".join(choice["delta"].get("content") or "" for choice in chunk["choices"])


def _messages(lines: Iterator[str]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    fields: dict[str, str] = {}
    for line in lines:
        name, _, value = line.partition(": ")
        if line and name:
            fields[name] = value
        elif "data" in fields:
            yield fields["id"], fields["event"], json.loads(fields["data"])
            fields = {}


class Chat(threading.Thread):
    """A streaming call as an OpenAI client makes it, for so many tokens; reads until the connection ends."""

    def __init__(self, stack: Stack, *, max_tokens: int, content: str = "Tell me a story.") -> None:
        super().__init__(name="chat", daemon=True)
        self.job_id = ""
        self.chunks: list[dict[str, Any]] = []
        self.error: dict[str, Any] | None = None
        self.is_complete = False
        self.is_cut = False
        self.status: int | None = None
        """Of the answer; None if there was none."""
        self._stack = stack
        self._body = {
            "max_tokens": max_tokens,
            "ignore_eos": True,
            "stream": True,
            "messages": [{"role": "user", "content": content}],
        }

    @property
    def text(self) -> str:
        return "".join(map(text_of, self.chunks))

    def run(self) -> None:
        """Call, and read to the end."""
        with self._stack.client() as client:
            try:
                body = {"model": fleet.model(self._stack), **self._body}
                with client.stream("POST", "/v1/chat/completions", json=body) as answer:
                    self.status = answer.status_code
                    answer.raise_for_status()
                    self.job_id = answer.headers["x-sluice-job-id"]
                    for line in answer.iter_lines():
                        self._take(line)
            except httpx.HTTPError:
                self.is_cut = True

    def _take(self, line: str) -> None:
        data = line.removeprefix("data: ")
        if data == "[DONE]":
            self.is_complete = True
        elif line.startswith("data: "):
            message = json.loads(data)
            if "error" in message:
                self.error = message["error"]
            else:
                self.chunks.append(message)

    def check(self, job: dict[str, Any]) -> None:
        """The client knows whether it has all: `[DONE]` with the whole answer, or an error, or a broken line."""
        self.join(FOLLOW_SECONDS)
        assert not self.is_alive()
        assert sum([self.is_complete, self.error is not None, self.is_cut]) == 1, (self.text, self.error)
        whole = job["result"]["choices"][0]["message"]["content"] if job["result"] else ""
        assert whole.startswith(self.text)
        assert (self.text == whole) or not self.is_complete
