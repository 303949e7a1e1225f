"""The form of the playground."""

from typing import Any, Final

from django import forms

from inference import errors
from inference.api.errors import headers
from inference.limits import Limits

MAX_PROMPT_CHARACTERS: Final = 200_000
DEFAULT_MAX_TOKENS: Final = 128

FIELDS: Final = {
    "messages": "prompt",
    "max_tokens": "max_tokens",
    "max_completion_tokens": "max_tokens",
    "model": "model",
    "tier": "tier",
}
"""Which field of ours an error of the API's is about, by the beginning of its `param`."""


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
        required=False,
        help_text="Empty: as many as fit.",
    )

    def __init__(self, data: Any = None, *, limits: Limits) -> None:
        initial = {"tier": limits.default_tier, "max_tokens": DEFAULT_MAX_TOKENS}
        super().__init__(data, initial=initial)
        self.fields["model"].choices = [(name, name) for name in limits.models]  # type: ignore[attr-defined]
        self.fields["tier"].choices = [(name, name) for name in limits.tiers]  # type: ignore[attr-defined]
        if self.is_bound:  # a part of a page that is in use: the focus stays where it is
            del self.fields["prompt"].widget.attrs["autofocus"]

    def body(self) -> dict[str, Any]:
        """Return the checked form as a chat request."""
        said = {"role": "user", "content": self.cleaned_data["prompt"]}
        limit = self.cleaned_data["max_tokens"]
        asked = {} if limit is None else {"max_tokens": limit}
        return {"model": self.cleaned_data["model"], "messages": [said], **asked}

    def refuse(self, error: errors.SluiceError) -> None:
        """Show why the request was not accepted, at the field that it is about if there is one."""
        seconds = headers(error).get("Retry-After")
        message = (
            f"{error.message} Try again in {seconds} s." if seconds and error.status == 429 else error.message
        )
        beginning = (error.param or "").partition("[")[0]
        self.add_error(FIELDS.get(beginning), message)
