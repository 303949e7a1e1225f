from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("inference", "0003_add_memberships")]
    operations = [
        migrations.AddField(
            model_name="servedmodel",
            name="estimates_tokens",
            field=models.BooleanField(
                default=False,
                help_text="For a model behind an external engine whose tokenizer is not on this machine: "
                "a token is taken to be four bytes of the prompt.",
                verbose_name="estimate prompt tokens",
            ),
        ),
        migrations.AlterField(
            model_name="worker",
            name="engine",
            field=models.CharField(
                choices=[("vllm", "vllm"), ("sim", "sim"), ("external", "external")], max_length=16
            ),
        ),
    ]
