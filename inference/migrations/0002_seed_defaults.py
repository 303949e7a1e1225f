"""Seed the default tiers, length classes, tenant and the bundled model; an admin edits them from there on."""

from django.db import migrations

TIERS = [
    dict(
        name="realtime", position=0, weight=400, engine_priority=0, target_wait_seconds=0.1,
        start_deadline_seconds=30, sync_start_deadline_seconds=30, run_timeout_seconds=300,
        service_tiers=["priority"],
    ),
    dict(
        name="standard", position=1, weight=100, engine_priority=1, target_wait_seconds=0.5,
        start_deadline_seconds=300, sync_start_deadline_seconds=300, run_timeout_seconds=600,
        service_tiers=["default", "auto"],
    ),
    dict(
        name="bulk", position=2, weight=1, engine_priority=2, target_wait_seconds=None,
        start_deadline_seconds=86400, sync_start_deadline_seconds=600, run_timeout_seconds=3600,
        service_tiers=["flex"],
    ),
]  # fmt: skip
LENGTHS = [("short", 511), ("medium", 2048), ("long", None)]
MODEL = dict(
    name="smollm2-135m-instruct", is_default=True, source="smollm2-135m-instruct", max_model_len=8192,
    max_num_seqs=32, dtype="float32", enforce_eager=True, cpu_kv_cache_gib=1.0,
    prefill_tokens_per_second=500, decode_tokens_per_second=10, warmup_answer="Paris",
)  # fmt: skip


def seed(apps, schema_editor):
    get = lambda name: apps.get_model("inference", name).objects  # noqa: E731
    for tier in TIERS:
        get("Tier").create(**tier)
    for name, bound in LENGTHS:
        get("LengthClass").create(name=name, max_prompt_tokens=bound)
    get("Tenant").create(name="default")
    get("ServedModel").create(**MODEL)


class Migration(migrations.Migration):
    dependencies = [("inference", "0001_create_tables")]
    operations = [migrations.RunPython(seed, migrations.RunPython.noop)]
