"""Pauses, drains and resumes: who did them and when, of workers too; keys that may."""

from django.db import migrations, models


def halted_at():
    return models.DateTimeField("last halted or resumed", null=True, blank=True, editable=False)


def halted_by():
    return models.CharField("by", max_length=200, blank=True, default="", editable=False)


def resumed_at():
    return models.DateTimeField(
        null=True,
        blank=True,
        editable=False,
        help_text="When the last pause ended: start deadlines count anew from then on.",
    )


class Migration(migrations.Migration):
    dependencies = [
        ("inference", "0005_add_guards"),
    ]

    operations = [
        migrations.CreateModel(
            name="WorkerLimit",
            fields=[
                ("halted_at", halted_at()),
                ("halted_by", halted_by()),
                ("resumed_at", resumed_at()),
                ("worker", models.CharField(max_length=128, primary_key=True, serialize=False)),
                (
                    "is_paused",
                    models.BooleanField(
                        "paused", default=False, help_text="It claims nothing; its engine runs on."
                    ),
                ),
                (
                    "is_draining",
                    models.BooleanField(
                        "draining", default=False, help_text="It finishes what it runs and claims no more."
                    ),
                ),
            ],
            options={"abstract": False},
        ),
        migrations.AddField("queuelimit", "halted_at", halted_at()),
        migrations.AddField("queuelimit", "halted_by", halted_by()),
        migrations.AddField("queuelimit", "resumed_at", resumed_at()),
        migrations.AddField(
            "apikey",
            "is_operator",
            models.BooleanField(
                "operator", default=False, help_text="The key may pause, resume and drain queues and workers."
            ),
        ),
        migrations.AlterField(
            "worker",
            "state",
            models.CharField(
                max_length=12,
                default="starting",
                choices=[
                    ("starting", "starting"),
                    ("loading", "loading"),
                    ("warming", "warming"),
                    ("ready", "ready"),
                    ("paused", "paused"),
                    ("draining", "draining"),
                    ("stopped", "stopped"),
                    ("failed", "failed"),
                ],
            ),
        ),
    ]
