"""What an admin sets: tiers, length classes, models, caps. `inference.snapshot` carries it to all processes."""

from django.contrib import admin

from inference.models import LengthClass, QueueCap, ServedModel, Tier


@admin.register(Tier)
class TierAdmin(admin.ModelAdmin):
    """Classes of service."""

    list_display = ("name", "weight", "target_wait_seconds", "start_deadline_seconds", "run_timeout_seconds")


@admin.register(LengthClass)
class LengthClassAdmin(admin.ModelAdmin):
    """Classes of prompt length."""

    list_display = ("name", "max_prompt_tokens")


@admin.register(ServedModel)
class ServedModelAdmin(admin.ModelAdmin):
    """Models and the options of their engines."""

    list_display = ("name", "enabled", "is_default", "source", "max_model_len", "max_num_seqs", "dtype")
    list_filter = ("enabled",)
    fieldsets = (
        (None, {"fields": ("name", "enabled", "is_default", "source", "estimates_tokens")}),
        (
            "Engine",
            {
                "fields": (
                    *("max_model_len", "max_num_seqs", "max_num_batched_tokens", "dtype", "enforce_eager"),
                    *("tensor_parallel_size", "cpu_kv_cache_gib", "engine_args"),
                )
            },
        ),
        (
            "Room and estimates",
            {
                "fields": (
                    *("kv_margin_tokens", "default_output_tokens"),
                    *("prefill_tokens_per_second", "decode_tokens_per_second"),
                )
            },
        ),
        ("Warm-up", {"fields": ("warmup_prompt", "warmup_answer")}),
    )


@admin.register(QueueCap)
class QueueCapAdmin(admin.ModelAdmin):
    """Caps of single queues."""

    list_display = ("queue", "max_jobs")
