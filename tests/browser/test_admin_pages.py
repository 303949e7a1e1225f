"""The admin as an admin uses it."""

import json
import re
from collections.abc import Callable, Iterator
from typing import Final

import httpx
import pytest
from django.contrib import admin as django_admin
from playwright.sync_api import Locator, expect

from tests import admin_requests
from tests.acceptance import fleet
from tests.acceptance.stacks import Stack
from tests.admin_requests import Keys
from tests.browser.chromium import Visitor
from tests.waiting import until

Admin = Callable[..., Visitor]

QUEUE = "smollm2-135m-instruct.bulk.short"

LIVE_SECONDS: Final = 5.0
"""A change is live within a second; the others are for a machine that runs other tests."""
VIEWER: Final = """
import json
from django.contrib import admin
from django.contrib.auth.models import Group, User
made = User.objects.create_user("vera", password="looks-at-all", is_staff=True)
made.groups.add(Group.objects.get(name="viewer"))
rows = {model._meta.label: model._default_manager.all()[:9] for model in admin.site._registry}
print(json.dumps({label: [str(row.pk) for row in found] for label, found in rows.items()}))
"""
"""Makes a viewer, and says which rows there are: the keys of each table."""
MEASURE: Final = """list => {
    for (const cell of list.querySelectorAll('td.field-capacity')) cell.textContent = '999\u202f999\u202f999'
    const lines = [...list.querySelectorAll('td.field-in_time')].map((cell) => {
        cell.textContent = '99.9 %'
        const text = new Range()
        text.selectNodeContents(cell)
        return text.getClientRects().length
    })
    const inputs = [...list.querySelectorAll('td input[type=number]')]
    for (const input of inputs) input.value = input.name.endsWith('monthly') ? '999999999999.99' : '999999999'
    const cut = inputs.filter((input) => input.scrollWidth > input.clientWidth).map((input) => input.name)
    return [list.scrollWidth, list.parentElement.clientWidth, Math.max(1, ...lines), inputs.length, cut]
}"""
"""The width a list needs and what there is, with the largest numbers that a fleet comes to; lines of a share; how
many numbers are edited in it, and which of these are cut off."""


def set_weight(person: Visitor, tier: str, weight: str) -> None:
    person.open(f"/admin/inference/tier/{tier}/change/")
    person.page.get_by_label("Weight").fill(weight)
    save(person)
    expect(told(person)).to_contain_text("was changed successfully")


def save(person: Visitor) -> None:
    person.page.get_by_role("button", name="Save", exact=True).click()


def told(person: Visitor) -> Locator:
    """What the page says of what was done."""
    return person.page.locator("#main")


def say_yes(person: Visitor) -> None:
    person.page.get_by_role("button", name=re.compile("Yes")).click()


def test_a_tiers_weight_is_edited(admin: Admin) -> None:
    person = admin("/admin/")
    person.photograph("admin")
    set_weight(person, "bulk", "3")
    weight = person.page.get_by_role("row", name="bulk").locator("input[type=number][name$=-weight]")
    expect(weight).to_have_value("3.0")
    person.photograph("admin-tiers")

    weight.fill("1")
    save(person)
    expect(told(person)).to_contain_text("1 tier was changed successfully")


@pytest.fixture
def budget(stack: Stack) -> Iterator[None]:
    """A budget while the test lasts."""
    make = "from inference.models import Budget; Budget.objects.{}(tenant_id='default', monthly=120000)"
    stack.manage("shell", "--verbosity=0", "-c", make.format("create"))
    yield
    stack.manage("shell", "--verbosity=0", "-c", f"{make.format('filter')}.delete()")


@pytest.mark.parametrize(("size", "scheme"), [("desktop", "light"), ("phone", "dark")])
def test_the_lists_of_limits_fit_the_page_with_all_numbers_whole(
    admin: Admin, budget: None, size: str, scheme: str
) -> None:
    person = admin("/admin/", size=size, scheme=scheme)
    for table in ("tier", "lengthclass", "queuelimit", "tenant", "servedmodel", "budget"):
        person.open(f"/admin/inference/{table}/")
        needed, there, lines, numbers, cut = person.page.locator("#result_list").evaluate(MEASURE)
        person.photograph(f"admin-list-{table}")
        assert needed <= there, table
        assert lines == 1, table
        assert (numbers > 0, cut) == (True, []), table
        assert person.overflow() <= 0, table


