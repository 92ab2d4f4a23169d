"""A PostgreSQL server of the tests' own, on loopback, gone when they are done."""

import os
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

ABSENT = "no PostgreSQL server is installed (Debian: apt install postgresql)"


def server_programs() -> Path | None:
    """The folder with initdb and pg_ctl; None where PostgreSQL is absent."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: int(path.parts[-3]))
    if found:
        return found[-1].parent
    program = shutil.which("initdb")
    return Path(program).parent if program else None


def _free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return sock.getsockname()[1]


def _user() -> dict[str, Any]:
    """PostgreSQL refuses to run as root: then it runs as somebody else."""
    if os.geteuid() != 0:
        return {}
    import pwd

    names = {entry.pw_name for entry in pwd.getpwall()}
    name = "postgres" if "postgres" in names else "nobody"
    return {"user": name, "group": pwd.getpwnam(name).pw_gid, "extra_groups": []}


@contextmanager
def postgres_server(programs: Path) -> Iterator[str]:
    """The URL of an empty database on a server that runs inside the `with`."""
    home, who = Path(tempfile.mkdtemp(prefix="rnnlab-postgres-")), _user()
    if who:
        shutil.chown(home, who["user"], who["group"])
    port, data, log = _free_port(), home / "data", home / "log"

    def call(program: str, *words: str) -> None:
        command = [str(programs / program), *words]
        done = subprocess.run(command, capture_output=True, text=True, cwd=home, stdin=subprocess.DEVNULL, **who)
        assert done.returncode == 0, f"{done.stderr}\n{log.read_text() if log.exists() else ''}"

    call("initdb", "-D", str(data), "-U", "rnnlab", "--auth=trust", "--no-sync", "--encoding=UTF8", "--locale=C")
    options = f"-p {port} -c listen_addresses=127.0.0.1 -c unix_socket_directories={home} -c fsync=off"
    # the server keeps the pipes of pg_ctl open, so its output goes to a file
    call("pg_ctl", "-D", str(data), "-o", options, "-l", str(log), "-w", "start", "-s")
    try:
        yield f"postgresql://rnnlab@127.0.0.1:{port}/postgres"
    finally:
        call("pg_ctl", "-D", str(data), "-m", "immediate", "-w", "stop", "-s")
        shutil.rmtree(home, ignore_errors=True)
