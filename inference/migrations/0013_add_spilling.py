"""Jobs that a full queue keeps as rows until it has room; bulk's answer to a full queue."""

from django.db import migrations, models

KNOWN = ("queued", "spilled", "running", "succeeded", "failed", "cancelled", "expired")
KINDS = ("queued", "spilled", "running", "released", "rescued", "succeeded", "failed", "cancelled", "expired")


def spill(apps, schema_editor):
    tiers = apps.get_model("inference", "Tier").objects.using(schema_editor.connection.alias)
    tiers.filter(name="bulk", on_full="hold").update(on_full="spill")


def unspill(apps, schema_editor):
    alias = schema_editor.connection.alias
    apps.get_model("inference", "Tier").objects.using(alias).filter(on_full="spill").update(on_full="hold")
    # What is queued and in no queue, the reconciler publishes.
    apps.get_model("inference", "Job").objects.using(alias).filter(status="spilled").update(status="queued")


class Migration(migrations.Migration):
    dependencies = [
        ("inference", "0012_add_holding"),
    ]

    operations = [
        migrations.AlterField(
            model_name="tier",
            name="on_full",
            field=models.CharField(
                "when full",
                choices=[("reject", "reject"), ("hold", "hold"), ("spill", "spill")],
                default="reject",
                help_text="What its full queues do with more. reject: 429 at once. hold: calls whose client waits for the "
                "answer are taken all the same, on hold: they start in time, or get 429; all others get 429 at once. "
                "spill: these others are kept in the database until the queue has room; calls are held.",
                max_length=8,
            ),
        ),
        migrations.AlterField(
            model_name="job",
            name="status",
            field=models.CharField(choices=[(name, name) for name in KNOWN], default="queued", max_length=12),
        ),
        migrations.AlterField(
            model_name="jobevent",
            name="kind",
            field=models.CharField(choices=[(name, name) for name in KINDS], max_length=12),
        ),
        migrations.AlterField(
            model_name="job",
            name="request",
            field=models.TextField(help_text="The body for the engine, as JSON; empty if it is in the storage."),
        ),
        migrations.RemoveConstraint(model_name="job", name="job_status_known"),
        migrations.AddConstraint(
            model_name="job",
            constraint=models.CheckConstraint(
                condition=models.Q(("status__in", list(KNOWN))), name="job_status_known"
            ),
        ),
        migrations.AddIndex(
            model_name="job",
            index=models.Index(condition=models.Q(("status", "spilled")), fields=["id"], name="job_spilled_id"),
        ),
        migrations.AddIndex(
            model_name="job",
            index=models.Index(
                condition=models.Q(("status", "spilled")),
                fields=["model", "tier", "length", "tenant", "created_at"],
                name="job_spilled",
            ),
        ),
        migrations.AddIndex(
            model_name="job",
            index=models.Index(
                condition=models.Q(("status", "spilled")),
                fields=["model", "start_deadline_at"],
                name="job_spilled_deadline",
            ),
        ),
        migrations.RunPython(spill, unspill),
    ]
