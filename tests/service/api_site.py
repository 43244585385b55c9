"""The whole REST API over a real database, and people of each kind who ask it."""

from contextlib import contextmanager
from datetime import timedelta
from threading import Event, Thread
from types import SimpleNamespace

from tornado.httpserver import HTTPServer
from tornado.ioloop import IOLoop
from tornado.testing import bind_unused_port
from tornado.web import Application

from nbgpu.core.authorize import Policies
from nbgpu.core.budgets import Budget
from nbgpu.core.findings import Examination
from nbgpu.core.flavors import FlavorKind
from nbgpu.core.leases import ServerRef
from nbgpu.core.prices import build_prices
from nbgpu.core.quotas import QuotaPolicy, Scope, Who
from nbgpu.core.windows import Window, WindowKind
from nbgpu.service.api import api_routes
from nbgpu.service.books import Books
from nbgpu.service.policy_desk import PolicyDesk
from nbgpu.service.policy_import import CreditDesk
from nbgpu.store.broadcasts import SqlBroadcasts
from nbgpu.store.keeping import SqlLimits
from nbgpu.store.ledger import SqlLedger
from nbgpu.store.maintenance import SqlMaintenance
from nbgpu.store.policies import SqlPolicies
from nbgpu.store.prices import SqlPrices
from nbgpu.store.statements import SqlStatements
from service.idle_book import FakeIdleBook, FakeSessionBook, make_view
from service.pool_site import NOW, PoolSite, make_devices
from support.site import make_flavor

SERVICE = "access:services!service=nbgpu"
SCOPES = {  # of a token, which is its owner's name; a server's is named by its server
    "ann": [SERVICE, "access:servers!user=ann"],
    "bob": [SERVICE, "access:servers!user=bob"],
    "ann/": [SERVICE, "access:servers!server=ann/"],
    "ann/second": [SERVICE, "access:servers!server=ann/second"],
    "stranger": ["access:servers!user=stranger"],
    "reader": [SERVICE, "custom:nbgpu:usage:read"],
    "operator": [SERVICE, "custom:nbgpu:operate"],
    "biller": [SERVICE, "custom:nbgpu:bill"],
    "admin": ["access:services", "access:servers", "admin:users"],
    "culler": [SERVICE, "custom:nbgpu:cull"],
    "prometheus": [SERVICE, "read:metrics"],
}
POLICIES = Policies(
    quotas=(QuotaPolicy(who=Who(Scope.EVERYONE), servers=3),),
    budgets=(
        Budget(name="ml", who=Who(Scope.GROUP, "ml"), amount=5_000_000, window=Window(kind=WindowKind.MONTH)),
        Budget(name="own", who=Who(Scope.EVERYONE), amount=900_000, window=Window(kind=WindowKind.WEEK)),
    ),
)


class Hub:
    """The hub's word on who asks."""

    async def get_user(self, handler, *, sync):
        token = handler.request.headers.get("Authorization", "").removeprefix("token ")
        if token not in SCOPES:
            return None
        kind = "service" if token in ("culler", "prometheus") else "user"
        return {"name": token.partition("/")[0], "kind": kind, "groups": [], "scopes": SCOPES[token]}


class Sessions(FakeIdleBook):
    """As the store does, it finds what ended too."""

    def extend_time_limit(self, session_id, seconds, *, by):
        return self.views[session_id]


def make_books(folder) -> Books:
    """Return the books of a site where ann, of the group ml, and bob have servers."""
    site = PoolSite(folder, (*make_devices(1, 2), *make_devices(2, 0)[1:]))
    gpu, cpu = make_flavor("gpu", FlavorKind.GPU), make_flavor("cpu", FlavorKind.CPU)
    site.lease("ann", FlavorKind.GPU)
    site.lease("bob", FlavorKind.CPU)
    site.audit.record(actor="root", action="gpu.cordon", subject="GPU-0", detail="a fan")
    prices = SqlPrices(site.engine, lambda: NOW)
    prices.ensure([*build_prices(gpu, "USD", 0), *build_prices(cpu, "USD", 0)])
    idle = Sessions(
        make_view("a-1"),
        make_view("a-2", ServerRef("ann", "second")),
        make_view("b-1", ServerRef("bob"), policy=None, verdict=None),
        make_view("old", ended_at=NOW - timedelta(minutes=5)),
    )
    statements = SqlStatements(site.engine)
    policies = SqlPolicies(site.engine, POLICIES, lambda: NOW)
    limits = SqlLimits(site.engine, policies, lambda: NOW)
    ledger = SqlLedger(site.engine, lambda: NOW)
    return site.books(
        statements=statements,
        limits=limits,
        policies=PolicyDesk(policies, limits, flavors={"gpu", "cpu"}),
        credits=CreditDesk(ledger, statements, site.audit, currency="USD", clock=lambda: NOW),
        prices=prices,
        idle=idle,
        sessions=FakeSessionBook(idle),
        flavors={"gpu": gpu, "cpu": cpu},
        broadcasts=SqlBroadcasts(site.engine, lambda: NOW),
        maintenance=SqlMaintenance(site.engine, lambda: NOW),
        images=SimpleNamespace(look=lambda: ()),
        doctor=SimpleNamespace(latest=Examination, begin=lambda: None),
        stopper=SimpleNamespace(stop=lambda view, *, by, reason: None),
        metrics=lambda: b"# EOF\n",
    )


@contextmanager
def serving(books: Books, prefix: str = "/"):
    """Serve the API beside the test; give its address, like "http://127.0.0.1:8000/"."""
    sock, port = bind_unused_port()
    begun, box = Event(), {}

    async def serve():
        box["loop"] = IOLoop.current()
        box["server"] = HTTPServer(Application(api_routes(prefix, lambda: books, Hub())))
        box["server"].add_sockets([sock])
        begun.set()

    def run():
        loop = IOLoop(make_current=False)
        loop.add_callback(serve)
        loop.start()
        loop.close()

    async def end():
        box["server"].stop()
        await box["server"].close_all_connections()
        box["loop"].stop()

    thread = Thread(target=run, daemon=True)
    thread.start()
    assert begun.wait(30)
    yield f"http://127.0.0.1:{port}{prefix}"
    box["loop"].add_callback(end)
    thread.join(30)


def authorization(token: str) -> dict[str, str]:
    """Return the header of a token; nobody has none."""
    return {"Authorization": f"token {token}"} if token else {}
