"""What becomes of a request before it is admitted: checked, counted, sorted into its queue. Writes nothing."""

import contextlib
import json
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

import uuid_utils.compat

from inference import broker, errors, estimates, fields, routing, tier_choice, tokens, validation, vocabulary
from inference.lifecycle import NewJob
from inference.limits import (
    NO_KEY_LIMITS,
    NO_TENANT_LIMITS,
    KeyLimits,
    Limits,
    ModelLimits,
    TenantLimits,
    TierLimits,
)
from inference.states import Endpoint


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """Who asks: a tenant by one of its keys, or a user of it at the dashboard."""

    tenant: str
    api_key_id: str | None = None
    tiers: frozenset[str] | None = None
    """Tiers the key may use; None is all."""
    tenant_weight: float = 1.0
    key_limits: KeyLimits = NO_KEY_LIMITS
    tenant_limits: TenantLimits = NO_TENANT_LIMITS
    is_operator: bool = False
    """May pause, resume and drain queues and workers, and see who did."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Submission:
    """One request as a client sent it."""

    endpoint: Endpoint
    body: Mapping[str, Any] = field(repr=False)
    """The parsed JSON body. Not trusted: anything JSON can hold."""
    tier: str | None = None
    """By its own name; None: as the body's `service_tier` says, which may name no other one."""
    stream: bool | None = None
    """None: as the body's `stream` says."""
    synchronous: bool = False
    """The client waits for the answer: the tier's synchronous start deadline holds."""
    mailbox: str = ""
    """The web process that forwards the job's events, if one waits."""
    job_id: uuid.UUID | None = None
    """Known before, to one who listens from the first event on; None makes one."""


