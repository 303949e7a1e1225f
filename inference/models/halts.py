"""What an admin or operator set for one queue or one worker."""

from django.db import models

from inference.models.validators import queue_name


class Halted(models.Model):
    """What is known of the last pause, drain or resume. `inference.halts` writes it."""

    halted_at = models.DateTimeField("last halted or resumed", null=True, blank=True, editable=False)
    halted_by = models.CharField("by", max_length=200, blank=True, default="", editable=False)
    resumed_at = models.DateTimeField(
        null=True,
        blank=True,
        editable=False,
        help_text="When the last pause ended: start deadlines count anew from then on.",
    )

    class Meta:
        abstract = True


class QueueLimit(Halted):
    """What an admin sets for one queue alone."""

    queue = models.CharField(
        max_length=192, primary_key=True, validators=[queue_name], help_text="<model>.<tier>.<length>"
    )
    max_jobs = models.PositiveIntegerField(
        null=True,
        blank=True,
        help_text="Most jobs that may wait; what becomes of more, the tier says (when full). 0: all get 429; "
        "empty for the tier's default.",
    )
    max_tokens = models.PositiveBigIntegerField(
        null=True,
        blank=True,
        help_text="Most tokens, of prompts and expected output, that may wait; empty for the tier's default.",
    )
    max_bytes = models.PositiveBigIntegerField(
        null=True, blank=True, help_text="Most bytes of requests that may wait; empty for the tier's default."
    )
    max_in_flight = models.PositiveIntegerField(
        null=True, blank=True, help_text="Most jobs that may run at once over all workers; empty for no bound."
    )
    is_paused = models.BooleanField(
        "paused", default=False, help_text="Have nothing claimed; jobs are still taken."
    )
    is_draining = models.BooleanField(
        "draining", default=False, help_text="Take no more jobs (503); those that wait are worked off."
    )

    class Meta:
        verbose_name = "queue"

    def __str__(self) -> str:
        return self.queue

    @property
    def is_halted(self) -> bool:
        """Whether nothing is claimed from it."""
        return self.is_paused


class WorkerLimit(Halted):
    """What an operator said of one worker. Apart from `Worker`, which the worker writes, and which is pruned."""

    worker = models.CharField(max_length=128, primary_key=True)
    is_paused = models.BooleanField(
        "paused", default=False, help_text="Have it claim nothing; its engine stays loaded."
    )
    is_draining = models.BooleanField(
        "draining", default=False, help_text="Have it finish what it runs and claim no more."
    )

    class Meta:
        verbose_name = "halted worker"

    def __str__(self) -> str:
        return self.worker

    @property
    def is_halted(self) -> bool:
        """Whether it claims nothing."""
        return self.is_paused or self.is_draining
