"""Call all edits together what pages call those of one row. Changes no table."""

from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [("inference", "0016_label_kv_fields")]

    operations = [
        migrations.AlterModelOptions(
            name="edit",
            options={"ordering": ["-id"], "verbose_name_plural": "history"},
        ),
    ]
