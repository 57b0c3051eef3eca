"""`make compose-test`: docker-compose.yml in real containers, used, broken, and removed with its volumes.

The first run cuts off and then kills every container while 600 documents are processed. The second run stores uploads
in an object store, and a second project joins its networks with workers of its own. The third run replaces every
container of foreask by a container of another image, one after the other, while documents are processed and questions
are asked.

Without a container engine it runs tests/acceptance/test_compose.py instead, which needs none.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from embedded.ports import free_port
from tests.support.containers import (
    ENGINES,
    PROJECT,
    Access,
    Api,
    Containers,
    Traffic,
    engine,
    eventually,
    running,
    say,
)
from tests.support.deployment import ROOT
from tests.support.objects import S3
from tests.support.pictures import picture, saved

SERVICES = (
    "worker-parse",
    "worker-read",
    "worker-generate",
    "worker-index",
    "scheduler",
    "api",
    "postgres",
    "valkey",
    "qdrant",
)
WORKERS = ("worker-parse", "worker-read", "worker-generate", "worker-index", "scheduler")
GENERATE = "worker-generate"
USED = 3  # documents of the first step
DOCUMENTS = 600
LATENCY_SECONDS = 8.0
# Longer than a model call, so that replies arrive in containers that are cut off. Shorter than the rest of any lease:
# leases are extended to 30 s every 10 s.
CUT_SECONDS = 15.0
BUCKET = "uploads"
REPORTS = 200  # documents of the second run
UPDATE_LATENCY_SECONDS = 4.0
UPDATED = 500  # documents of the third run
NEXT_IMAGE = "foreask:compose-test-next"


def use(containers: Api) -> None:
    containers.upload("leave.md", b"# Leave\n\nEmployees have thirty days of leave a year.\n")
    containers.upload("text.pdf", (ROOT / "tests/files/good/docling_text_document.pdf").read_bytes())
    containers.upload("scan.png", saved([picture("The ferry to Bergen leaves at noon.")], "PNG"))
    eventually("a text, a PDF and a scan are ready", lambda: containers.all_ready(USED))
    reply = containers.client.post("/v1/query", json={"question": "How many days of leave are there?"})
    assert reply.status_code == 200, reply.text
    assert "thirty days" in " ".join(chunk["text"] for chunk in reply.json()["chunks"])
    say("a question is answered")
    reply = containers.client.post("/v1/retrieve", json={"question": "When does the ferry leave?"}).json()
    assert "noon" in " ".join(chunk["text"] for chunk in reply["chunks"] if chunk["external_id"] == "scan.png")
    say("a scan is found")


def break_all(containers: Containers) -> None:
    """Cut off every container, one after the other, while documents are processed, and then kill every container.

    Calls are counted between the two steps, because only a kill may repeat calls.
    """
    containers.compose("up", "--detach", "--no-recreate", "--scale", f"{GENERATE}=2")
    containers.script(latency_seconds=LATENCY_SECONDS)
    half = DOCUMENTS // 2
    break_each(containers, cut_off, range(half))
    break_each(containers, kill, range(half, DOCUMENTS))
    containers.script(latency_seconds=0)


def break_each(containers: Containers, fault: Callable[[Containers, str, str], int], numbers: range) -> None:
    """Upload documents before each fault, and compare Qdrant with the ledger when all of them are ready."""
    uploaded, at_risk = numbers.start, 0
    for index, service in enumerate(SERVICES, 1):
        last = numbers.start + index * len(numbers) // len(SERVICES)
        containers.upload_reports(range(uploaded, last))
        uploaded = last
        container = claiming(containers) if service == GENERATE else containers.containers(service)[0]
        eventually("calls are in flight", lambda: containers.calls()["in_flight"] > 0)
        at_risk += fault(containers, service, container)
        eventually(f"{service} works again", containers.is_ready)
    eventually(f"{numbers.stop} documents are ready", lambda: containers.all_ready(USED + numbers.stop))
    say(f"ledger: {containers.ledger()}")
    containers.compare(USED + numbers.stop)
    check_calls(containers, numbers.stop, at_risk)


def claiming(containers: Containers) -> str:
    """Wait until a generate worker has claimed calls; return the container with the most claimed calls."""
    workers = containers.containers(GENERATE)
    eventually("calls are claimed", lambda: any(map(containers.claimed_calls, workers)))
    return max(workers, key=containers.claimed_calls)


def check_calls(containers: Containers, documents: int, at_risk: int) -> None:
    """Check that every document's call was answered, and that at most the calls of killed workers were paid twice."""
    calls = containers.calls()
    say(
        f"model calls: {len(calls['chats'])} prompts, {calls['calls']} calls, {calls['paid_twice']} paid twice,"
        f" {at_risk} claimed by killed workers; {calls['abandoned']} replies found no caller,"
        f" {calls['repeated']} calls were repeated although their replies had arrived"
    )
    assert len(calls["answered"]) >= documents
    assert calls["paid_twice"] <= at_risk


