"""The dashboard as a person uses it."""

import json
import re
from collections.abc import Callable, Iterator
from urllib.parse import parse_qs, urlparse

import pytest
from playwright.sync_api import Page, Request, expect

from tests.acceptance import fleet
from tests.acceptance.stacks import Stack
from tests.browser.chromium import Visitor
from tests.browser.conftest import HOSTILE_ANSWER
from tests.waiting import until

Admin = Callable[..., Visitor]
Visit = Callable[..., Visitor]

HOSTILE_PROMPT = (
    "What is the capital of France? <script>window.hacked=1</script><img src=x onerror=window.hacked=1>"
)

SOME = re.compile(r"^[1-9]\d*$")
LASTING = {"max_tokens": 2_000, "ignore_eos": True}
"""Of jobs that run for longer than a test looks."""


@pytest.fixture(autouse=True)
def nothing_left_running(stack: Stack) -> Iterator[None]:
    """Leave the stack as it was found."""
    yield
    with stack.client() as client:
        for status in ("queued", "running"):
            for job in client.get("/api/v1/jobs/", params={"status": status, "limit": 500}).json()["results"]:
                client.post(f"/api/v1/jobs/{job['id']}/cancel/")
    until(lambda: fleet.waiting(stack) + fleet.leases(stack) == 0, seconds=30, what="the queues are empty")


def submit(page: Page, prompt: str, *, max_tokens: str = "60", tier: str = "standard") -> str:
    """Submit a prompt and return the job's id, as the address then names it."""
    page.get_by_label("Prompt", exact=True).first.fill(prompt)
    page.get_by_label("Tier").select_option(tier)
    page.get_by_label("Max tokens").fill(max_tokens)
    page.get_by_role("button", name="Submit").click()
    page.wait_for_url("**/?job=*")
    return parse_qs(urlparse(page.url).query)["job"][0]


def answer_of(page: Page) -> str:
    return page.locator("#answer").text_content() or ""


def stored_answer(stack: Stack, job_id: str) -> str:
    return str(fleet.job(stack, job_id)["result"]["choices"][0]["message"]["content"])


def test_the_front_door_leads_to_the_login_and_on_to_the_dashboard(visit: Visit, stack: Stack) -> None:
    person = visit()
    person.open("/")
    assert urlparse(person.page.url).path == "/login/"
    person.photograph("login")
    person.log_in("admin", "wrong")
    expect(person.page.get_by_role("alert")).to_contain_text("correct username and password")

    person.log_in(stack.access["admin_user"], stack.access["admin_password"])
    expect(person.page.get_by_role("heading", name="Playground")).to_be_visible()
    person.page.get_by_role("button", name="Log out").click()
    person.page.wait_for_url("**/login/**")


@pytest.mark.parametrize(("size", "scheme"), [("desktop", "light"), ("phone", "dark")])
def test_a_prompt_is_answered_token_by_token(admin: Admin, stack: Stack, size: str, scheme: str) -> None:
    person = admin(size=size, scheme=scheme)
    page = person.page
    job_id = submit(page, "Tell me a long story.", max_tokens="160")  # eight seconds
    expect(page.locator("#job-status")).to_have_text("running")
    first = until(lambda: answer_of(page), what="the answer begins")
    until(lambda: len(answer_of(page)) > len(first), what="the answer grows")
    expect(page.locator(".jobs .chip.running")).to_be_visible()
    person.photograph("dashboard-streaming")
    expect(page.locator("#job-status")).to_have_text("succeeded")

    assert answer_of(page) == stored_answer(stack, job_id)
    row = page.get_by_role("row").filter(has=page.get_by_role("button", name=f"Open job {job_id}"))
    expect(row.locator(".chip")).to_have_text("succeeded")
    expect(row.locator("[data-label='Queue time']")).to_have_text(re.compile(r"^[\d.]+ m?s$"))
    expect(row.locator("[data-label=Tokens]")).to_contain_text(f"→ {fleet.job(stack, job_id)['output_tokens']}")
    person.photograph("dashboard")


def test_what_was_streamed_is_the_whole_answer(admin: Admin, stack: Stack) -> None:
    page = admin().page
    streamed: list[str] = []

    def keep(text: str) -> None:
        streamed.append(text)

    page.expose_function("keep", keep)
    page.evaluate(
        """new MutationObserver(() => { const a = document.getElementById("answer"); if (a) keep(a.textContent); })
           .observe(document.getElementById("job"), {subtree: true, childList: true})"""
    )
    job_id = submit(page, "Tell me a long story.", max_tokens="60")
    expect(page.locator("#job-status")).to_have_text("succeeded")

    lengths = [len(text) for text in streamed]
    assert lengths == sorted(lengths)
    assert len(set(lengths)) > 10
    assert streamed[-1] == stored_answer(stack, job_id)


