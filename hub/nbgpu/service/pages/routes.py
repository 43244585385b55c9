"""Where the service's pages are."""

from collections.abc import Callable
from typing import Any

from jupyterhub.services.auth import HubOAuth

from nbgpu.service.books import Books
from nbgpu.service.pages.audit import audit_routes
from nbgpu.service.pages.base import CallbackHandler, FileHandler, Frame, NothingPage
from nbgpu.service.pages.limits import limit_routes
from nbgpu.service.pages.look import SHARED, SHARED_FILES, STATIC
from nbgpu.service.pages.notices import notice_routes
from nbgpu.service.pages.pool import pool_routes
from nbgpu.service.pages.pool_stop import StopPage
from nbgpu.service.pages.prices import price_routes
from nbgpu.service.pages.servers import ExtendPage, ServersPage
from nbgpu.service.pages.session_plans import session_routes
from nbgpu.service.pages.site import site_routes
from nbgpu.service.pages.usage import usage_routes
from nbgpu.service.turns import Turns

PAGES = "servers|servers/extend"


def page_routes(
    prefix: str, find_books: Callable[[], Books | None], *, auth: HubOAuth | None = None, turns: Turns | None = None
) -> list[tuple[Any, ...]]:
    """Return the pages' routes under a path like "/services/nbgpu/"; without `auth` the environment's hub is asked."""
    parts = {"frame": Frame(prefix, find_books, auth or HubOAuth.instance())}
    return [
        (rf"{prefix}servers", ServersPage, parts),
        (rf"{prefix}servers/extend", ExtendPage, parts),
        *usage_routes(prefix, parts, turns),
        (rf"{prefix}servers/stop", StopPage, parts),
        *session_routes(prefix, parts),
        *pool_routes(prefix, parts),
        *audit_routes(prefix, parts),
        *notice_routes(prefix, parts),
        *site_routes(prefix, parts),
        *limit_routes(prefix, parts),
        *price_routes(prefix, parts),
        (rf"{prefix}oauth_callback", CallbackHandler, parts),
        (rf"{prefix}static/({SHARED_FILES})", FileHandler, {"path": str(SHARED)}),
        (rf"{prefix}static/(.*)", FileHandler, {"path": str(STATIC)}),
        (rf"{prefix}(?!api/|api$|health$|metrics$).+", NothingPage, parts),
    ]
