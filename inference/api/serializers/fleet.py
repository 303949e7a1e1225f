"""Queues and workers, as the native API shows them."""

from typing import Any

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from inference.objectives import Verdict
from inference.rows import WorkerRow


class AttainedSerializer(serializers.Serializer[Any]):
    """How an objective stands over one window."""

    window = serializers.CharField(help_text="Its name.")
    seconds = serializers.IntegerField(help_text="Its length.")
    jobs = serializers.IntegerField(help_text="That started, or went after their time without a start.")
    in_time = serializers.IntegerField(help_text="Of them, those that started in time.")
    share = serializers.FloatField(allow_null=True, help_text="In time of all; null without jobs.")
    verdict = serializers.ChoiceField([verdict.value for verdict in Verdict])


class ObjectiveSerializer(serializers.Serializer[Any]):
    """What a queue's tier aims at, and how the queue keeps it."""

    share = serializers.FloatField(allow_null=True, help_text="Of jobs that should start in time; null for none.")
    within_seconds = serializers.FloatField(
        allow_null=True, help_text="A start within it is in time; null: one before the start deadline."
    )
    windows = AttainedSerializer(many=True)


class QueueSerializer(serializers.Serializer[Any]):
    """One queue now."""

    queue = serializers.CharField()
    model = serializers.CharField()
    tier = serializers.CharField()
    length = serializers.CharField()
    jobs = serializers.IntegerField(help_text="Admitted, not started.")
    tokens = serializers.IntegerField(help_text="Prompt and expected output tokens of those jobs.")
    backlog_seconds = serializers.FloatField(help_text="Age of the oldest of them; 0 for a paused queue.")
    leases = serializers.IntegerField(help_text="Jobs held by workers.")
    cap = serializers.IntegerField(help_text="Most jobs that may wait.")
    own_cap = serializers.IntegerField(
        allow_null=True, help_text="The same, set for this queue alone; it holds whatever wait is expected."
    )
    on_hold = serializers.IntegerField(
        help_text="Calls among those that wait that it took beyond that, for a while."
    )
    capacity = serializers.IntegerField(
        allow_null=True,
        help_text="Jobs that its live workers start within the tier's max wait; null where that has no bound.",
    )
    claims_per_second = serializers.FloatField(help_text="Over the last half minute: how fast it drains.")
    objective = ObjectiveSerializer()
    spilled = serializers.IntegerField(help_text="Jobs kept out of it while it is full; not counted above.")
    watermark = serializers.CharField(
        help_text="How full it is: `low` from 0.5 of what may wait, `warning` from 0.7, `emergency` from 0.9."
    )
    is_paused = serializers.BooleanField(help_text="Nothing is claimed.")
    is_draining = serializers.BooleanField(help_text="No more jobs are taken.")
    waiting_reason = serializers.CharField(help_text="What holds its first job now; empty if none waits.")
    waiting_detail = serializers.CharField(help_text="The same in words.")
    expected_wait_seconds = serializers.FloatField(
        allow_null=True,
        help_text="Of a job that came now, behind all of its tier; null if nobody can tell.",
    )


class HaltSerializer(serializers.Serializer[Any]):
    """A queue or a worker after a pause, a drain or a resume."""

    name = serializers.CharField(source="pk")
    is_paused = serializers.BooleanField()
    is_draining = serializers.BooleanField()
    halted_by = serializers.CharField(help_text="Who did the last of these.")
    halted_at = serializers.DateTimeField(allow_null=True)


class RatesSerializer(serializers.Serializer[Any]):
    """How fast a model's engines are for one sequence under the load there is, in tokens per second."""

    prefill_tokens_per_second = serializers.FloatField(help_text="What estimates go by.")
    decode_tokens_per_second = serializers.FloatField(help_text="Likewise.")
    measured_calls = serializers.IntegerField(help_text="From about so many calls; 0: as configured, so far.")
    configured_prefill_tokens_per_second = serializers.FloatField()
    configured_decode_tokens_per_second = serializers.FloatField()


class WorkerSerializer(serializers.Serializer[Any]):
    """One worker as it last reported itself."""

    name = serializers.CharField()
    model = serializers.CharField()
    engine = serializers.CharField()
    device = serializers.CharField()
    serve = serializers.ListField(child=serializers.CharField(), help_text="Patterns of the queues it serves.")
    state = serializers.CharField()
    state_detail = serializers.CharField()
    slots = serializers.IntegerField()
    in_flight = serializers.IntegerField()
    kv_capacity_tokens = serializers.IntegerField()
    kv_used_tokens = serializers.IntegerField()
    ready_at = serializers.DateTimeField(allow_null=True)
    heartbeat_age_seconds = serializers.SerializerMethodField()
    model_rates = serializers.SerializerMethodField()
    stale = serializers.BooleanField(help_text="Silent for too long: what it says of itself is old.")

    @extend_schema_field(RatesSerializer(allow_null=True))
    def get_model_rates(self, worker: WorkerRow) -> Any:
        """Return the rates of the worker's model, over all its workers; None while Redis is away."""
        found = self.context["rates"].get(worker.model)
        return RatesSerializer(found).data if found else None

    def get_heartbeat_age_seconds(self, worker: WorkerRow) -> float:
        """Return how long ago the worker reported."""
        return round(worker.silent_seconds, 3)