def test_a_running_job_is_cancelled_and_what_it_said_stays(admin: Admin, stack: Stack) -> None:
    page = admin().page
    job_id = submit(page, "Tell me a long story.", max_tokens="400")
    said = until(lambda: answer_of(page), what="the answer begins")
    page.get_by_role("button", name=f"Cancel job {job_id}").click()
    expect(page.locator("#job-status")).to_have_text("cancelled")

    assert fleet.job(stack, job_id)["status"] == "cancelled"
    assert answer_of(page).startswith(said)
    expect(page.get_by_role("button", name="Cancel")).to_have_count(0)


def test_an_opened_job_is_found_again_by_its_address(admin: Admin, stack: Stack) -> None:
    page = admin().page
    job_id = submit(page, "Tell me a long story.", max_tokens="100")
    until(lambda: answer_of(page), what="the answer begins")
    page.reload()
    expect(page.locator("#job-status")).to_have_text("succeeded")

    assert answer_of(page) == stored_answer(stack, job_id)


def test_queues_and_workers_are_live(admin: Admin, stack: Stack) -> None:
    person = admin()
    page = person.page
    queue = page.get_by_role("row", name="bulk · short")
    waiting, running = (queue.locator(f"[data-label={name}]") for name in ("Waiting", "Running"))
    expect(waiting).to_have_text("0")
    submit(page, "Tell me of locks and weirs.", max_tokens="200", tier="realtime")
    fleet.submit(stack, 60, tiers=("bulk",), **LASTING)

    expect(running).to_have_text(SOME)
    expect(waiting).to_have_text(SOME)
    expect(queue.locator("[data-label='Backlog seconds']")).not_to_have_text("0 s")
    expect(page.locator(".workers [data-label='In flight']")).to_have_text(re.compile(r"^\s*[1-9]\d* / 32\s*$"))
    person.photograph("dashboard-busy")


def test_a_workers_name_stays_in_one_piece_beside_a_long_detail(admin: Admin) -> None:
    page = admin().page
    expect(page.locator(".workers tbody th").first).to_be_visible()
    heights = page.evaluate(
        """() => {
          const row = document.querySelector(".workers tbody tr"), name = row.querySelector("th");
          const before = name.clientHeight;
          row.querySelector(".notes").append("the engine did not become ready: not enough memory ".repeat(4));
          return [before, name.clientHeight];
        }"""
    )
    assert heights[0] == heights[1]


@pytest.fixture
def paused(stack: Stack) -> Iterator[None]:
    """A stack whose short bulk jobs are paused."""
    stack.manage("queues", "pause", "*.bulk.short")
    yield
    stack.manage("queues", "resume", "*.bulk.short")


@pytest.mark.parametrize(("size", "scheme"), [("desktop", "light"), ("phone", "dark")])
def test_what_waits_says_why(admin: Admin, stack: Stack, paused: None, size: str, scheme: str) -> None:
    person = admin(size=size, scheme=scheme)
    page = person.page
    [job_id] = fleet.submit(stack, 1, tiers=("bulk",))
    row = page.get_by_role("row").filter(has=page.get_by_role("button", name=f"Open job {job_id}"))
    expect(row.locator(".why")).to_have_text("paused")
    queue = page.locator(".queues").get_by_role("row", name="bulk · short")
    expect(queue.locator(".chip.paused")).to_be_visible()
    expect(queue.locator("[data-label=Waiting]")).to_have_text("1")
    assert page.locator(".queues").evaluate("table => table.scrollWidth <= table.parentElement.clientWidth")
    row.get_by_role("button", name="Open job").click()
    expect(page.locator("#job-facts .waiting")).to_contain_text("paused queue")
    person.photograph("dashboard-paused")

    stack.manage("queues", "resume", "*.bulk.short")
    expect(row.locator(".chip")).to_have_text("succeeded")
    expect(page.locator("#job-status")).to_have_text("succeeded")
    expect(page.locator("#job-facts").get_by_role("button", name="Cancel")).to_have_count(0)
    expect(page.locator("#job-facts .waiting")).to_have_count(0)
    expect(queue.locator(".chip.paused")).to_have_count(0)
    assert person.overflow() <= 0


