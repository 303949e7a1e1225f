"""What of Celery and kombu is overridden or relied on beyond their documentation.

Both are pinned exactly. When a new version is tried, this says first what moved.
"""

import inspect
from collections.abc import Callable
from importlib import metadata
from typing import Any

import celery.apps.worker
import celery.bootsteps
import celery.concurrency.base
import celery.worker.consumer.consumer
import celery.worker.consumer.tasks
import celery.worker.control
import celery.worker.heartbeat
import celery.worker.request
import celery.worker.state
import celery.worker.strategy
import kombu.transport.redis
import kombu.transport.virtual
import pytest
from kombu.asynchronous.hub import Hub
from redis.connection import Connection

# Their stubs leave out what this page is about.
bootsteps: Any = celery.bootsteps
consumer: Any = celery.worker.consumer.consumer
control: Any = celery.worker.control
heartbeat: Any = celery.worker.heartbeat
kombu_redis: Any = kombu.transport.redis
request: Any = celery.worker.request
state: Any = celery.worker.state
strategy: Any = celery.worker.strategy
tasks: Any = celery.worker.consumer.tasks
virtual: Any = kombu.transport.virtual
BasePool: Any = celery.concurrency.base.BasePool


@pytest.mark.parametrize(("package", "version"), [("celery", "5.7.0"), ("kombu", "5.7.0")])
def test_the_versions_are_the_ones_that_were_read(package: str, version: str) -> None:
    assert metadata.version(package) == version


OVERRIDDEN: dict[str, tuple[Any, list[str]]] = {
    "Channel.__init__": (kombu_redis.Channel.__init__, ["self", "args", "kwargs"]),
    "Channel.basic_consume": (kombu_redis.Channel.basic_consume, ["self", "queue", "args", "kwargs"]),
    "Channel._brpop_start": (kombu_redis.Channel._brpop_start, ["self", "timeout"]),
    "Channel._brpop_read": (kombu_redis.Channel._brpop_read, ["self", "options"]),
    "Channel._on_connection_disconnect": (
        kombu_redis.Channel._on_connection_disconnect,
        ["self", "connection"],
    ),
    "Channel.close": (kombu_redis.Channel.close, ["self"]),
    "Channel._put": (kombu_redis.Channel._put, ["self", "queue", "message", "kwargs"]),
    "Channel._size": (kombu_redis.Channel._size, ["self", "queue"]),
    "Channel._has_queue": (kombu_redis.Channel._has_queue, ["self", "queue", "kwargs"]),
    "Channel._purge": (kombu_redis.Channel._purge, ["self", "queue"]),
    "QoS.__init__": (virtual.QoS.__init__, ["self", "channel", "prefetch_count"]),
    "QoS.can_consume": (virtual.QoS.can_consume, ["self"]),
    "QoS.can_consume_max_estimate": (virtual.QoS.can_consume_max_estimate, ["self"]),
    "QoS.ack": (virtual.QoS.ack, ["self", "delivery_tag"]),
    "QoS.reject": (virtual.QoS.reject, ["self", "delivery_tag", "requeue"]),
    "QoS.get": (virtual.QoS.get, ["self", "delivery_tag"]),
    "BasePool.on_start": (BasePool.on_start, ["self"]),
    "BasePool.on_stop": (BasePool.on_stop, ["self"]),
    "BasePool.on_apply": (BasePool.on_apply, ["self", "args", "kwargs"]),
    "BasePool.on_terminate": (BasePool.on_terminate, ["self"]),
    "BasePool.register_with_event_loop": (BasePool.register_with_event_loop, ["self", "loop"]),
    "BasePool.terminate_job": (BasePool.terminate_job, ["self", "pid", "signal"]),
    "BasePool._get_info": (BasePool._get_info, ["self"]),
    "StartStopStep.start": (bootsteps.StartStopStep.start, ["self", "parent"]),
    "StartStopStep.stop": (bootsteps.StartStopStep.stop, ["self", "parent"]),
    "control.revoke": (control.revoke, ["state", "task_id", "terminate", "signal", "kwargs"]),
    "control.terminate": (control.terminate, ["state", "signal", "task_id", "kwargs"]),
    "control.shutdown": (control.shutdown, ["state", "msg", "kwargs"]),
}