@pytest.mark.once
@pytest.mark.parametrize("size", ["desktop", "phone"])
def test_nothing_lies_behind_the_bar_of_actions(admin: Admin, size: str) -> None:
    person = admin("/admin/", size=size)
    width = (person.page.viewport_size or {"width": 0})["width"]
    person.page.set_viewport_size({"width": width, "height": 500})  # less than the list is high
    person.open("/admin/inference/queuelimit/")
    boxes = person.page.locator("input.action-select")
    boxes.first.check()
    expect(person.page.get_by_role("combobox", name="Action")).to_be_visible()
    boxes.last.click(trial=True)
    person.page.get_by_role("button", name="Save", exact=True).click(trial=True)
    person.page.evaluate("for (const part of document.querySelectorAll('*')) part.scrollTop = part.scrollHeight")
    boxes.last.check()
    person.photograph("admin-ticked")


def test_a_key_is_shown_once_works_and_is_revoked(admin: Admin, stack: Stack) -> None:
    person = admin("/admin/")
    person.open("/admin/inference/apikey/add/")
    person.page.get_by_label("Name").fill("browser test")
    person.page.get_by_label("Tenant").select_option("default")
    assert person.overflow() <= 0
    save(person)
    key = person.page.locator("code").inner_text()
    person.photograph("admin-key")
    assert models(stack, key).status_code == 200

    person.page.reload()
    expect(person.page.locator("body")).not_to_contain_text(key)
    choose(person, "browser test", "Revoke")
    say_yes(person)
    expect(told(person)).to_contain_text("1 revoked")
    until(lambda: models(stack, key).status_code == 401, what="the key is refused")


def models(stack: Stack, key: str) -> httpx.Response:
    headers = {"Authorization": f"Bearer {key}"}
    return httpx.get(f"{stack.base_url}/v1/models", headers=headers, trust_env=False, timeout=60)


def choose(person: Visitor, row: str, action: str) -> None:
    """Tick the row and do the action."""
    page = person.page
    page.get_by_role("row", name=row).get_by_role("checkbox").first.check()
    label = page.locator("select[name=action] option", has_text=re.compile(action)).inner_text()
    page.locator("select[name=action]").select_option(label=label)
    page.get_by_role("button", name="Run").click()


def submit(stack: Stack) -> httpx.Response:
    """Ask for a short answer in the tier bulk."""
    body = {"messages": [{"role": "user", "content": "Hello"}], "max_tokens": 2, "model": fleet.model(stack)}
    with stack.client() as client:
        return client.post("/api/v1/jobs/", json={"tier": "bulk", "body": body})


@pytest.mark.parametrize(("size", "scheme"), [("desktop", "dark"), ("phone", "light")])
def test_a_cap_is_lowered_a_queue_paused_and_both_are_reverted(
    admin: Admin, stack: Stack, size: str, scheme: str
) -> None:
    person = admin("/admin/", size=size, scheme=scheme)
    change, history = (f"/admin/inference/queuelimit/{QUEUE}/{page}/" for page in ("change", "history"))
    person.open("/admin/inference/queuelimit/")
    assert person.overflow() <= 0
    person.photograph("admin-queues")
    person.open(change)
    person.page.get_by_label("Max jobs").fill("0")
    person.page.get_by_label("Paused").check()
    assert person.overflow() <= 0
    save(person)
    asked = person.page.locator("#consequences")
    expect(asked).to_contain_text("max jobs of 0: new jobs get 429.")
    expect(asked).to_contain_text(f"Pause {QUEUE}")
    assert person.overflow() <= 0
    person.photograph("admin-asked")
    assert submit(stack).status_code == 201

    say_yes(person)
    expect(told(person)).to_contain_text("was changed successfully")
    until(lambda: submit(stack).status_code == 429, seconds=LIVE_SECONDS, what="the cap holds")
    person.open("/admin/")
    expect(person.page.locator(".part").first).to_contain_text("paused")
    person.photograph("admin-overview")
    person.open(history)
    assert person.overflow() <= 0
    person.photograph("admin-history")
    person.page.get_by_role("button", name="Revert").first.click()
    say_yes(person)
    expect(told(person)).to_contain_text("Reverted: ")
    until(lambda: submit(stack).status_code == 201, seconds=LIVE_SECONDS, what="jobs are taken again")
    until(lambda: fleet.waiting(stack) + fleet.leases(stack) == 0, seconds=30, what="what waited has run")


