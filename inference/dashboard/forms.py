"""The form of the playground."""

import re
from collections.abc import Mapping
from typing import Any, Final

from django import forms

from inference import errors, parameters
from inference.dashboard import texts
from inference.limits import Limits

MAX_PROMPT_CHARACTERS: Final = 200_000
DEFAULT_MAX_TOKENS: Final = 128
MOST_MAX_TOKENS: Final = 2**31 - 1
"""Of any model; what one takes is said with its own number."""
TEMPERATURES: Final = parameters.RANGES["temperature"]

FIELDS: Final[Mapping[str, str]] = {
    "messages": "prompt",
    "max_tokens": "max_tokens",
    "max_completion_tokens": "max_tokens",
    "temperature": "temperature",
    "model": "model",
    "tier": "tier",
}
"""Which field of ours an error of the API's is about, by the beginning of its `param`."""

_OF_THE_PROMPT: Final = "messages: "
_MAX_TOKENS: Final = re.compile(r"\bmax_(completion_)?tokens\b")


def _out_of_range(label: str) -> dict[str, str]:
    """Return the errors of a number: two of them stand below each other, so each names its field."""
    return {
        "min_value": f"{label} %(value)s is too small: at least %(limit_value)s.",
        "max_value": f"{label} %(value)s is too large: at most %(limit_value)s.",
    }


class PromptForm(forms.Form):
    """One prompt, to one model, in one tier."""

    prompt = forms.CharField(
        max_length=MAX_PROMPT_CHARACTERS,
        widget=forms.Textarea(attrs={"rows": 5, "placeholder": "Ask something …", "autofocus": True}),
    )
    model = forms.ChoiceField()
    tier = forms.ChoiceField()
    max_tokens = forms.IntegerField(
        label="Max tokens",
        min_value=1,
        max_value=MOST_MAX_TOKENS,
        required=False,
        error_messages=_out_of_range("Max tokens"),
        help_text="Empty: as many as fit.",
    )
    temperature = forms.FloatField(
        min_value=TEMPERATURES.low,
        max_value=TEMPERATURES.high,
        required=False,
        error_messages=_out_of_range("Temperature"),
        widget=forms.NumberInput(attrs={"step": "0.1"}),
        help_text="Empty: the model's own.",
    )

    def __init__(self, data: Any = None, *, limits: Limits) -> None:
        chosen = {"model": limits.default_model, "tier": limits.default_tier}
        super().__init__(data, initial=chosen | {"max_tokens": DEFAULT_MAX_TOKENS})
        self.fields["model"].choices = [(name, name) for name in limits.models]  # type: ignore[attr-defined]
        self.fields["tier"].choices = [(name, name) for name in limits.tiers]  # type: ignore[attr-defined]
        del self.fields["prompt"].widget.attrs["maxlength"]  # a browser cuts what is pasted, and says nothing
        if self.is_bound:  # a part of a page that is in use: the focus stays where it is
            del self.fields["prompt"].widget.attrs["autofocus"]

    def body(self) -> dict[str, Any]:
        """Return the checked form as a chat request."""
        said = {"role": "user", "content": self.cleaned_data["prompt"]}
        optional = {name: self.cleaned_data[name] for name in ("max_tokens", "temperature")}
        asked = {name: value for name, value in optional.items() if value is not None}
        return {"model": self.cleaned_data["model"], "messages": [said], **asked}

    def refuse(self, error: errors.SluiceError) -> None:
        """Show why the request was not accepted, at the field that it is about if there is one."""
        beginning = (error.param or "").partition("[")[0]
        self.add_error(FIELDS.get(beginning), texts.why(error, self._in_labels(error.message)))

    def _in_labels(self, message: str) -> str:
        """Return an error of the API's with the names that people see; that it is about the prompt goes unsaid."""
        return _MAX_TOKENS.sub(str(self["max_tokens"].label), message.removeprefix(_OF_THE_PROMPT))
