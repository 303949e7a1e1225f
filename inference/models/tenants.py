"""Whose work it is: tenants, their people and their keys."""

from typing import ClassVar

from django.conf import settings
from django.db import models
from django.utils import timezone
from rest_framework_api_key.models import AbstractAPIKey, BaseAPIKeyManager

from inference.keys import OpenAIKeyGenerator
from inference.models.classes import Tier
from inference.models.validators import LARGEST, between, slug


class Tenant(models.Model):
    """Whose work it is: fairness between tenants is by weight."""

    name = models.CharField(max_length=64, primary_key=True, validators=[slug])
    weight = models.FloatField(
        default=1,
        validators=between(0.001, LARGEST),
        help_text="Share of service beside the other tenants that have work: twice the weight, twice the service.",
    )
    requests_per_minute = models.PositiveIntegerField(
        null=True, blank=True, help_text="Most requests in any minute, over all its keys; empty for no bound."
    )
    tokens_per_minute = models.PositiveBigIntegerField(
        null=True,
        blank=True,
        help_text="Most tokens in any minute, over all its keys: prompts and expected output, put right by "
        "what was used; empty for no bound.",
    )
    max_queued_jobs = models.PositiveIntegerField(
        null=True, blank=True, help_text="Most of its jobs that may wait at once; empty for no bound."
    )
    max_unfinished_jobs = models.PositiveIntegerField(
        null=True, blank=True, help_text="Most of its jobs that may wait or run at once; empty for no bound."
    )
    created_at = models.DateTimeField(default=timezone.now, editable=False)

    def __str__(self) -> str:
        return self.name


class Membership(models.Model):
    """Which tenant a person who logs in works for: what they submit is its work, and they see its jobs only."""

    user = models.OneToOneField(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="membership")
    tenant = models.ForeignKey(
        Tenant,
        on_delete=models.PROTECT,
        related_name="memberships",
        help_text="Whose jobs the user submits and sees. Operators without one: the default tenant.",
    )

    def __str__(self) -> str:
        return f"{self.user} of {self.tenant_id}"


class ApiKeyManager(BaseAPIKeyManager):
    """Makes keys that look like OpenAI's."""

    key_generator = OpenAIKeyGenerator()


class ApiKey(AbstractAPIKey):
    """A tenant's key, stored hashed and shown once."""

    prefix = models.CharField(max_length=11, unique=True, editable=False)
    tenant = models.ForeignKey(Tenant, on_delete=models.CASCADE, related_name="api_keys")
    tiers = models.ManyToManyField(Tier, blank=True, help_text="Tiers the key may use; none chosen means all.")
    requests_per_second = models.PositiveIntegerField(
        null=True, blank=True, help_text="Most requests in any second; empty for no bound."
    )
    requests_per_minute = models.PositiveIntegerField(
        null=True, blank=True, help_text="Most requests in any minute; empty for no bound."
    )
    tokens_per_minute = models.PositiveBigIntegerField(
        null=True,
        blank=True,
        help_text="Most tokens in any minute: prompts and expected output, put right by what was used; "
        "empty for no bound.",
    )
    is_operator = models.BooleanField(
        "operator", default=False, help_text="The key may pause, resume and drain queues and workers."
    )

    objects: ClassVar[ApiKeyManager] = ApiKeyManager()  # type: ignore[assignment]

    class Meta(AbstractAPIKey.Meta):
        verbose_name = "API key"
        verbose_name_plural = "API keys"