@dataclass(frozen=True, slots=True)
class Draft:
    """A checked request whose tokens are not counted yet."""

    submission: Submission
    request: validation.Request
    model: ModelLimits
    tier: TierLimits
    counter: tokens.Counter
    """The model's."""
    prompt: tokens.Prompt | None
    """None: the prompt came as token ids."""
    proven_tokens: int = 0
    """At least so many, more than fit: its size says so, and it need not be tokenised. 0: it does not say so."""
    cut: int | None = None
    """The engine leaves no more of the prompt; None: it takes all of it."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """A request that may be admitted."""

    job_id: uuid.UUID
    queue: routing.QueueName
    caller: Caller
    draft: Draft
    demand: estimates.Demand
    body: str = field(repr=False)
    """For the engine, as JSON text."""
    streamed: bool
    created_at: datetime

    @property
    def model(self) -> ModelLimits:
        """The model asked for."""
        return self.draft.model

    @property
    def request_bytes(self) -> int:
        """Size of the body for the engine."""
        return len(self.body) if self.body.isascii() else len(self.body.encode(errors="surrogatepass"))


def prepare(caller: Caller, items: Sequence[Submission], *, limits: Limits, now: datetime) -> list[Prepared]:
    """Check, count and route all items. Raises errors of `inference.errors`, naming the item if there are many."""
    drafts = []
    for i, item in enumerate(items):
        with _named(i, items):
            drafts.append(_draft(caller, item, limits))
    counts = _count(drafts)
    prepared = []
    for i, (draft, prompt_tokens) in enumerate(zip(drafts, counts, strict=True)):
        with _named(i, items):
            left = prompt_tokens if draft.cut is None else min(prompt_tokens, draft.cut)
            prepared.append(_prepared(caller, draft, left, limits, now))
    return prepared


@contextlib.contextmanager
def _named(place: int, items: Sequence[Submission]) -> Iterator[None]:
    """Say in an error which of many items it is about."""
    try:
        yield
    except errors.SluiceError as error:
        if len(items) > 1:
            error.message = f"jobs[{place}]: {error.message}"
            error.param = f"jobs[{place}].{error.param}" if error.param else f"jobs[{place}]"
        raise


def _draft(caller: Caller, submission: Submission, limits: Limits) -> Draft:
    request = validation.clean(submission.endpoint, submission.body)
    model = limits.models.get(request.model)
    if model is None:
        message = f"model {request.model[:100]!r} does not exist or is not served"
        raise errors.NotFound(message, code="model_not_found", param="model")
    tier = tier_choice.pick(limits, submission.tier, request.service_tier, allowed=caller.tiers)
    counter = tokens.counter(model)
    if counter.vocabulary:
        vocabulary.check(request.body, counter.vocabulary, model.name)
    prompt = _prompt(request, counter)
    least = counter.at_least(prompt) if prompt else 0
    proven = least if least > model.max_model_len else 0
    return Draft(submission, request, model, tier, counter, prompt, proven, _cut(request, model))


def _prompt(request: validation.Request, counter: tokens.Counter) -> tokens.Prompt | None:
    if request.endpoint is Endpoint.CHAT:
        return counter.chat_prompt(request.body)
    prompt = request.body["prompt"]
    special = bool(request.body.get("add_special_tokens", True))
    return tokens.Prompt(prompt, special) if isinstance(prompt, str) else None


def _count(drafts: Sequence[Draft]) -> list[int]:
    """Prompt tokens of each; those of one model together, which uses all cores."""
    counts = [draft.proven_tokens if draft.prompt else len(draft.request.body["prompt"]) for draft in drafts]
    for name, counter in {draft.model.name: draft.counter for draft in drafts}.items():
        open_ = [(i, d) for i, d in enumerate(drafts) if d.model.name == name and not d.proven_tokens]
        ours = [(i, draft.prompt) for i, draft in open_ if draft.prompt]
        counted = counter.count([prompt for _, prompt in ours])
        for (i, _), count in zip(ours, counted, strict=True):
            counts[i] = count
    return counts


def _cut(request: validation.Request, model: ModelLimits) -> int | None:
    """Return how many tokens the engine may leave of the prompt, None for all. Raises errors.InvalidRequest."""
    asked, fits = request.body.get("truncate_prompt_tokens"), model.max_model_len - 1
    if asked is None or 0 < asked <= model.max_model_len:
        return asked
    if asked != -1:
        rule = f"must be from 1 to {model.max_model_len}, or -1 for what fits"
        raise fields.wrong("truncate_prompt_tokens", rule, asked)
    return fits  # told as a number: an engine left to itself may leave no token for the answer


def _prepared(caller: Caller, draft: Draft, prompt_tokens: int, limits: Limits, now: datetime) -> Prepared:
    _check_length(draft, prompt_tokens)
    wanted = draft.submission.stream
    streamed = draft.request.stream if wanted is None else wanted
    return Prepared(
        job_id=draft.submission.job_id or uuid_utils.compat.uuid7(),
        queue=routing.QueueName(draft.model.name, draft.tier.name, _length(prompt_tokens, limits)),
        caller=caller,
        draft=draft,
        demand=estimates.Demand(prompt_tokens, draft.request.max_tokens),
        body=_engine_body(draft, stream=streamed),
        streamed=streamed,
        created_at=now,
    )


def finish(
    item: Prepared, learned: estimates.Learned, *, hold_seconds: float | None, is_spilled: bool
) -> tuple[NewJob, broker.Entry]:
    """Return the row and the entry of a request that was admitted, estimated by what is known now."""
    draft, caller = item.draft, item.caller
    expected = learned.expected_tokens(draft.model, item.demand)
    job = NewJob(
        id=item.job_id,
        tenant=caller.tenant,
        api_key_id=caller.api_key_id,
        model=item.queue.model,
        tier=item.queue.tier,
        length=item.queue.length,
        endpoint=draft.request.endpoint,
        request=item.body,
        request_bytes=item.request_bytes,
        streamed=item.streamed,
        prompt_tokens=item.demand.prompt_tokens,
        expected_tokens=expected,
        estimate_seconds=learned.rates(draft.model).seconds(item.demand.prompt_tokens, expected),
        created_at=item.created_at,
        start_deadline_at=item.created_at + _may_wait(draft),
        is_spilled=is_spilled,
        hold_ends_at=None if hold_seconds is None else item.created_at + timedelta(seconds=hold_seconds),
    )
    return job, _entry(job, item)


def _check_length(draft: Draft, prompt_tokens: int) -> None:
    """Refuse what the engine could not hold. Raises errors.InvalidRequest."""
    request, model, least = draft.request, draft.model, draft.request.body.get("min_tokens") or 1
    asked = request.max_tokens or least
    how_sure = "about " if model.estimates_tokens else "at least " if draft.proven_tokens else ""
    has = f"has {how_sure}{prompt_tokens} tokens"
    takes = f"model {model.name} takes at most {model.max_model_len}"
    if prompt_tokens >= model.max_model_len:
        where = "messages" if request.endpoint is Endpoint.CHAT else "prompt"
        raise _too_long(where, f"{where}: the prompt {has}, but {takes} with at least one for the answer")
    if prompt_tokens + asked > model.max_model_len:
        where = request.max_tokens_field if request.max_tokens else "min_tokens"
        together = prompt_tokens + asked
        raise _too_long(where, f"{where} is {asked} and the prompt {has}: {together} together, but {takes}")


def _too_long(where: str, message: str) -> errors.InvalidRequest:
    return errors.InvalidRequest(message, code="context_length_exceeded", param=where)


def _length(prompt_tokens: int, limits: Limits) -> str:
    try:
        return routing.length_class(prompt_tokens, list(limits.lengths.values()))
    except ValueError as error:
        message = f"no length class takes a prompt of {prompt_tokens} tokens"
        raise errors.InvalidRequest(message, code="context_length_exceeded") from error


def _engine_body(draft: Draft, *, stream: bool) -> str:
    body = {**draft.request.body, "stream": stream}
    if not stream:
        body.pop("stream_options", None)  # engines refuse it then
    if draft.cut is not None:
        body["truncate_prompt_tokens"] = draft.cut
    return json.dumps(body, ensure_ascii=False, separators=(",", ":"))


def _may_wait(draft: Draft) -> timedelta:
    tier = draft.tier
    seconds = tier.sync_start_deadline_seconds if draft.submission.synchronous else tier.start_deadline_seconds
    return timedelta(seconds=seconds)


def _entry(job: NewJob, item: Prepared) -> broker.Entry:
    return broker.Entry(
        job_id=job.id,
        queue=str(item.queue),
        tenant=job.tenant,
        prompt_tokens=job.prompt_tokens,
        expected_tokens=job.expected_tokens,
        estimate=job.estimate_seconds,
        mailbox=item.draft.submission.mailbox,
        streamed=job.streamed,
        tenant_weight=item.caller.tenant_weight,
        request_bytes=item.request_bytes,
    )
