"""At every width, with as much as there may be: nothing leaves its card, no page scrolls sideways."""

from collections.abc import Callable, Iterator
from typing import Final

import pytest
from playwright.sync_api import expect

from inference.dashboard import views
from tests.acceptance import fleet
from tests.acceptance.stacks import Stack
from tests.browser.chromium import PATIENCE_MS, Visitor

pytestmark = pytest.mark.once

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

OF_MANY_MODELS: Final = """() => document.querySelectorAll('.jobs .notes').forEach((each) => {
    const name = 'a-model-with-a-name-of-sixty-characters-and-without-any-space-b'
    each.insertAdjacentHTML('afterbegin', `<span class="of-model">${name}</span>`)
})"""
"""Names the model of each job, as the board does where there are several."""

UNNAMED: Final = """() => [...document.querySelectorAll('.list [data-label]:not([data-label=Submitted])')]
    .filter((each) => each.offsetParent && getComputedStyle(each, '::before').display === 'none')
    .map((each) => each.dataset.label)"""
"""Numbers of the board that stand without their label."""

LONG: Final = "w" * 70 + " and a few words more, so many that they take three lines or four of a phone's"

CUT: Final = """([list, text]) => [...list.querySelectorAll('tbody :is(th, td)')].flatMap((cell) => {
    const isFixed = cell.querySelector('input, span') || getComputedStyle(cell).whiteSpace === 'nowrap'
    if (!isFixed) (cell.querySelector('a, div div') ?? cell).textContent = text
    const its = cell.getBoundingClientRect(), there = list.getBoundingClientRect()
    const inside = new Range()
    inside.selectNodeContents(cell)
    const its_text = inside.getBoundingClientRect()
    const out = its_text.left < its.left || its_text.right > its.right || its.right > there.right + 1
    const cut = its_text.top < its.top || its_text.bottom > its.bottom + 1
    return out || cut || cell.scrollWidth > cell.clientWidth ? [cell.dataset.label] : []
})"""
"""Cells of an admin's list that do not show all of a long value; a badge, an id or a moment stays what it is."""

LABELS: Final = """list => [...list.querySelectorAll('[data-label]')].map((cell) => {
    const isLowered = getComputedStyle(cell, '::before').textTransform === 'lowercase'
    return isLowered ? cell.dataset.label.toLowerCase() : cell.dataset.label
})"""

LISTS: Final = ("edit", "apikey", "tenant", "job", "worker", "queuelimit", "tier", "servedmodel", "jobevent")

LIGHTNESS: Final = """() => {
    const page = [document.body, document.documentElement].map((each) => getComputedStyle(each).backgroundColor)
    return Number(page.find((colour) => colour !== 'rgba(0, 0, 0, 0)').match(/\\d+/)[0])
}"""
"""The red of what is behind a page's text: from 0, black, to 255."""

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


def test_nothing_leaves_its_card_at_any_width(admin: Admin, stack: Stack, full_board: None) -> None:
    person = admin()
    page = person.page
    page.get_by_role("button", name="Open job").first.click()
    page.locator("#job-facts").wait_for(timeout=PATIENCE_MS)
    assert stuck_out(person, fill=FILL) == {width: [] for width in WIDTHS}
    assert page.locator(".jobs tbody tr").count() == views.JOBS_SHOWN
    assert max(page.locator(".jobs .notes").evaluate_all("all => all.map((each) => each.clientHeight)")) < 25
    assert stuck_out(person, fill=OF_MANY_MODELS) == {width: [] for width in WIDTHS}


def test_usage_fits_at_any_width(admin: Admin, stack: Stack) -> None:
    assert stuck_out(admin("/dashboard/usage/")) == {width: [] for width in WIDTHS}


def stuck_out(person: Visitor, fill: str = "() => {}") -> dict[int, list[str]]:
    """What sticks out at each width, measured in one go with the filling: the board is replaced all the time."""
    found = {}
    for width in WIDTHS:
        person.page.set_viewport_size({"width": width, "height": 900})
        found[width] = person.page.evaluate(f"() => {{ ({fill})(); return ({STICK_OUT})() }}")
    return found


