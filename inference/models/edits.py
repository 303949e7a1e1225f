"""Who changed which limit, from which value to which."""

from typing import ClassVar

from django.db import models
from django.utils import timezone


class EditKind(models.TextChoices):
    """What became of the row."""

    CREATED = "created"
    CHANGED = "changed"
    DELETED = "deleted"


class Edit(models.Model):
    """One change of one row that people edit, written in the same transaction. `inference.edits` writes it."""

    at = models.DateTimeField(default=timezone.now)
    by = models.CharField(max_length=200, help_text="A user, a key or a command.")
    kind = models.CharField(max_length=8, choices=EditKind.choices)
    table = models.CharField("what", max_length=32, help_text="The model's name.")
    row = models.CharField(max_length=192, help_text="The row's name.")
    values = models.JSONField(default=dict, help_text='Changed fields, as {"weight": [1, 3]}: from and to.')
    undoes = models.ForeignKey(
        "self",
        on_delete=models.SET_NULL,
        null=True,
        blank=True,
        related_name="+",
        help_text="The edit it reverts.",
    )

    class Meta:
        ordering: ClassVar = ["-id"]
        verbose_name_plural = "history"
        indexes: ClassVar = [models.Index(fields=["table", "row", "-id"], name="edit_by_row")]  # a row's history

    def __str__(self) -> str:
        return f"{self.table} {self.row} {self.kind} by {self.by}"
