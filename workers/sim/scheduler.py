"""Continuous batching over a paged KV cache, as vLLM does it, in numbers only. Pure: no clock, no text, no I/O.

One step computes up to `max_num_batched_tokens`: first what the running sequences need (one token each, or the
next chunk of a prompt), then prompts from the waiting queue. A sequence whose tokens are all computed gains one
token. If blocks run out, the sequence of the lowest priority that came last is preempted: it loses its blocks,
waits again, and is computed anew.
"""

import heapq
import itertools
from dataclasses import dataclass, field

from workers.sim.config import BLOCK_TOKENS, SimConfig


@dataclass(slots=True, eq=False)
class Sequence:
    """One request inside the engine."""

    prompt_tokens: int
    output_tokens: int
    """How many it will produce."""
    priority: int = 0
    produced: int = 0
    computed: int = 0
    """Tokens whose keys and values are in the cache."""
    blocks: int = 0
    arrival: int = 0

    @property
    def missing(self) -> int:
        """Tokens yet to be computed before the next one can be produced."""
        return self.prompt_tokens + self.produced - self.computed

    @property
    def is_done(self) -> bool:
        """Whether it produced all it will."""
        return self.produced >= self.output_tokens

    @property
    def rank(self) -> tuple[int, int]:
        """Smallest is admitted first and preempted last."""
        return (self.priority, self.arrival)


@dataclass(slots=True)
class Step:
    """What one step computes: sequences, each with its number of tokens."""

    seconds: float
    work: list[tuple[Sequence, int]] = field(default_factory=list)


class Scheduler:
    """The engine's state. `plan` a step, let its time pass, `commit` it."""

    def __init__(self, config: SimConfig) -> None:
        self.running: list[Sequence] = []
        self.preemptions = 0
        self.prompt_tokens = self.output_tokens = 0
        """Computed so far."""
        self.total_blocks = config.kv_tokens // BLOCK_TOKENS
        self.free_blocks = self.total_blocks
        self._config = config
        self._arrivals = itertools.count()
        self._waiting: list[tuple[tuple[int, int], Sequence]] = []

    @property
    def waiting(self) -> int:
        """Sequences not in the batch."""
        return len(self._waiting)

    def add(self, sequence: Sequence) -> None:
        """Queue a new sequence."""
        sequence.arrival = next(self._arrivals)
        heapq.heappush(self._waiting, (sequence.rank, sequence))

    def remove(self, sequence: Sequence) -> None:
        """Forget a sequence, wherever it is: its client went. Harmless if it is done."""
        if sequence in self.running:
            self._free(sequence)
            self.running.remove(sequence)
        else:
            self._waiting = [entry for entry in self._waiting if entry[1] is not sequence]
            heapq.heapify(self._waiting)

    def plan(self) -> Step | None:
        """Choose the next step's work; None if there is none."""
        step = Step(seconds=0.0)
        preemptions = self.preemptions
        budget = self._plan_running(step, self._config.max_num_batched_tokens)
        if self.preemptions == preemptions:  # else what was just put out would come straight back
            self._plan_waiting(step, budget)
        if not step.work:
            return None
        prefill = sum(tokens for _, tokens in step.work) - len(step.work)
        step.seconds = 1 / self._config.decode_tps + prefill / self._config.prefill_tps
        return step

    def commit(self, step: Step) -> list[Sequence]:
        """Count the step's tokens and return the sequences that gained one, in the batch's order."""
        gained = []
        for sequence, tokens in step.work:
            if not sequence.blocks:  # removed while the step ran
                continue
            sequence.computed += tokens
            self.prompt_tokens += tokens if not sequence.produced else 0
            if not sequence.missing:
                self.output_tokens += 1
                sequence.produced += 1
                gained.append(sequence)
                if sequence.is_done:
                    self._free(sequence)
        self.running = [sequence for sequence in self.running if not sequence.is_done]
        return gained

    def _plan_running(self, step: Step, budget: int) -> int:
        for sequence in list(self.running):
            tokens = min(sequence.missing, budget)
            if not tokens or not sequence.blocks:  # the budget is spent, or it was preempted for one before it
                continue
            if self._grow_by_force(sequence, tokens):
                step.work.append((sequence, tokens))
                budget -= tokens
        step.work = [(sequence, tokens) for sequence, tokens in step.work if sequence.blocks]
        return budget

    def _plan_waiting(self, step: Step, budget: int) -> None:
        while self._waiting and budget and len(self.running) < self._config.max_num_seqs:
            sequence = self._waiting[0][1]
            tokens = min(sequence.missing, budget)
            if not self._grow(sequence, tokens):
                break
            heapq.heappop(self._waiting)
            self.running.append(sequence)
            step.work.append((sequence, tokens))
            budget -= tokens

    def _grow_by_force(self, sequence: Sequence, tokens: int) -> bool:
        """Give it room for `tokens` more, preempting others or at last itself; False if it was itself."""
        while not self._grow(sequence, tokens):
            victim = max(self.running, key=lambda other: other.rank)
            self._preempt(victim)
            if victim is sequence:
                return False
        return True

    def _grow(self, sequence: Sequence, tokens: int) -> bool:
        needed = -(-(sequence.computed + tokens) // BLOCK_TOKENS) - sequence.blocks
        if needed > self.free_blocks:
            return False
        self.free_blocks -= needed
        sequence.blocks += needed
        return True

    def _preempt(self, sequence: Sequence) -> None:
        self._free(sequence)
        self.running.remove(sequence)
        sequence.computed = 0
        heapq.heappush(self._waiting, (sequence.rank, sequence))
        self.preemptions += 1

    def _free(self, sequence: Sequence) -> None:
        self.free_blocks += sequence.blocks
        sequence.blocks = 0