def test_older_jobs_are_a_click_away_and_the_board_stays_on_them(
    admin: Admin, stack: Stack, full_board: None
) -> None:
    page = admin().page
    page.get_by_role("button", name="Older jobs").click()
    newest = page.get_by_role("button", name="Newest jobs")
    expect(newest).to_be_visible()
    job = page.locator(".jobs [id^=open-]").first.get_attribute("id")
    with page.expect_response("**/board/*"):  # the next look at it, by itself
        pass
    assert page.locator(".jobs [id^=open-]").first.get_attribute("id") == job
    newest.click()
    expect(newest).to_have_count(0)
    expect(page.locator(f"#{job}")).to_have_count(0)


def test_on_a_phone_own_jobs_are_above_the_fleet_and_an_idle_queue_is_a_line(
    admin: Admin, full_board: None
) -> None:
    page = admin(size="phone").page
    tops = [page.locator(f"#{part}-title").bounding_box() for part in ("jobs", "queues", "workers")]
    heights = [top["y"] for top in tops if top]
    assert heights == sorted(heights)
    idle = page.locator(".queues tr.idle").filter(has_text="realtime · short").bounding_box()
    assert idle
    assert idle["height"] < 40


def test_on_a_phone_each_number_has_its_label(admin: Admin, full_board: None) -> None:
    page = admin(size="phone").page
    expect(page.locator(".queues tr:not(.idle) [data-label='Backlog seconds']")).to_be_visible()
    assert page.evaluate(UNNAMED) == []
    assert page.locator(".queues thead").evaluate("each => each.offsetHeight") <= 1


def test_on_a_phone_the_admins_lists_show_all_of_a_value(admin: Admin, stack: Stack) -> None:
    stack.manage("queues", "pause", "*.bulk.long")
    stack.manage("queues", "resume", "*.bulk.long")
    fleet.submit(stack, 1, max_tokens=1)
    person = admin("/admin/", size="phone")
    found, labels = {}, set()
    for name in LISTS:
        person.open(f"/admin/inference/{name}/")
        rows = person.page.locator("#result_list")
        labels |= set(rows.evaluate(LABELS))
        found[name] = person.page.evaluate(CUT, [rows.element_handle(), LONG])
        person.photograph(f"admin-cards-{name}")
        assert person.overflow() <= 0, name
    assert found == {name: [] for name in LISTS}
    assert [label for label in labels if label[:1].isupper() and not label[:2].isupper()] == []


def test_on_a_phone_the_admin_says_what_one_looks_at(admin: Admin, stack: Stack) -> None:
    person = admin(f"/admin/inference/queuelimit/{stack_queue(stack)}/change/", size="phone")
    expect(person.page.locator("h1 .crumb").last).to_have_text(stack_queue(stack))
    assert person.page.locator("h1 .crumb").last.evaluate("each => each.scrollWidth <= each.clientWidth")
    assert person.overflow() <= 0


def stack_queue(stack: Stack) -> str:
    return f"{fleet.model(stack)}.bulk.short"


def test_the_api_docs_are_dark_where_the_system_is(visit: Callable[..., Visitor]) -> None:
    person = visit("desktop", "dark")
    person.open("/api/docs/")
    person.page.locator(".swagger-ui .info .title").wait_for()
    person.page.wait_for_function(f"({LIGHTNESS})() < 80")
    person.photograph("api-docs-dark")
    person.page.emulate_media(color_scheme="light")
    person.page.wait_for_function(f"({LIGHTNESS})() > 200")


def test_a_long_prompt_scrolls_in_its_box_in_the_admin(admin: Admin, stack: Stack) -> None:
    said = [{"role": "user", "content": "word " * 2_500}]
    [job_id] = fleet.submit(stack, 1, max_tokens=1, messages=said)
    person = admin(f"/admin/inference/job/{job_id}/change/")
    box = person.page.locator(".long-text").first
    assert box.evaluate("each => each.scrollHeight > each.clientHeight && each.clientHeight < 400")
