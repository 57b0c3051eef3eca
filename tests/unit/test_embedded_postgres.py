"""The user of the PostgreSQL processes when root starts them."""

import stat
from concurrent.futures import ThreadPoolExecutor

from embedded import postgres

USERADD = """#!/bin/sh
echo begin >> {log}
sleep 0.2
echo end >> {log}
"""


def test_concurrent_first_starts_create_user_serially(tmp_path, monkeypatch):
    """Concurrent `useradd` commands would give one name two ids, and the first id would belong to no user."""
    log, command = tmp_path / "log", tmp_path / "useradd"
    command.write_text(USERADD.format(log=log))
    command.chmod(stat.S_IRWXU)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setattr(postgres, "SYSTEM_USER", "foreask-there-is-no-such-user")

    with ThreadPoolExecutor() as pool:
        made = list(pool.map(lambda _: postgres._make_user(), range(3)))

    assert made == [None, None, None]
    assert log.read_text().split() == ["begin", "end"] * 3


def test_user_created_concurrently_is_used(tmp_path, monkeypatch):
    command = tmp_path / "useradd"
    command.write_text(f"#!/bin/sh\ntouch {tmp_path}/called\n")
    command.chmod(stat.S_IRWXU)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setattr(postgres, "SYSTEM_USER", "root")

    user = postgres._make_user()

    assert user is not None
    assert user.pw_uid == 0
    assert not (tmp_path / "called").exists()
