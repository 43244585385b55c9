"""Starts and stops through the hub's own User.spawn and User.stop, on the fake engine."""

from dataclasses import replace

import pytest
from jupyterhub.spawner import SpawnException

from nbgpu.core.leases import LeaseState
from nbgpu.core.prices import ALWAYS, build_prices
from nbgpu.store.prices import SqlPrices
from support.users import start


async def test_a_start_leases_creates_and_answers(site):
    ann = site.users["ann"]
    await start(ann, profile="two", image="base")
    (lease,) = site.leases.open_leases()
    assert lease.state is LeaseState.ACTIVE
    assert lease.allocation.device_uuids == ("GPU-0", "GPU-1")
    (container,) = site.docker.by_id.values()
    assert container["State"]["Running"]
    assert container["Image"] == "sha256:base"
    assert lease.active_at.isoformat()[:26] == container["State"]["StartedAt"][:26]
    assert ann.spawner.server.url.startswith("http://127.")
    await ann.stop()
    assert (site.leases.open_leases(), site.docker.by_id) == ((), {})
    assert "nbgpu-test00-home-ann" in site.docker.volumes


async def test_without_options_the_default_is_started_and_shown(site):
    await start(site.users["ann"])
    assert site.users["ann"].spawner.user_options == {"profile": "cpu", "image": "base"}
    assert site.users["ann"].spawner.orm_spawner.user_options == {"profile": "cpu", "image": "base"}


async def test_the_device_request_carries_the_leased_uuids_and_no_other(site):
    await start(site.users["ann"], profile="one")
    host_config = site.docker.created[0]["host_config"]
    assert [request["DeviceIDs"] for request in host_config["DeviceRequests"]] == [["GPU-0"]]
    assert site.docker.created[0]["environment"]["NVIDIA_VISIBLE_DEVICES"] == "GPU-0"


@pytest.mark.case(29)
async def test_a_cpu_server_gets_an_explicit_none_whatever_the_image_or_the_site_say(make_site):
    site = make_site(environment={"NVIDIA_VISIBLE_DEVICES": "all"})
    await start(site.users["ann"], profile="cpu")
    created = site.docker.created[0]
    assert created["environment"]["NVIDIA_VISIBLE_DEVICES"] == "void"
    assert not created["host_config"].get("DeviceRequests")


@pytest.mark.case(35)
async def test_limits_and_hardening_are_on_the_create_call(site):
    await start(site.users["ann"], profile="shared")
    created = site.docker.created[0]
    host = created["host_config"]
    assert host["CapDrop"] == ["ALL"]
    assert host["SecurityOpt"] == ["no-new-privileges"]
    assert host["Init"] is True
    assert host["PidsLimit"] == 200
    assert host["Memory"] == host["MemorySwap"] == 2**30
    assert host["ShmSize"] == 2**28
    assert host["CpuQuota"] == 200_000
    assert host["LogConfig"]["Config"]["max-size"] == "10m"
    assert host["NetworkMode"] == "net"
    assert host["Binds"] == ["nbgpu-test00-home-ann:/home/nbgpu:rw"]
    environment = created["environment"]
    assert environment["OMP_NUM_THREADS"] == "2"
    assert environment["CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"] == "25"
    assert environment["CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"] == "0=20480M"
    assert set(created["labels"]) == {f"org.nbgpu.{name}" for name in ("deployment", "session", "server", "devices")}
    secrets = [ann_token for ann_token in (environment["JUPYTERHUB_API_TOKEN"],) if ann_token in str(created["labels"])]
    assert secrets == []


async def test_what_the_site_configures_is_kept(make_site):
    site = make_site(
        extra_host_config={
            "extra_hosts": {"files": "10.1.2.3"},
            "pids_limit": 99,
            "binds": {"/data": {"bind": "/d", "mode": "ro"}},
        },
        extra_create_kwargs={"hostname": "box"},
        environment={"TEAM": "physics"},
    )
    for _ in range(2):  # the second start must not see what the first one built
        await start(site.users["ann"], profile="cpu")
        await site.users["ann"].stop()
    first, second = site.docker.created
    for created in (first, second):
        assert created["host_config"]["ExtraHosts"] == ["files:10.1.2.3"]
        assert created["host_config"]["PidsLimit"] == 99
        assert sorted(created["host_config"]["Binds"]) == ["/data:/d:ro", "nbgpu-test00-home-ann:/home/nbgpu:rw"]
        assert created["hostname"] == "box"
        assert created["environment"]["TEAM"] == "physics"
    assert first["labels"]["org.nbgpu.session"] != second["labels"]["org.nbgpu.session"]


