"""The language models that are served."""

from typing import ClassVar

from django.db import models

from inference.models.validators import LARGEST, between, list_of_strings, model_name, seconds, whole


class ServedModel(models.Model):
    """A language model and the options of the engines that run it. Fields marked so need an engine restart."""

    name = models.CharField(max_length=96, primary_key=True, validators=[model_name])
    enabled = models.BooleanField(default=True, help_text="Requests for a disabled model are answered 404.")
    is_default = models.BooleanField(
        default=False, help_text="Chosen by the dashboard at first, and served by a worker that names no model."
    )
    source = models.CharField(max_length=512, help_text="Local path or hub name. Needs an engine restart.")
    estimates_tokens = models.BooleanField(
        "estimate prompt tokens",
        default=False,
        help_text="For a model behind an external engine whose tokenizer is not on this machine: "
        "a token is taken to be four bytes of the prompt.",
    )
    max_model_len = models.PositiveIntegerField(
        default=8192,
        validators=whole(1),
        help_text="Most tokens of a prompt and its answer together. Needs an engine restart.",
    )
    max_num_seqs = models.PositiveIntegerField(
        default=32,
        validators=whole(1),
        help_text="Most sequences that an engine runs at once: a worker's slots. Needs an engine restart.",
    )
    max_num_batched_tokens = models.PositiveIntegerField(
        null=True,
        blank=True,
        validators=whole(1),
        help_text="Tokens a step; empty for vLLM's default. Needs an engine restart.",
    )
    dtype = models.CharField(
        max_length=16,
        default="auto",
        help_text="Format of the weights, as bfloat16; auto: the model's own. Needs an engine restart.",
    )
    enforce_eager = models.BooleanField(default=False, help_text="Skip compilation. Needs an engine restart.")
    tensor_parallel_size = models.PositiveSmallIntegerField(
        default=1,
        validators=between(1, 1024),
        help_text="GPUs that an engine is spread over; 1: as many as its worker's device names. "
        "Needs an engine restart.",
    )
    cpu_kv_cache_gib = models.FloatField(
        "CPU KV cache GiB",
        default=1.0,
        validators=between(0.001, LARGEST),
        help_text="Room for the KV cache, on CPUs only. Needs an engine restart.",
    )
    engine_args = models.JSONField(
        default=list,
        blank=True,
        validators=[list_of_strings],
        help_text='More vLLM arguments, as ["--seed", "0"]. Needs an engine restart.',
    )
    stall_seconds = models.FloatField(
        default=60,
        validators=seconds(1),
        help_text="An engine without progress for so long, and for four times what its largest step should take, "
        "while requests run, is restarted; not an external one. Needs an engine restart.",
    )
    kv_margin_tokens = models.PositiveIntegerField(
        "KV margin tokens",
        default=16,
        help_text="Tokens of the KV cache kept for each job beyond what it is expected to need.",
    )
    default_output_tokens = models.PositiveIntegerField(
        default=256,
        validators=whole(1),
        help_text="Output expected of the first jobs of a key, until it is known what they bring.",
    )
    prefill_tokens_per_second = models.FloatField(
        default=4000,
        validators=between(0.001, LARGEST),
        help_text="How fast prompts are read, for estimates until enough calls were measured.",
    )
    decode_tokens_per_second = models.FloatField(
        default=25,
        validators=between(0.001, LARGEST),
        help_text="How fast one sequence is written, likewise.",
    )
    max_in_flight = models.PositiveIntegerField(
        null=True, blank=True, help_text="Most jobs that may run at once over all workers; empty for no bound."
    )
    scales_from_zero = models.BooleanField(
        default=True, help_text="Take jobs while no worker of the model lives; unticked, they get 503."
    )
    engine_start_seconds = models.FloatField(
        default=120,
        validators=seconds(0),
        help_text="How long an engine takes to start: while none is ready, jobs may wait so much longer.",
    )
    max_queued_bytes = models.PositiveBigIntegerField(
        null=True,
        blank=True,
        help_text="Bytes of requests that may wait in all its queues; empty: twice what its engines can hold.",
    )
    emergency_watermark = models.FloatField(
        default=0.9,
        validators=between(0.01, 1),
        help_text="Share of those bytes from which the least urgent tier is refused; the others one by one "
        "above it, the most urgent when all is taken.",
    )
    reserve_share = models.FloatField(
        default=0.05,
        validators=between(0, 0.5),
        help_text="Share of each worker's slots and KV tokens that is kept for tiers that use the reserve; at "
        "least one slot from 8 slots up, none below.",
    )
    warmup_prompt = models.CharField(
        "warm-up prompt",
        max_length=512,
        default="What is the capital of France?",
        help_text="Asked of a fresh engine before it gets work.",
    )
    warmup_answer = models.CharField(
        "warm-up answer",
        max_length=512,
        blank=True,
        default="",
        help_text="Must occur in the greedy answer; empty accepts any.",
    )

    class Meta:
        ordering: ClassVar = ["name"]
        verbose_name = "model"
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["is_default"],
                condition=models.Q(is_default=True),
                name="one_default_model",
                violation_error_message="Another model is the default one: untick it there first.",
            )
        ]

    def __str__(self) -> str:
        return self.name
