"""Where a SQLite database lies, and whether SQLite can work there at all."""

import errno
import fcntl
import shlex
import tempfile
from pathlib import Path

from sqlalchemy import URL, make_url

_NO_LOCKS = {errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS}
# File systems that other machines write to as well: SQLite's write-ahead log works within one machine only.
_NETWORK = ("nfs", "cifs", "smb", "9p", "ceph", "gluster", "lustre", "beegfs", "gpfs", "fuse.sshfs", "fuse.gluster")


def sqlite_file(url: URL | str) -> Path:
    """Return the file of a SQLite database, whose URL has a plain path or one of SQLite's own ("file:…")."""
    return Path((make_url(url).database or "").removeprefix("file:"))


def tool_url(url: URL) -> str:
    """Return a PostgreSQL URL as its own tools take it, quoted for a shell; they find the password as we do."""
    bare = URL.create(
        "postgresql", username=url.username, host=url.host, port=url.port, database=url.database, query=url.query
    )
    return shlex.quote(bare.render_as_string())


def find_trouble(file: Path) -> str | None:
    """Return why SQLite can't work in a file's folder, as a sentence; None where nothing is found."""
    folder = file.parent
    if not folder.is_dir():
        return f"Its folder {folder} does not exist. Make it, or mend url of [database]."
    try:
        with tempfile.TemporaryFile(dir=folder) as probe:
            fcntl.lockf(probe, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        return no_locks(folder) if error.errno in _NO_LOCKS else None
    return None


def no_locks(folder: Path) -> str:
    """Return the sentence for a file system without locks."""
    return (
        f"The file system of {folder} has no locks that work, as some network file systems; SQLite needs them. "
        "Put the data folder on a local disk (DATA=…), or name a PostgreSQL in url of [database]."
    )


def network_file_system(file: Path, mounts: Path = Path("/proc/mounts")) -> str | None:
    """Return the type of the network file system that a file lies on; None for a local one or an unknown."""
    best, kind = "", ""
    for line in mounts.read_text().splitlines() if mounts.exists() else ():
        _, mounted_at, its_kind, *_ = line.split(" ")
        mounted_at = mounted_at.replace(r"\040", " ")
        if file.resolve().is_relative_to(mounted_at) and len(mounted_at) >= len(best):
            best, kind = mounted_at, its_kind
    return kind if kind.startswith(_NETWORK) else None
