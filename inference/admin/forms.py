"""Forms of limits: what no field can know of itself is checked here, and said in words."""

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any, ClassVar, Final

from django import forms
from django.forms.fields import InvalidJSONInput
from unfold.widgets import UnfoldAdminTextInputWidget

from inference import clock, errors, fields, snapshot
from inference.models import LengthClass, Tier, list_of_strings
from inference.states import OnFull
from inference.templatetags import shown

FILLING_IN: Final = timedelta(hours=1)
"""What a form that proposes *now* may take until it is sent."""

_OF_THE_WORKER: Final = ("host", "port", "uds", "api-key", "model", "served-model-name", "root-path", "ssl-")
"""Options of vLLM by which a worker reaches its engine; a hyphen at the end: all that begin so."""


class WordsField(forms.Field):
    """A list of words, written with commas between them."""

    def __init__(self, *, encoder: Any = None, decoder: Any = None, **kwargs: Any) -> None:  # noqa: ARG002 - JSON's
        super().__init__(**{**kwargs, "widget": UnfoldAdminTextInputWidget})

    def prepare_value(self, value: Any) -> Any:
        """Return the list as it is written; what was typed stays as it is."""
        return ", ".join(value) if isinstance(value, list) else value

    def to_python(self, value: Any) -> list[str]:
        """Return the words."""
        return value if isinstance(value, list) else [w.strip() for w in (value or "").split(",") if w.strip()]


class JsonField(forms.JSONField):
    """JSON as people type it: too deep, or with too long a number, it is wrong as well."""

    def to_python(self, value: Any) -> Any:
        """Return what it says. Raises ValidationError."""
        try:
            found = super().to_python(value)
            fields.check_values({"it": found})
        except errors.InvalidRequest as error:
            raise forms.ValidationError(error.message) from None
        except (RecursionError, ValueError):
            raise forms.ValidationError(self.error_messages["invalid"], code="invalid") from None
        return found

    def bound_data(self, data: Any, initial: Any) -> Any:
        """Return what is shown again: as it was typed, wrong or not."""
        return initial if self.disabled or data is None else InvalidJSONInput(data)


class LimitForm(forms.ModelForm):
    """A row of limits, whole or in part: a list edits a few of its fields."""

    def would_be(self, field: str) -> Any:
        """Return a field's value as the form would leave it; None also where it is wrong, which is told."""
        if field in self.fields:
            return self.cleaned_data.get(field)
        return getattr(self.instance, field)

    def refuse(self, field: str, told: str) -> None:
        """Say what is wrong, at the field if the form has it."""
        self.add_error(field if field in self.fields else None, told)

    def check_order(self, smaller: str, larger: str, why: str) -> None:
        """Refuse a smaller bound above a larger one; `why` says what would come of it."""
        small, large = self.would_be(smaller), self.would_be(larger)
        if small is not None and large is not None and small > large:
            name = larger.removesuffix("_seconds").replace("_", " ")
            unit = " s" if larger.endswith("_seconds") else ""
            self.refuse(smaller, f"{small:g}{unit} is more than the {name}, {large:g}{unit}: {why}.")


class TierForm(LimitForm):
    """A tier, checked against the others."""

    class Meta:
        field_classes: ClassVar = {"service_tiers": WordsField}
        help_texts: ClassVar = {
            "service_tiers": "OpenAI service_tier values that pick this tier, with commas between them, as "
            "default, auto; each value picks one tier."
        }

    def clean_service_tiers(self) -> list[str]:
        """Refuse a value that picks another tier already: nothing would say which one wins."""
        values: list[str] = self.cleaned_data["service_tiers"] or []
        for other in Tier.objects.exclude(pk=self.instance.pk):
            if doubled := sorted(set(values) & set(other.service_tiers)):
                picked = ", ".join(doubled)
                raise forms.ValidationError(f"{picked} already picks tier {other}: remove it there first.")
        return values

    def clean(self) -> dict[str, Any]:
        """Refuse waits that contradict each other."""
        cleaned: dict[str, Any] = super().clean() or {}
        target = self.would_be("target_wait_seconds")
        if target is not None and target < 0:
            self.refuse("target_wait_seconds", "A wait cannot be negative; leave it empty for the start deadline.")
        self.check_order("target_wait_seconds", "start_deadline_seconds", "jobs would expire first")
        self.check_order(
            "target_wait_seconds", "max_wait_seconds", "jobs that would miss the objective are not even taken"
        )
        self.check_order("max_wait_seconds", "start_deadline_seconds", "jobs would be taken that expire first")
        self._check_hold()
        return cleaned

    def _check_hold(self) -> None:
        """Refuse a hold that ends after its calls have expired, and one for nobody."""
        self.check_order("hold_seconds", "sync_start_deadline_seconds", "calls on hold would expire first")
        if self.would_be("on_full") == OnFull.HOLD and self.would_be("max_held_jobs") == 0:
            self.refuse("max_held_jobs", "With none on hold, full queues refuse all: choose reject instead.")


