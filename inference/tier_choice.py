"""Which tier a request gets: by its own name, or by OpenAI's `service_tier`. Pure."""

from collections.abc import Set as AbstractSet

from inference import errors
from inference.limits import Limits, TierLimits


def pick(
    limits: Limits, tier: str | None, service_tier: str | None, *, allowed: AbstractSet[str] | None
) -> TierLimits:
    """Return the tier asked for, of those `allowed`; None allows all.

    Raises errors.InvalidRequest for one that does not exist, or two that are not the same; errors.Forbidden for
    one that is not allowed.
    """
    named = _of_service_tier(service_tier, limits)
    name = named if tier is None else tier
    if name not in limits.tiers:
        raise errors.InvalidRequest(
            f"tier must be one of {', '.join(limits.tiers)}, not {name[:40]!r}", param="tier"
        )
    if service_tier is not None and named != name:
        message = f"service_tier {service_tier!r} picks tier {named}, but tier is {name!r}: give one of the two"
        raise errors.InvalidRequest(message, param="service_tier")
    if allowed is not None and name not in allowed:
        message = f"this key may not use tier {name}; it may use {', '.join(sorted(allowed))}"
        raise errors.Forbidden(message, code="tier_not_allowed", param="service_tier" if tier is None else "tier")
    return limits.tiers[name]


def _of_service_tier(asked: str | None, limits: Limits) -> str:
    if asked is None:
        return limits.default_tier
    by_value = {value: tier.name for tier in limits.tiers.values() for value in tier.service_tiers}
    if asked not in by_value:
        known = ", ".join(sorted(by_value))
        raise errors.InvalidRequest(
            f"service_tier must be one of {known}, not {asked[:40]!r}", param="service_tier"
        )
    return by_value[asked]
