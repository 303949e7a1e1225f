"""What was used and what it costs: prices and budgets that an admin sets, and the sums that `lifecycle` keeps."""

from typing import ClassVar

from django.core.exceptions import ValidationError
from django.core.validators import MinValueValidator
from django.db import models
from django.db.models import F, Q
from django.utils import timezone

from inference import charges
from inference.models.classes import Tier
from inference.models.served import ServedModel
from inference.models.tenants import ApiKey, Tenant


class Price(models.Model):
    """What a model costs from a moment on. What was used before keeps the price that it had."""

    model = models.ForeignKey(ServedModel, on_delete=models.CASCADE, related_name="prices")
    tier = models.ForeignKey(
        Tier,
        on_delete=models.CASCADE,
        null=True,
        blank=True,
        related_name="+",
        help_text="Empty: all tiers that have no price of their own.",
    )
    prompt_per_million = models.DecimalField(
        "per million prompt tokens",
        max_digits=12,
        decimal_places=charges.TOKEN_DECIMALS,
        default=0,
        validators=[MinValueValidator(0)],
    )
    output_per_million = models.DecimalField(
        "per million output tokens",
        max_digits=12,
        decimal_places=charges.TOKEN_DECIMALS,
        default=0,
        validators=[MinValueValidator(0)],
    )
    per_engine_second = models.DecimalField(
        max_digits=12, decimal_places=charges.SECOND_DECIMALS, default=0, validators=[MinValueValidator(0)]
    )
    valid_from = models.DateTimeField(
        default=timezone.now, help_text="UTC. Not in the past: what was used has its price already."
    )

    class Meta:
        ordering: ClassVar = ["model", F("tier").asc(nulls_first=True), "-valid_from"]
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["model", "tier", "valid_from"], name="price_of_tier_once"),
            models.UniqueConstraint(
                fields=["model", "valid_from"], condition=Q(tier__isnull=True), name="price_of_model_once"
            ),
            models.CheckConstraint(
                name="price_not_negative",
                condition=Q(prompt_per_million__gte=0, output_per_million__gte=0, per_engine_second__gte=0),
            ),
        ]

    def __str__(self) -> str:
        return f"{self.model_id} {self.tier_id or 'all tiers'} from {self.valid_from:%Y-%m-%d %H:%M}"


class Budget(models.Model):
    """The most that a tenant, or one key of it, may spend in a month of UTC."""

    tenant = models.ForeignKey(Tenant, on_delete=models.CASCADE, related_name="budgets")
    api_key = models.ForeignKey(
        ApiKey,
        on_delete=models.CASCADE,
        null=True,
        blank=True,
        related_name="budgets",
        verbose_name="API key",
        help_text="Empty: the whole tenant. A key's budget holds beside its tenant's.",
    )
    monthly = models.DecimalField(
        "amount per month",
        max_digits=14,
        decimal_places=2,
        validators=[MinValueValidator(0)],
        help_text="In the currency of the price list. A job whose expected cost would pass it gets 429.",
    )

    class Meta:
        ordering: ClassVar = ["tenant", F("api_key").asc(nulls_first=True)]
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["tenant"], condition=Q(api_key__isnull=True), name="one_budget_of_a_tenant"
            ),
            models.UniqueConstraint(fields=["api_key"], name="one_budget_of_a_key"),
            models.CheckConstraint(name="budget_not_negative", condition=Q(monthly__gte=0)),
        ]

    def __str__(self) -> str:
        return f"budget of {self.api_key or self.tenant_id}"

    def clean(self) -> None:
        """Refuse a key of another tenant."""
        if self.api_key and self.api_key.tenant_id != self.tenant_id:
            told = f"this key is {self.api_key.tenant_id}'s, not {self.tenant_id}'s"
            raise ValidationError({"api_key": told})


class Usage(models.Model):
    """What one key used of one model in one tier on one day of UTC: sums, written with each job's end.

    Names instead of foreign keys: what was used outlives keys, models, tiers and jobs.
    """

    day = models.DateField()
    tenant = models.CharField(max_length=64)
    api_key = models.CharField(max_length=150, help_text="Empty: users of the dashboard.")
    model = models.CharField(max_length=96)
    tier = models.CharField(max_length=32)
    jobs = models.PositiveBigIntegerField(
        help_text="Runs that ended; a job that was retried by hand counts again."
    )
    prompt_tokens = models.PositiveBigIntegerField()
    output_tokens = models.PositiveBigIntegerField()
    engine_ms = models.PositiveBigIntegerField(help_text="Time in the engine, in milliseconds.")
    cost_nano = models.PositiveBigIntegerField(help_text="By the prices of the time, in billionths.")

    class Meta:
        verbose_name_plural = "usage"
        ordering: ClassVar = ["-day", "tenant", "api_key", "model", "tier"]
        indexes: ClassVar = [
            # Operators ask for all tenants of a month.
            models.Index(fields=["day"], name="usage_by_day"),
        ]
        constraints: ClassVar = [
            # Its index is a tenant's usage and spending of a month, and where an addition finds its row.
            models.UniqueConstraint(fields=["tenant", "day", "api_key", "model", "tier"], name="usage_once"),
        ]

    def __str__(self) -> str:
        return f"{self.day} {self.tenant} {self.model} {self.tier}"