class LengthClassForm(LimitForm):
    """A length class, whose bound stays between its neighbours'."""

    def clean_max_prompt_tokens(self) -> int | None:
        """Refuse a bound that no prompt fits, that another class has, or beyond a neighbour's."""
        bound: int | None = self.cleaned_data["max_prompt_tokens"]
        if bound == 0:
            raise forms.ValidationError("No prompt has 0 tokens.")
        others = LengthClass.objects.exclude(pk=self.instance.pk)
        if bound is None and (other := others.filter(max_prompt_tokens=None).first()):
            raise forms.ValidationError(f"{other} has no bound already: every longer prompt is its own.")
        if self.instance.pk:
            self._check_neighbours(bound, list(others))
        return bound

    def _check_neighbours(self, bound: int | None, others: list[LengthClass]) -> None:
        was = _as_number(LengthClass.objects.filter(pk=self.instance.pk).values_list("max_prompt_tokens").get()[0])
        for other in others:
            its = _as_number(other.max_prompt_tokens)
            if (was < its) != (_as_number(bound) < its):
                told = (
                    f"{_said(bound)} is beyond {other} ({_said(other.max_prompt_tokens)}): change that one first."
                )
                raise forms.ValidationError(told)


def _as_number(bound: int | None) -> float:
    return float("inf") if bound is None else bound


def _said(bound: int | None) -> str:
    return "no bound" if bound is None else shown.count(bound)


class ServedModelForm(LimitForm):
    """A model with options that its engine would start with."""

    class Meta:
        field_classes: ClassVar = {"engine_args": JsonField}

    def clean_engine_args(self) -> list[str]:
        """Refuse what would put the engine where its worker does not look for it."""
        typed: Any = self.cleaned_data["engine_args"] or []
        list_of_strings(typed)
        if found := _of_the_worker(typed):
            told = f"{found} is set by the worker, which reaches its engine by it: leave it out."
            raise forms.ValidationError(told)
        return list(typed)

    def clean(self) -> dict[str, Any]:
        """Refuse what vLLM refuses, before an engine fails on it."""
        cleaned: dict[str, Any] = super().clean() or {}
        batched, sequences = self.would_be("max_num_batched_tokens"), self.would_be("max_num_seqs")
        if batched is not None and sequences is not None and batched < sequences:
            told = f"{batched} is less than max num seqs, {sequences}: a step must have a token for each sequence."
            self.refuse("max_num_batched_tokens", told)
        return cleaned


def _of_the_worker(arguments: Iterable[str]) -> str | None:
    """Return the first option of `_OF_THE_WORKER`; vLLM takes underscores for hyphens, and shortened names."""
    for argument in arguments:
        option = argument.partition("=")[0]
        name = option.removeprefix("--").replace("_", "-").strip()
        is_taken = any(
            name.startswith(own) if own.endswith("-") else own.startswith(name) for own in _OF_THE_WORKER
        )
        if option.startswith("--") and name and is_taken:
            return option
    return None


class QueueLimitForm(LimitForm):
    """Limits of a queue that exists."""

    class Meta:
        help_texts: ClassVar = {"queue": "model.tier.length, by their names."}

    def clean_queue(self) -> str:
        """Refuse the name of no queue: it would hold nothing back."""
        queue: str = self.cleaned_data["queue"]
        names = snapshot.read().queues()
        if queue not in names:
            raise forms.ValidationError(f"There is no queue {queue}. There are: {', '.join(names)}.")
        return queue


class PriceForm(LimitForm):
    """A price from now on, or from a moment to come."""

    def clean_valid_from(self) -> datetime:
        """Refuse a moment that has passed; one that may have while the form was filled in is now."""
        wanted: datetime = self.cleaned_data["valid_from"]
        now = clock.reckoned()
        if wanted < now - FILLING_IN:
            past = f"{wanted:%Y-%m-%d %H:%M} is in the past: it is {now:%Y-%m-%d %H:%M} (UTC)"
            raise forms.ValidationError(
                f"{past}. What was used has its price already: take now, or a moment to come."
            )
        return max(wanted, now)


class TenantForm(LimitForm):
    """A tenant with caps that can be reached."""

    def clean(self) -> dict[str, Any]:
        """Refuse a cap on waiting jobs that the one on waiting and running ones hides."""
        cleaned: dict[str, Any] = super().clean() or {}
        self.check_order("max_queued_jobs", "max_unfinished_jobs", "it would never be reached")
        return cleaned
