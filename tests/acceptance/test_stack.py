"""`manage.py up`: one command for everything, that leaves nothing behind."""

import json
import os
import signal
import socket
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from django.conf import settings

from project.stack import address
from tests import databases
from tests.acceptance import fleet, stacks
from tests.acceptance.stacks import Stack
from tests.waiting import until


@pytest.fixture
def own_stack() -> Iterator[Stack]:
    """A stack that the test may break."""
    with stacks.running() as running:
        yield running


@pytest.fixture
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="stack-") as name:
        yield Path(name)


def test_the_ready_file_tells_all_that_a_program_needs(stack: Stack) -> None:
    wanted = {
        "base_url",
        "api_key",
        "admin_user",
        "admin_password",
        "flower_url",
        "flower_user",
        "flower_password",
    }
    assert all(stack.access[name] for name in wanted)


def test_the_ready_file_and_the_logins_are_for_their_owner_only(stack: Stack) -> None:
    for path in (stack.ready_file, stack.folder / "state" / "credentials.json"):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600, path


def test_the_api_answers_with_the_key(stack: Stack) -> None:
    with stack.client() as client:
        body = {"messages": [{"role": "user", "content": "Hello"}], "max_tokens": 4}
        models = client.get("/v1/models").json()["data"]
        answer = client.post("/v1/chat/completions", json={"model": models[0]["id"], **body})
    assert answer.status_code == 200, answer.text
    assert answer.json()["choices"][0]["message"]["content"]


def test_the_admin_login_opens_the_admin(stack: Stack) -> None:
    with httpx.Client(base_url=stack.base_url, follow_redirects=True, trust_env=False, timeout=60) as browser:
        browser.get("/admin/login/")
        form = {
            "username": stack.access["admin_user"],
            "password": stack.access["admin_password"],
            "csrfmiddlewaretoken": browser.cookies["csrftoken"],
            "next": "/admin/",
        }
        page = browser.post("/admin/login/", data=form, headers={"Referer": stack.base_url})
    assert page.status_code == 200
    assert "Site administration" in page.text


def test_the_printed_curl_line_works_as_it_stands(stack: Stack) -> None:
    lines = stack.log().splitlines()
    first = next(i for i, line in enumerate(lines) if line.strip().startswith("curl "))
    command = "\n".join(lines[first : first + 3])
    answer = subprocess.run(command, shell=True, capture_output=True, text=True, check=True)
    assert json.loads(answer.stdout)["choices"]


@pytest.mark.parametrize(
    "path", ["/", "/broker", "/queues", "/tasks", "/metrics", "/api/sluice/queues", "/api/tasks"]
)
def test_flower_is_never_open_without_its_login(stack: Stack, path: str) -> None:
    url = stack.access["flower_url"] + path
    assert httpx.get(url, trust_env=False, timeout=60).status_code == 401
    assert httpx.get(url, auth=("flower", "wrong"), trust_env=False, timeout=60).status_code == 401


def test_flower_shows_every_queue_with_its_backlog(stack: Stack) -> None:
    with stack.flower() as flower, stack.client() as client:
        page = flower.get("/broker").text
        rows = {row["queue"]: row for row in flower.get("/api/sluice/queues").json()["queues"]}
        names = [queue["queue"] for queue in client.get("/api/v1/queues/").json()]
    assert len(names) == 9
    assert [name for name in names if name not in page] == []
    assert set(rows) == {*names, "control"}
    assert {"jobs", "tokens", "backlog_seconds", "leases"} <= set(rows[names[0]])


def test_flower_shows_the_workers_engines(stack: Stack) -> None:
    with stack.flower() as flower:
        (worker,) = flower.get("/api/sluice/workers").json()["workers"]
        # A Flower that another test killed hears of it by its next event.
        until(lambda: worker["name"] in flower.get("/workers").text, what="its page lists the worker")
    assert worker["name"].startswith("worker-1@")
    assert worker["state"] == "ready"


