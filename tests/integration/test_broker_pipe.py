"""Many callers on one connection: each gets its own answer, or an error, whatever happens to the others."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
import redis
import redis.asyncio
from redis.exceptions import ResponseError

from inference.broker import BrokerAway
from inference.broker.pipe import Pipe


def client_of(valkey: str, **options: Any) -> redis.asyncio.Redis:
    return redis.asyncio.Redis.from_url(valkey, **options)


@pytest.fixture
async def pipe(valkey: str) -> AsyncIterator[Pipe]:
    """A pipe of the test's own event loop."""
    made = Pipe(client_of(valkey).connection_pool)
    yield made
    await made.close()


async def name_of(pipe: Pipe) -> int:
    return int(await pipe.call("CLIENT", "ID"))


async def test_every_caller_gets_its_own_answer_over_one_connection(pipe: Pipe) -> None:
    said = [str(number).encode() for number in range(200)]
    assert await asyncio.gather(*(pipe.call("ECHO", word) for word in said)) == said
    assert len(set(await asyncio.gather(*(name_of(pipe) for _ in range(20))))) == 1


async def test_a_caller_that_leaves_takes_nobody_elses_answer(pipe: Pipe) -> None:
    await name_of(pipe)
    leaving = asyncio.create_task(pipe.call("BLPOP", "nothing", 0.05))
    staying = asyncio.create_task(pipe.call("ECHO", b"mine"))
    await asyncio.sleep(0)
    leaving.cancel()
    assert await staying == b"mine"
    assert await pipe.call("ECHO", b"later") == b"later"


async def test_a_refused_command_is_an_error_of_its_caller_alone(pipe: Pipe) -> None:
    before, refused, after = (
        asyncio.create_task(pipe.call(*command)) for command in (("ECHO", b"one"), ("NO-SUCH",), ("ECHO", b"two"))
    )
    with pytest.raises(ResponseError):
        await refused
    assert [await before, await after] == [b"one", b"two"]


async def test_a_connection_that_breaks_is_an_error_to_all_who_wait_and_the_next_call_opens_another(
    pipe: Pipe, redis_client: redis.Redis
) -> None:
    broken = await name_of(pipe)
    waiting = [asyncio.create_task(pipe.call("BLPOP", "nothing", 0)) for _ in range(3)]
    await asyncio.sleep(0)
    redis_client.client_kill_filter(_id=str(broken))
    answers = await asyncio.gather(*waiting, return_exceptions=True)
    assert [isinstance(answer, BrokerAway) for answer in answers] == [True] * 3
    assert await name_of(pipe) != broken


async def test_an_answer_that_comes_too_late_is_given_to_nobody(valkey: str) -> None:
    pipe = Pipe(client_of(valkey, socket_timeout=0.05).connection_pool)
    with pytest.raises(BrokerAway):
        await pipe.call("BLPOP", "nothing", 0.2)
    assert await pipe.call("ECHO", b"mine") == b"mine"
    await pipe.close()


async def test_a_server_that_is_not_there_is_away_for_all_who_ask(unused_tcp_port: int) -> None:
    pipe = Pipe(client_of(f"redis://127.0.0.1:{unused_tcp_port}/0").connection_pool)
    answers = await asyncio.gather(*(pipe.call("PING") for _ in range(3)), return_exceptions=True)
    assert [isinstance(answer, BrokerAway) for answer in answers] == [True] * 3