def test_the_board_is_not_asked_for_while_the_tab_is_hidden(admin: Admin) -> None:
    page = admin().page
    asked: list[str] = []

    def note(request: Request) -> None:
        if "/board/" in request.url:
            asked.append(request.url)

    page.clock.install()
    page.reload()
    page.on("request", note)
    page.evaluate("Object.defineProperty(document, 'hidden', {get: () => window.away, configurable: true})")
    page.evaluate("window.away = true")
    page.clock.run_for(20_000)
    page.evaluate("fetch('/login/')")  # answered after whatever was asked for before
    assert asked == []

    page.evaluate("window.away = false")
    page.clock.run_for(2_000)
    until(lambda: page.evaluate("1") and asked, what="the board is asked for again")


def test_markup_in_prompt_and_answer_stays_text(admin: Admin, stack: Stack) -> None:
    person = admin()
    page = person.page
    job_id = submit(page, HOSTILE_PROMPT)
    expect(page.locator("#job-status")).to_have_text("succeeded")
    assert HOSTILE_ANSWER in stored_answer(stack, job_id)

    for look in (lambda: None, page.reload):
        look()
        expect(page.locator("#answer")).to_have_text(HOSTILE_ANSWER)
        expect(page.locator("#job .prompt")).to_have_text(HOSTILE_PROMPT)
        assert page.locator("#job img, #job script").count() == 0
        assert page.evaluate("window.hacked") is None


def test_what_is_wrong_with_the_form_is_said_at_the_field(admin: Admin) -> None:
    person = admin()
    page = person.page
    page.get_by_label("Prompt", exact=True).first.fill("Hello")
    page.get_by_label("Max tokens").fill("0")
    page.get_by_role("button", name="Submit").click()
    field = page.get_by_label("Max tokens")

    expect(field).to_have_attribute("aria-invalid", "true")
    expect(field).to_have_accessible_description("Max tokens 0 is too small: at least 1.")
    field.fill("99999")
    page.get_by_role("button", name="Submit").click()
    expect(field).to_have_accessible_description(re.compile("^Max tokens is 99999 and the prompt has"))
    boxes = [page.locator(found).bounding_box() for found in (".wrong", ".field-max_tokens", ".field-temperature")]
    wrong, *fields = [box for box in boxes if box]
    assert wrong["height"] < 50, "two lines at most: it has the width of a sentence"
    assert len({box["y"] for box in fields}) == 1, "and the fields stay beside each other"
    expect(page.get_by_label("Prompt", exact=True).first).to_have_value("Hello")
    person.complaints.clear()  # the browser's word for the 422


@pytest.mark.once
def test_an_outage_is_told_until_its_end_and_what_was_sent_in_it_until_a_click(admin: Admin) -> None:
    person = admin()
    page, notice = person.page, person.page.locator("#notice")
    page.route("**/dashboard/**", lambda route: route.abort())
    expect(notice).to_have_text("The server does not answer. Trying again …")
    page.get_by_label("Prompt", exact=True).first.fill("Hello")
    page.get_by_role("button", name="Submit").click()
    expect(notice).to_contain_text("look whether this arrived, and if not send it again.")

    page.unroute("**/dashboard/**")
    page.wait_for_event("response", lambda answer: "/board/" in answer.url)
    expect(notice).to_contain_text("look whether this arrived")
    page.get_by_role("heading", name="Playground").click()
    expect(notice).to_be_empty()
    page.route("**/dashboard/board/**", lambda route: route.abort())
    expect(notice).to_have_text("The server does not answer. Trying again …")
    page.unroute("**/dashboard/board/**")
    expect(notice).to_be_empty()
    person.complaints.clear()  # the browser's word for what did not arrive


@pytest.mark.parametrize("path", ["/login/", "/dashboard/"])
def test_a_phone_never_scrolls_sideways(admin: Admin, visit: Visit, stack: Stack, path: str) -> None:
    person = visit("phone", "dark") if path == "/login/" else admin(size="phone", scheme="dark")
    person.open(path)
    if path == "/dashboard/":
        submit(person.page, "W" * 300, max_tokens="400")
        until(lambda: answer_of(person.page), what="the answer begins")
        fleet.submit(stack, 60, tiers=("bulk",), **LASTING)
        expect(person.page.locator(".queues tr:not(.idle) [data-label=Waiting]").last).not_to_have_text("0")
        person.photograph("dashboard-busy")

    assert person.overflow() <= 0


def test_htmx_comes_from_here(admin: Admin, stack: Stack) -> None:
    page = admin().page
    hosts = json.loads(
        page.evaluate("JSON.stringify(performance.getEntriesByType('resource').map(e => new URL(e.name).origin))")
    )

    assert set(hosts) == {stack.base_url}