def test_flower_offers_no_way_around_admission(stack: Stack) -> None:
    with stack.flower() as flower:
        for path in ("apply/inference.run_job", "async-apply/inference.run_job", "send-task/inference.run_job"):
            assert flower.post(f"/api/task/{path}", json={}).status_code == 404
        assert flower.post("/api/worker/shutdown/worker-1").status_code == 404


def test_all_nodes_answer_celerys_ping(stack: Stack) -> None:
    env = {**os.environ, "REDIS_URL": stack.access["redis_url"], "SLUICE_STATE_DIR": str(stack.folder / "state")}
    command = [sys.executable, "-m", "celery", "-A", "project", "inspect", "ping", "--json", "--timeout", "5"]

    def answering() -> set[str]:
        answer = subprocess.run(
            command, cwd=settings.BASE_DIR, env=env, capture_output=True, text=True, check=False
        )
        nodes = json.loads(answer.stdout.splitlines()[-1]) if answer.stdout else {}
        return {node.partition("@")[0] for node in nodes}

    # One that another test killed may still be on its way back.
    until(lambda: answering() == {"worker-1", "control"}, seconds=60, what="both answer")


def test_the_backlog_is_seen_by_the_state_folder_alone_while_the_engine_loads(folder: Path) -> None:
    process, mark = stacks.launch(folder, env={"SLUICE_SIM_ARGS": "--load-seconds=3600"})
    kept = {"SLUICE_STATE_DIR": str(folder / "state"), "REDIS_URL": "", **databases.of_stack(folder)}

    def look(command: str) -> list[dict[str, Any]]:
        words = [sys.executable, "manage.py", command, "--json"]
        env = {**os.environ, **kept}
        done = subprocess.run(words, cwd=settings.BASE_DIR, env=env, capture_output=True, text=True, check=False)
        return list(json.loads(done.stdout)) if done.returncode == 0 else []

    try:
        until(lambda: [w["state"] for w in look("workers")] == ["loading"], seconds=90, what="it loads")
        assert len(look("queues")) == 9
        assert not (folder / "ready.json").exists()
    finally:
        stacks.clean_up(process, mark)
    assert not (folder / "state" / address.FILE_NAME).exists()


def test_a_second_stack_runs_beside_the_first(stack: Stack, own_stack: Stack) -> None:
    assert own_stack.base_url != stack.base_url
    with own_stack.client() as client:
        assert client.get("/v1/models").status_code == 200
        client.headers["Authorization"] = f"Bearer {stack.api_key}"
        assert client.get("/v1/models").status_code == 401, "the stacks share their keys"


@pytest.mark.parametrize("part", ["web", "worker-1", "control", "beat", "flower"])
def test_a_part_that_dies_comes_back(stack: Stack, part: str) -> None:
    old = stack.pid(part)
    os.kill(old, signal.SIGKILL)
    until(lambda: stack.pid(part) != old, seconds=60, what=f"{part} has a new process")
    until(lambda: fleet.is_whole(stack), seconds=60, what=f"all is ready again without the old {part}")
    until(lambda: _flower_shows_queues(stack), seconds=60, what="Flower shows the queues")


def _flower_shows_queues(stack: Stack) -> bool:
    try:
        with stack.flower() as flower:
            return flower.get("/api/sluice/queues").is_success
    except httpx.HTTPError:
        return False


def test_nothing_is_lost_when_valkey_dies(own_stack: Stack) -> None:
    old = own_stack.pid("valkey")
    os.kill(old, signal.SIGKILL)
    # It is back in no time, before anybody missed it: the ready file must name the new one all the same.
    until(lambda: own_stack.pid("valkey") != old, what="the ready file names the new process")
    with own_stack.client() as client:
        model = client.get("/v1/models").json()["data"][0]["id"]
        body = {"model": model, "messages": [{"role": "user", "content": "Hello"}], "max_tokens": 4}

        def is_answered() -> bool:
            return client.post("/v1/chat/completions", json=body).status_code == 200

        until(is_answered, seconds=60, what="chat works again")