def kill(containers: Containers, service: str, container: str) -> int:
    """Kill a container and start it again; return the number of calls that it had claimed."""
    containers.command("kill", container)
    claimed = containers.claimed_calls(container) if service == GENERATE else 0
    containers.command("start", container)
    calls = containers.calls()
    say(f"killed {service}: {claimed} calls claimed, {calls['in_flight']} in flight, {calls['abandoned']} abandoned")
    return claimed


def cut_off(containers: Containers, service: str, container: str) -> int:
    """Disconnect a container from the engines' network for some seconds; no paid call may be lost."""
    network = f"{containers.project}_engines"
    before = containers.calls()
    containers.command("network", "disconnect", network, container)
    time.sleep(CUT_SECONDS)
    containers.command("network", "connect", "--alias", service, network, container)
    abandoned = containers.calls()["abandoned"] - before["abandoned"]
    say(f"cut off {service} for {CUT_SECONDS:g} s: {before['in_flight']} calls in flight, {abandoned} abandoned")
    assert abandoned == 0
    return 0


def repair_volume(containers: Containers) -> None:
    """Give the volume to root, as an older image did; the API must report it, and the next start must repair it."""
    chown = ("--user", "root", "--entrypoint", "chown", "uploads", "-R", "root", "/data/uploads")
    containers.compose("run", "--rm", "--no-deps", *chown)  # only the service `uploads` may change owners
    eventually("the API is not ready with a read-only folder", lambda: not containers.is_ready())
    containers.compose("up", "--detach", "--force-recreate", "uploads")
    eventually("the folder belongs to the image's user again", containers.is_ready)
    say(containers.compose("exec", "-T", "api", "foreask", "uploads", "check").strip())


