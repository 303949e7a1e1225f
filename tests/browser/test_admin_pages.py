"""The admin as an admin uses it."""

import re
from collections.abc import Callable

import httpx
import pytest
from playwright.sync_api import expect

from tests.acceptance import fleet
from tests.acceptance.stacks import Stack
from tests.browser.chromium import PATIENCE_MS, Visitor
from tests.waiting import until

pytestmark = pytest.mark.timeout(240)

Admin = Callable[..., Visitor]

expect.set_options(timeout=PATIENCE_MS)


def set_weight(person: Visitor, tier: str, weight: str) -> None:
    person.open(f"/admin/inference/tier/{tier}/change/")
    person.page.get_by_label("Weight").fill(weight)
    person.page.get_by_role("button", name="Save", exact=True).click()
    expect(person.page.locator(".messagelist .success")).to_contain_text("was changed successfully")


def test_a_tiers_weight_is_edited(admin: Admin) -> None:
    person = admin("/admin/")
    person.photograph("admin")
    set_weight(person, "bulk", "3")
    expect(person.page.get_by_role("row", name="bulk").locator(".field-weight")).to_have_text("3.0")
    person.photograph("admin-tiers")

    set_weight(person, "bulk", "1")


def test_the_list_of_models_fits_the_page(admin: Admin) -> None:
    person = admin("/admin/")
    person.open("/admin/inference/servedmodel/")
    expect(person.page.locator(".column-running")).to_be_in_viewport(ratio=1)
    assert person.page.locator(".results").evaluate("list => list.scrollWidth <= list.clientWidth")
    person.photograph("admin-models")


def test_a_key_is_shown_once_works_and_is_revoked(admin: Admin, stack: Stack) -> None:
    person = admin("/admin/")
    person.open("/admin/inference/apikey/add/")
    person.page.get_by_label("Name").fill("browser test")
    person.page.get_by_label("Tenant").select_option("default")
    person.page.get_by_role("button", name="Save", exact=True).click()
    key = person.page.locator(".messagelist code").inner_text()
    person.photograph("admin-key")
    assert models(stack, key).status_code == 200

    person.page.reload()
    expect(person.page.locator("body")).not_to_contain_text(key)
    choose(person, "browser test", "Revoke")
    expect(person.page.locator(".messagelist .success")).to_contain_text("1 revoked")
    until(lambda: models(stack, key).status_code == 401, what="the key is refused")


def models(stack: Stack, key: str) -> httpx.Response:
    headers = {"Authorization": f"Bearer {key}"}
    return httpx.get(f"{stack.base_url}/v1/models", headers=headers, trust_env=False)


def choose(person: Visitor, row: str, action: str) -> None:
    """Tick the row and do the action."""
    page = person.page
    page.get_by_role("row", name=row).get_by_role("checkbox").check()
    label = page.locator("select[name=action] option", has_text=re.compile(action)).inner_text()
    page.locator("select[name=action]").select_option(label=label)
    page.get_by_role("button", name="Run the selected action").or_(page.get_by_role("button", name="Go")).click()


@pytest.mark.parametrize(("size", "scheme"), [("desktop", "light"), ("phone", "dark")])
def test_a_running_job_is_found_by_its_id_and_cancelled(
    admin: Admin, stack: Stack, size: str, scheme: str
) -> None:
    [job_id] = fleet.submit(stack, 1, max_tokens=400)
    person = admin("/admin/", size=size, scheme=scheme)
    person.open("/admin/inference/job/")
    person.photograph("admin-jobs")
    person.page.get_by_role("searchbox").or_(person.page.locator("#searchbar")).first.fill(job_id)
    person.page.get_by_role("button", name="Search").click()
    choose(person, f"{job_id[:8]}…{job_id[-4:]}", "Cancel")

    expect(person.page.locator(".messagelist .success")).to_contain_text(f"{job_id} is cancelled")
    assert fleet.job(stack, job_id)["status"] == "cancelled"
    person.open(f"/admin/inference/job/{job_id}/change/")
    expect(person.page.locator("#events-group")).to_contain_text("by an admin")
    person.photograph("admin-job")


def test_the_admin_and_the_dashboard_lead_to_each_other(admin: Admin) -> None:
    person = admin("/admin/")
    person.page.get_by_role("link", name="Dashboard").click()
    person.page.wait_for_url("**/dashboard/")
    person.page.get_by_role("link", name="Admin").click()
    person.page.wait_for_url("**/admin/")
    expect(person.page).to_have_title("Site administration | Sluice")