@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_stops_everything(own_stack: Stack, signum: signal.Signals) -> None:
    everything = own_stack.processes()
    assert len(everything) >= 8
    own_stack.process.send_signal(signum)
    assert own_stack.process.wait(stacks.STOP_SECONDS) == 0
    assert stacks.alive(everything) == []
    assert stacks.marked(own_stack.mark) == []
    assert not own_stack.ready_file.exists()


def test_a_second_signal_hurries_and_jobs_are_handed_back() -> None:
    with stacks.running(env={"SLUICE_SIM_ARGS": fleet.SLOW, "SLUICE_DRAIN_SECONDS": "600"}) as stack:
        everything = stack.processes()
        [job_id] = fleet.submit(stack, 1, max_tokens=6_000, ignore_eos=True)  # five minutes' work
        until(lambda: fleet.count(stack, "running") == 1, what="the job runs")
        stack.process.send_signal(signal.SIGINT)
        until(lambda: "action=drain_begun" in stack.log(), what="the worker drains")
        stack.process.send_signal(signal.SIGINT)
        assert stack.process.wait(stacks.STOP_SECONDS) == 0, "it waited for the drain"
        assert stacks.alive(everything) == []
        assert _status(stack, job_id) == ("queued", 0)


def _status(stack: Stack, job_id: str) -> tuple[str, int]:
    """The job's status and attempts, from the stopped stack's database."""
    query = f"from inference.models import Job; job = Job.objects.get(id='{job_id}')"
    said = stack.manage("shell", "--verbosity=0", "-c", f"{query}; print(job.status, job.attempts)")
    status, attempts = said.split()
    return status, int(attempts)


def test_a_killed_stack_leaves_nothing_running(own_stack: Stack) -> None:
    everything = own_stack.processes()
    own_stack.process.kill()
    own_stack.process.wait()
    until(lambda: not stacks.alive(everything), what="all parts are gone")
    assert stacks.marked(own_stack.mark) == []


def test_a_restarted_stack_keeps_its_logins_and_its_jobs(folder: Path) -> None:
    first = stacks.wait_ready(*stacks.launch(folder), folder)
    try:
        with first.client() as client:
            model = client.get("/v1/models").json()["data"][0]["id"]
            job = client.post(
                "/api/v1/jobs/", json={"endpoint": "completions", "body": {"model": model, "prompt": "A"}}
            )
    finally:
        stacks.clean_up(first.process, first.mark)
    second = stacks.wait_ready(*stacks.launch(folder), folder)
    try:
        logins = ("api_key", "admin_password", "flower_password")
        assert [first.access[name] for name in logins] == [second.access[name] for name in logins]
        with second.client() as client:
            assert client.get(f"/api/v1/jobs/{job.json()['id']}/").status_code == 200
    finally:
        stacks.clean_up(second.process, second.mark)


def test_a_taken_port_is_said_before_anything_starts(folder: Path) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        process, mark = stacks.launch(folder, port=other.getsockname()[1])
        assert process.wait(stacks.STOP_SECONDS) == 1
    assert "is taken" in (folder / "up.log").read_text()
    assert stacks.marked(mark) == []
    assert not (folder / "state" / "sluice.sqlite3").exists()


def test_two_stacks_never_share_a_folder(stack: Stack, folder: Path) -> None:
    process, _ = stacks.launch(folder, "--state", str(stack.folder / "state"))
    assert process.wait(stacks.STOP_SECONDS) == 1
    assert "another stack runs in" in (folder / "up.log").read_text()


def test_a_part_that_fails_for_good_ends_the_stack_with_its_reason(folder: Path) -> None:
    valkey = folder / "state" / "valkey"
    valkey.mkdir(parents=True)
    (valkey / "appendonlydir").write_text("a file where Valkey needs a folder")
    process, mark = stacks.launch(folder)
    try:
        assert process.wait(stacks.READY_SECONDS) == 1
    finally:
        stacks.clean_up(process, mark)
    log = (folder / "up.log").read_text()
    assert "valkey ended 5 times before it was ready; giving up. Its last lines:" in log
    assert "appendonlydir" in log.rpartition("last lines:")[2]