@pytest.mark.case(3)
async def test_named_servers_have_a_container_and_a_lease_each(site):
    ann = site.users["ann"]
    for server, profile in (("", "one"), ("a", "one"), ("b", "cpu")):
        await start(ann, server, profile=profile)
    assert len({created["name"] for created in site.docker.created}) == 3
    assert len(site.leases.open_leases()) == 3
    await ann.stop("a")
    assert sorted(str(lease.server) for lease in site.leases.open_leases()) == ["ann", "ann/b"]
    assert len(site.docker.by_id) == 2


@pytest.mark.case(12)
@pytest.mark.parametrize(
    ("options", "status", "reason", "sentence"),
    [
        ({"profile": "huge"}, 400, "options", "There is no flavor “huge”"),
        ({"profile": ["one", "two"]}, 400, "options", "must be one text"),
        ({"flavor": "one"}, 400, "options", "Unknown server option"),
        ({"profile": "one", "image": "debian"}, 400, "options", "has no image “debian”"),
        ({"profile": "staff"}, 403, "not_allowed", "open to staff only"),
        ({"profile": "one", "image": "pytorch"}, 503, "image", "nbgpu images build pytorch"),
    ],
)
async def test_a_refusal_is_one_sentence_with_status_and_reason_and_leaves_nothing(
    site, options, status, reason, sentence
):
    with pytest.raises(SpawnException, match=sentence) as refusal:
        await site.users["ann"].spawn(options=options)
    assert (refusal.value.status_code, refusal.value.reason) == (status, reason)
    assert (site.leases.open_leases(), site.docker.created) == ((), [])


async def test_when_all_are_taken_the_refusal_says_what_is_free_instead(site):
    await start(site.users["ann"], profile="two")
    with pytest.raises(SpawnException, match="No “ONE” can start now: All are in use. Free instead: “CPU”") as refusal:
        await start(site.users["bob"], profile="one")
    assert (refusal.value.status_code, refusal.value.reason) == (503, "capacity")
    await site.users["ann"].stop()
    await start(site.users["bob"], profile="one")


async def test_a_wrong_choice_is_not_the_next_starts_default(site):
    with pytest.raises(SpawnException):
        await start(site.users["ann"], profile="huge")
    await site.users["ann"].spawn(options=None)
    assert site.users["ann"].spawner.user_options["profile"] == "cpu"


async def test_a_member_of_the_group_may_take_the_groups_flavor(site):
    from jupyterhub import orm

    ann = site.users["ann"]
    site.users.db.add(orm.Group(name="staff", users=[ann.orm_user]))
    site.users.db.commit()
    await start(ann, profile="staff")
    assert site.leases.open_leases()[0].flavor == "staff"


async def test_a_driver_that_fails_closes_gpu_flavors_and_leaves_cpu_ones(site):
    site.inventory.problem = "The NVIDIA driver was updated: restart this machine."
    with pytest.raises(SpawnException, match="The NVIDIA driver was updated"):
        await start(site.users["ann"], profile="one")
    await start(site.users["ann"], profile="cpu")


@pytest.mark.case(11)
async def test_state_survives_a_hub_restart(site):
    ann = site.users["ann"]
    await start(ann, profile="two")
    before = ann.spawner
    after = ann._new_spawner("", orm_spawner=before.orm_spawner)
    assert after.session_id == before.session_id
    assert (after.flavor, after.image_slug, after.image_id) == ("two", "base", "sha256:base")
    assert after.device_uuids == ("GPU-0", "GPU-1")
    assert await after.poll() is None
    after.user.spawners[""] = after
    await ann.stop()
    assert (site.leases.open_leases(), site.docker.by_id) == ((), {})


async def test_the_servers_token_ends_with_the_server(site):
    from jupyterhub import orm

    ann = site.users["ann"]
    await start(ann, profile="cpu")
    token = ann.spawner.api_token
    assert orm.APIToken.find(site.users.db, token) is not None
    await ann.stop()
    assert orm.APIToken.find(site.users.db, token) is None


async def test_a_price_that_is_set_is_shown_and_kept_from_then_on(site):
    """The menu, a running server's card and its lease: what is said is what is charged."""
    flavor = site.desk.menu.get("one")
    prices, ann = SqlPrices(site.leases._engine), site.users["ann"]
    prices.ensure(build_prices(flavor, "USD", ALWAYS))
    await start(ann, profile="one")
    sku = next(each for each in prices.sheet().current(1) if ":gpu:" in each.sku_id)
    prices.add([replace(sku, list_unit_price=7_500_000, effective_from=1)], author="root")
    (card,) = [each for each in site.desk.view(frozenset(), None).cards if each.slug == "one"]
    assert "7.50 USD per hour" in str(card.price)
    assert "7.50 USD per hour" in str(site.desk.sessions("ann", [""])[""].price)
    await ann.stop()
    await start(ann, profile="one")
    (lease,) = site.leases.open_leases()
    assert lease.price_per_hour == 7_500_000
