"""Every name we give a container engine comes from here.

Requirements: valid for Docker, DNS-safe (lower-case letters, digits, hyphens, at most 63 characters), distinct for
distinct (user, server), the same for ever for the same one. JupyterHub's `safe_slug` makes each part: a plain short
name stays readable, any other is cut and gets a hash of the original; a slug never holds "--", so joining two with
"--" stays distinct. Home volumes depend on the user name alone: they outlive the hub's database.
"""

from jupyterhub.slugs import safe_slug

from nbgpu.core.leases import ServerRef

_SLUG_LENGTH = 22  # prefix (12) + "-" + slug + "--" + slug is at most 59


def server_slug(server: ServerRef) -> str:
    """Return the slug of a server: of its user alone for the default one."""
    user = _slug(server.username)
    return f"{user}--{_slug(server.servername)}" if server.servername else user


def container_name(prefix: str, server: ServerRef) -> str:
    """Return the name of a server's container."""
    return f"{prefix}-{server_slug(server)}"


def home_volume_name(prefix: str, username: str) -> str:
    """Return the name of a user's home volume, shared by all servers of theirs."""
    return f"{prefix}-home-{_slug(username)}"


def archive_mark(volume: str) -> str:
    """Return the name of what marks a home as archived; no home's own name has a dot."""
    return f"{volume}.archived"


def _slug(name: str) -> str:
    slug: str = safe_slug(name, max_length=_SLUG_LENGTH)
    return slug