CALLED: dict[str, tuple[Any, list[str]]] = {
    "Transport._deliver": (virtual.Transport._deliver, ["self", "message", "queue"]),
    "Hub.call_soon": (Hub.call_soon, ["self", "callback", "args"]),
    "Consumer.add_task_queue": (
        consumer.Consumer.add_task_queue,
        ["self", "queue", "exchange", "exchange_type", "routing_key", "options"],
    ),
    "Consumer.cancel_task_queue": (consumer.Consumer.cancel_task_queue, ["self", "queue"]),
    "Request.send_event": (request.Request.send_event, ["self", "type", "fields"]),
    "Request.acknowledge": (request.Request.acknowledge, ["self"]),
    "Request.on_accepted": (request.Request.on_accepted, ["self", "pid", "time_accepted"]),
    "Connection.send_command": (Connection.send_command, ["self", "args", "kwargs"]),
}


@pytest.mark.parametrize("name", [*OVERRIDDEN, *CALLED])
def test_the_signature_is_as_it_was(name: str) -> None:
    function, parameters = (OVERRIDDEN | CALLED)[name]
    assert list(inspect.signature(function).parameters) == parameters


def source(function: Callable[..., Any]) -> str:
    return inspect.getsource(function)


def test_the_poller_asks_the_channel_only_while_it_may_consume_and_reads_whenever_it_may() -> None:
    poller = kombu_redis.MultiChannelPoller
    assert "channel.qos.can_consume()" in source(poller.on_poll_start)
    assert "channel._brpop_start()" in source(poller._register_BRPOP)
    assert "chan.qos.can_consume()" in source(poller.on_readable)
    assert "channel._in_poll" in source(poller.maybe_check_brpop_health)


def test_the_poller_reads_by_the_handlers_of_the_channel() -> None:
    assert "'BRPOP': self._brpop_read" in source(kombu_redis.Channel.__init__)
    assert {"_in_poll", "_brpop_sent_at"} <= vars(kombu_redis.Channel).keys()


def test_a_channel_that_closes_requeues_only_if_told_so() -> None:
    assert "not self.channel.do_restore" in source(virtual.QoS.restore_unacked_once)
    assert virtual.Channel.do_restore is True


def test_the_prefix_of_all_keys_leaves_our_commands_alone_on_a_raw_connection() -> None:
    parse = source(kombu_redis.GlobalKeyPrefixMixin.parse_response)
    assert "command_name == 'BRPOP'" in parse
    assert "BLPOP" not in parse


def test_requests_come_to_the_pool_with_callbacks_bound_to_them() -> None:
    made = source(request.create_request_cls)
    assert "callback=self.on_success" in made
    assert "accept_callback=self.on_accepted" in made
    assert "args=(self.type, task_id, self.request_dict, self.body" in made
    assert "maybe(ref, result)" in made


def test_requests_that_were_not_accepted_are_forgotten_at_a_reconnect() -> None:
    assert "if r not in active_requests" in source(consumer.Consumer.on_close)


def test_the_books_that_the_pool_closes_are_still_the_books() -> None:
    ready = source(state.task_ready)
    for book in ("requests.pop", "active_requests.discard", "reserved_requests.discard"):
        assert book in ready


def test_heartbeats_carry_the_shared_fields() -> None:
    assert "**SOFTWARE_INFO" in source(heartbeat.Heart._send)
    assert heartbeat.SOFTWARE_INFO is state.SOFTWARE_INFO


def test_the_worker_stops_with_the_status_that_should_stop_holds() -> None:
    assert "raise WorkerShutdown(should_stop)" in source(state.maybe_shutdown)


def test_the_prefetch_count_of_a_reconnect_is_not_reduced() -> None:
    assert "qos_semantics_matches_spec" in source(tasks.Tasks.qos_global)


def test_steps_may_be_named_by_strings() -> None:
    assert "symbol_by_name(step)" in source(bootsteps.Blueprint.load_step)


def test_the_strategy_hands_the_headers_on() -> None:
    assert "headers=headers" in source(strategy.default)
    assert "message.headers, False" in source(strategy.default)


def test_a_task_without_events_has_none_from_the_worker_either() -> None:
    assert "events and task.send_events" in source(strategy.default)
    assert "self.task.send_events" in source(request.Request.send_event)


def test_celery_shows_its_deprecations_before_our_filter_hides_one() -> None:
    assert "setup_logging" in source(celery.apps.worker.Worker.on_init_blueprint)
    assert "celeryd_after_setup.send" in source(celery.apps.worker.Worker.on_start)
    assert consumer.CANCEL_TASKS_BY_DEFAULT.startswith("\nIn Celery 5.1")
