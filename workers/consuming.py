"""Consumer step of an engine's worker: its terms for the transport, the queues it follows, what heartbeats say."""

from typing import Any, Final

from celery import bootsteps
from celery.worker import state

from inference.guards import Credit
from workers.eventing import Flusher
from workers.pool import EnginePool
from workers.terms import Offer
from workers.vitals import Vitals

FOLLOW_SECONDS: Final = 1.0


class EngineTerms:
    """Terms by the engine's room."""

    def __init__(self, pool: EnginePool) -> None:
        self._pool = pool

    @property
    def worker(self) -> str:
        """The worker's name in the registry."""
        return self._pool.config.node

    def credit(self) -> Credit:
        """Return what the engine has room for."""
        return self._pool.host.room.credit()

    def offer(self) -> Offer:
        """Return it with all that bounds a claim."""
        return self._pool.host.room.offer()

    def is_hungry(self, offered: Offer) -> bool:
        """Whether work may wait that did not fit."""
        return self._pool.host.room.is_hungry(offered)


class Consuming(bootsteps.StartStopStep):
    """Binds the channel that consumes to the engine; again after every reconnect, which makes a new channel."""

    requires = ("celery.worker.consumer.tasks:Tasks",)

    def __init__(self, consumer: Any, **kwargs: Any) -> None:
        self._timer: Any = None
        self._events: Flusher
        self._said: tuple[Any, ...] = ()
        super().__init__(consumer, **kwargs)

    def include_if(self, consumer: Any) -> bool:
        """Whether the worker owns an engine."""
        return isinstance(consumer.pool, EnginePool)

    def start(self, consumer: Any) -> None:
        """Claim on the engine's terms from now on."""
        channel = consumer.task_consumer.channel
        channel.terms = EngineTerms(consumer.pool)
        channel.call_after = consumer.timer.call_after
        consumer.pool.on_credit = channel.credit_changed
        consumer.pool.on_limits = channel.ask_again
        self._events = Flusher(consumer)
        self._timer = consumer.timer.call_repeatedly(FOLLOW_SECONDS, self._tick, (consumer,))

    def stop(self, consumer: Any) -> None:
        """Stop following."""
        if self._timer is not None:
            consumer.timer.cancel(self._timer)
            self._timer = None
            self._events.flush()

    def _tick(self, consumer: Any) -> None:
        follow_queues(consumer)
        self._tell(consumer)

    def _tell(self, consumer: Any) -> None:
        """Put the state into the heartbeats that Flower listens to; a new state is told at once."""
        vitals: Vitals = consumer.pool.host.vitals
        state.SOFTWARE_INFO.update(heartbeat_fields(vitals))
        said = (vitals.condition.state, vitals.condition.detail)
        if said != self._said and consumer.event_dispatcher:
            self._said = said
            consumer.event_dispatcher.send("worker-heartbeat", freq=2, **state.SOFTWARE_INFO)


def follow_queues(consumer: Any) -> None:
    """Consume from the queues that match as the tables are now."""
    wanted = set(consumer.pool.config.served_queues(consumer.pool.registrar.limits))
    consumed = {queue.name for queue in consumer.task_consumer.queues}
    for queue in sorted(wanted - consumed):
        consumer.add_task_queue(queue)
    for queue in sorted(consumed - wanted):
        consumer.cancel_task_queue(queue)


def heartbeat_fields(vitals: Vitals) -> dict[str, Any]:
    """Return what a heartbeat carries beside Celery's own fields."""
    return {
        "engine_state": str(vitals.condition.state),
        "engine_detail": vitals.condition.detail,
        "slots": vitals.slots,
        "in_flight": vitals.in_flight,
        "kv_used_tokens": vitals.kv_used_tokens,
        "kv_capacity_tokens": vitals.condition.kv_capacity_tokens,
    }
