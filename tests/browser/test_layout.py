"""At every width, with as much as there may be: nothing leaves its card, no page scrolls sideways."""

from collections.abc import Callable, Iterator
from typing import Final

import pytest

from inference.dashboard import views
from tests.acceptance import fleet
from tests.acceptance.stacks import Stack
from tests.browser.chromium import PATIENCE_MS, Visitor

pytestmark = [pytest.mark.timeout(240), pytest.mark.once]

Admin = Callable[..., Visitor]

WIDTHS: Final = (360, 390, 768, 1024, 1100, 1280, 1440, 1920)

FILL: Final = r"""() => {
    const fill = (found, text) => document.querySelectorAll(found).forEach((each) => { each.textContent = text })
    const add = (found, html) => document.querySelectorAll(found).forEach((each) => { each.innerHTML = html })
    fill('.tiles dd:nth-child(2)', '123\u202f456')
    fill('.tiles dd:nth-child(3)', '123\u202f456\u202f789 tokens')
    fill('.group th', 'a-model-with-a-name-of-sixty-characters-and-without-any-space-b')
    document.querySelectorAll('.queues tbody tr:not(.group)').forEach((row) => row.classList.remove('idle'))
    fill('.queues td.number', '123\u202f456')
    add('.queues .notes', '<span class="chip paused">paused</span> <span class="chip draining">draining</span> '
        + '<span class="chip missed">93.7 % in time, missed</span> <span class="why">no free KV cache · a new job '
        + 'about 119 min</span> <span class="why">123\u202f456 spilled</span>')
    fill('.jobs .chip', 'succeeded')
    fill('.jobs [data-label=Queue]', 'standard · medium')
    fill('.jobs [data-label=Submitted]', '119 min ago')
    fill('.jobs [data-label="Queue time"]', '119 min so far')
    fill('.jobs [data-label=Tokens]', '119\u202f000 → 128\u202f000')
    add('.jobs .notes', '<span class="why">reserved slots · 123\u202f456 before it · in about 119 min</span>')
    fill('.workers .state .chip', 'warming')
    add('.workers [data-label="In flight"]', '<meter></meter> 512 / 512')
    fill('.workers [data-label="KV tokens"]', '2\u202f265\u202f360 / 2\u202f651\u202f360')
    fill('.workers .notes', 'the engine did not become ready: not enough memory '.repeat(4))
}"""
"""Puts the longest that there may be into the board, in place of what a small stack has."""

STICK_OUT: Final = """() => {
    const told = (each) => `${each.tagName}.${each.className} ${each.textContent.trim().slice(0, 40)}`
    const scrolls = (each) => getComputedStyle(each).overflowX !== 'visible'
    const found = []
    for (const card of document.querySelectorAll('.card, .tiles > div, .bar, .edit, .part')) {
        const style = getComputedStyle(card), box = card.getBoundingClientRect()
        const left = box.left + parseFloat(style.paddingLeft), right = box.right - parseFloat(style.paddingRight)
        for (const each of card.querySelectorAll('*:not(.hidden):not(option)')) {
            const its = each.getBoundingClientRect()
            if (!its.width || its.width < 2 || each.closest('.hidden, svg, thead') && its.height < 2) continue
            if (its.left < left - 1 || its.right > right + 1) found.push(`out: ${told(each)}`)
            if (each.clientWidth && each.scrollWidth > each.clientWidth + 1 && !scrolls(each))
                found.push(`too narrow: ${told(each)}`)
        }
    }
    const over = document.documentElement.scrollWidth - window.innerWidth
    return over > 0 ? [...found, `the page scrolls sideways by ${over}`] : found
}"""
"""What leaves the room that its card has for it, or has less room than its text needs."""


@pytest.fixture
def full_board(stack: Stack) -> Iterator[None]:
    """A stack with more jobs that wait than a page shows, each with a reason."""
    stack.manage("queues", "pause", "*.bulk.*")
    jobs = fleet.submit(stack, views.JOBS_SHOWN + 2, tiers=("bulk",))
    yield
    with stack.client() as client:
        for job in jobs:
            client.post(f"/api/v1/jobs/{job}/cancel/")
    stack.manage("queues", "resume", "*.bulk.*")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_nothing_leaves_its_card_at_any_width(admin: Admin, stack: Stack, full_board: None, scheme: str) -> None:
    person = admin(scheme=scheme)
    page = person.page
    page.get_by_role("button", name="Open job").first.click()
    page.locator("#job-facts").wait_for(timeout=PATIENCE_MS)
    found = {}
    for width in WIDTHS:
        page.set_viewport_size({"width": width, "height": 900})
        page.evaluate(FILL)
        found[width] = page.evaluate(STICK_OUT)
        person.photograph(f"board-full-{scheme}-{width}")
    assert found == {width: [] for width in WIDTHS}


def test_usage_fits_at_any_width(admin: Admin, stack: Stack) -> None:
    person = admin("/dashboard/usage/")
    found = {}
    for width in WIDTHS:
        person.page.set_viewport_size({"width": width, "height": 900})
        person.photograph(f"usage-{width}")
        found[width] = person.page.evaluate(STICK_OUT)
    assert found == {width: [] for width in WIDTHS}
