"""Write warm-up as pages do. Changes no table."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("inference", "0017_call_edits_history")]

    operations = [
        migrations.AlterField(
            model_name="servedmodel",
            name="warmup_answer",
            field=models.CharField(
                blank=True,
                default="",
                help_text="Must occur in the greedy answer; empty accepts any.",
                max_length=512,
                verbose_name="warm-up answer",
            ),
        ),
        migrations.AlterField(
            model_name="servedmodel",
            name="warmup_prompt",
            field=models.CharField(
                default="What is the capital of France?",
                help_text="Asked of a fresh engine before it gets work.",
                max_length=512,
                verbose_name="warm-up prompt",
            ),
        ),
    ]