def share_work(first: Containers, second: Containers, bucket: S3) -> None:
    """Submit documents through both APIs; the second project finishes them when the first one's workers are killed."""
    first.script(latency_seconds=LATENCY_SECONDS)
    second.compose("up", "--detach", "--no-deps", "api", *WORKERS)
    eventually("the second project's API is ready", second.is_ready)
    first.upload_reports(range(REPORTS // 2))
    second.upload_reports(range(REPORTS // 2, REPORTS))
    eventually("calls are in flight", lambda: first.calls()["in_flight"] > 0)
    generating = first.containers(GENERATE)
    for service in WORKERS:
        first.command("kill", *first.containers(service))
    claimed = sum(map(first.claimed_calls, generating))
    say(f"killed all workers of the first project: {claimed} calls claimed")
    eventually(f"{REPORTS} documents are ready", lambda: second.all_ready(REPORTS))
    say(f"ledger: {first.ledger()}")
    second.compare(REPORTS)
    stored = sum(bucket.sizes(BUCKET).values())
    say(f"object store: {len(bucket.keys(BUCKET))} objects, {stored} bytes")
    check_calls(second, REPORTS, claimed)
    (api,) = second.containers("api")
    say(second.command("exec", api, "foreask", "uploads", "check").strip())  # fails if an object is missing


def run_faults(name: str, folder: Path) -> None:
    with running(Containers(name, Access.new(), folder)) as containers:
        use(containers)
        break_all(containers)
        repair_volume(containers)


def run_hosts(name: str, folder: Path) -> None:
    port = free_port()
    store = {
        "OBJECTS_PORT": str(port),
        "FOREASK_STORE_URL": f"s3://{BUCKET}/foreask",
        "AWS_ENDPOINT_URL": "http://objects:5000",
        "AWS_REGION": "us-east-1",
        "AWS_ACCESS_KEY_ID": "id-of-the-key",
        "AWS_SECRET_ACCESS_KEY": "the-secret-key",
    }
    access = Access.new(**store)
    first = Containers(name, access, folder, files=["containers_objects.yml"])
    second = Containers(name, access.elsewhere(), folder, f"{PROJECT}-2", files=["containers_objects.yml"])
    bucket = S3(f"http://127.0.0.1:{port}", pid=0)

    def make_bucket() -> None:
        first.compose("up", "--detach", "objects")
        eventually("the object store answers", bucket.answers)
        bucket.make(BUCKET)

    with running(first, second, prepare=make_bucket):
        share_work(first, second, bucket)


def update(containers: Containers, traffic: Traffic) -> None:
    """Replace every container of foreask by one of the next image, with the commands of docs/how-to/upgrade.md."""
    containers.script(latency_seconds=UPDATE_LATENCY_SECONDS)
    folder = ROOT / "tests/acceptance"
    containers.command("build", "--file", str(folder / "next.Dockerfile"), "--tag", NEXT_IMAGE, str(folder))
    containers.use_image(NEXT_IMAGE)
    containers.compose("run", "--rm", "schema")
    size = UPDATED // 3
    for index, old in enumerate(containers.containers("api")):
        containers.upload_reports(range(index * size, (index + 1) * size))
        claiming(containers)
        containers.command("stop", old)
        containers.command("rm", old)
        containers.compose("up", "--detach", "--no-deps", "--no-recreate", "--scale", "api=2", "api")
        eventually("both APIs are healthy", lambda: containers.healthy("api") == 2)
        say(f"replaced an API: {traffic}")
    containers.upload_reports(range(2 * size, UPDATED))
    claiming(containers)
    containers.compose("up", "--detach", "--no-deps", "--scale", f"{GENERATE}=2", *WORKERS)
    say(f"replaced the workers: {traffic}; ledger: {containers.ledger()}")
    assert containers.images("api", *WORKERS) == {containers.image_id(NEXT_IMAGE)}
    eventually(f"{UPDATED} documents are ready", lambda: containers.all_ready(UPDATED))
    say(f"ledger: {containers.ledger()}")
    containers.compare(UPDATED)
    check_calls(containers, UPDATED, 0)


def run_update(name: str, folder: Path) -> None:
    first = free_port()  # the next port is most likely also free; otherwise the second API does not start
    access = Access.new(FOREASK_PORT=f"{first}-{first + 1}")
    with running(Containers(name, access, folder), scale={"api": 2, GENERATE: 2}) as containers:
        with Traffic(access) as traffic:
            update(containers, traffic)
        say(f"requests during the update: {traffic}")
        traffic.check()


def main() -> int:
    available = engine("compose")
    if available is None:
        print(f"No container engine with compose ({', '.join(ENGINES)}) answers, so no container was started.")
        command = [sys.executable, "-m", "pytest", "tests/acceptance/test_compose.py"]
        return subprocess.run(command, cwd=ROOT, check=False).returncode
    started = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        run_faults(available, Path(folder))
        run_hosts(available, Path(folder))
        run_update(available, Path(folder))
    print(f"done in {time.monotonic() - started:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