@pytest.mark.parametrize(("size", "scheme"), [("desktop", "light"), ("phone", "dark")])
def test_a_running_job_is_found_by_its_id_and_cancelled(
    admin: Admin, stack: Stack, size: str, scheme: str
) -> None:
    [job_id] = fleet.submit(stack, 1, max_tokens=4_000, ignore_eos=True)  # minutes of work
    person = admin("/admin/", size=size, scheme=scheme)
    person.open("/admin/inference/job/")
    assert person.overflow() <= 0
    person.photograph("admin-jobs")
    person.page.locator("#searchbar").fill(job_id)
    person.page.locator("#searchbar").press("Enter")
    choose(person, f"{job_id[:8]}…{job_id[-4:]}", "Cancel")
    expect(person.page.locator("#consequences")).to_contain_text(
        "Cancel 1 running job: it ends without an answer."
    )
    assert fleet.job(stack, job_id)["status"] == "running"
    say_yes(person)
    expect(told(person)).to_contain_text(f"{job_id} is cancelled")
    assert fleet.job(stack, job_id)["status"] == "cancelled"
    person.open(f"/admin/inference/job/{job_id}/change/")
    expect(person.page.locator("#events-group")).to_contain_text("by an admin")
    assert person.overflow() <= 0
    person.photograph("admin-job")


def test_the_admin_and_the_dashboard_lead_to_each_other(admin: Admin) -> None:
    person = admin("/admin/")
    person.page.locator("#nav-sidebar").get_by_text("admin", exact=True).click()
    person.page.get_by_role("link", name="Dashboard").click()
    person.page.wait_for_url("**/dashboard/")
    person.page.get_by_role("link", name="Admin").click()
    person.page.wait_for_url("**/admin/")
    expect(person.page).to_have_title("Site administration | Sluice")


def with_viewer(stack: Stack) -> Keys:
    said: dict[str, list[str]] = json.loads(stack.manage("shell", "--verbosity=0", "-c", VIEWER))
    return {model: said[model._meta.label] for model in django_admin.site._registry}


def as_stored(stack: Stack) -> str:
    """All that people set, and who did."""
    return stack.manage("dumpdata", "auth", "admin", "inference", "--exclude=inference.worker")


@pytest.mark.once
def test_a_viewer_looks_and_changes_nothing_by_form_or_crafted_request(
    visit: Callable[..., Visitor], stack: Stack
) -> None:
    fleet.submit(stack, 1, max_tokens=1)
    keys = with_viewer(stack)
    person = visit()
    person.open("/admin/")
    person.log_in("vera", "looks-at-all")
    for page in ("", f"{QUEUE}/change/", f"{QUEUE}/history/"):
        person.open(f"/admin/inference/queuelimit/{page}")
        expect(person.page.get_by_role("button", name=re.compile("Save|Run|Revert|Delete"))).to_have_count(0)
    person.photograph("admin-viewer")

    until(lambda: fleet.waiting(stack) + fleet.leases(stack) == 0, seconds=30, what="the job has run")
    before = as_stored(stack)
    send_all(person, keys)
    assert as_stored(stack) == before


def send_all(person: Visitor, keys: Keys) -> None:
    """Send all that might change something, with the session and the token of the person's own pages."""
    token = person.page.locator("[name=csrfmiddlewaretoken]").first.input_value()
    cookies = {cookie["name"]: cookie["value"] for cookie in person.page.context.cookies()}
    headers = {"X-CSRFToken": token, "Referer": person.base_url}
    with httpx.Client(
        base_url=person.base_url, cookies=cookies, headers=headers, trust_env=False, timeout=60
    ) as client:
        answers = [
            client.post(address, data=body)
            for model, address in admin_requests.addresses(keys)
            for body in admin_requests.bodies(model, address, keys)
        ]
    assert len(answers) > 150
    refused = [answer for answer in answers if answer.status_code == 403]
    assert len(refused) > 50
    assert not any("CSRF" in answer.text for answer in refused)
