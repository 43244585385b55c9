"""Placement: what gets what, in which order, and the properties that must hold whatever comes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nbgpu.core.devices import Device
from nbgpu.core.flavors import Claim, FlavorKind
from nbgpu.core.placement import PoolState, Slot, allocate, count_capacity, count_free

A100, H100, T4 = "NVIDIA A100-SXM4-80GB", "NVIDIA H100 80GB HBM3", "Tesla T4"
ONE, TWO = Claim(kind=FlavorKind.GPU, gpus=1), Claim(kind=FlavorKind.GPU, gpus=2)
QUARTER = Claim(kind=FlavorKind.SHARED, gpus=1, slots=4)
SLICE = Claim(kind=FlavorKind.MIG, gpus=1, mig_profile="1g.10gb")


def gpu(number: int, *, name: str = A100, peers: str = "", memory: int = 80, numa: int = 0, **more: object) -> Device:
    """A whole GPU; `peers` are the numbers of its NVLink peers."""
    return Device(
        uuid=f"GPU-{number}",
        index=number,
        name=name,
        memory_total=memory * 2**30,
        numa_node=numa,
        nvlink_peers=frozenset(f"GPU-{peer}" for peer in peers.split()),
        **more,
    )


def mig(name: str, parent: int, profile: str = "1g.10gb") -> Device:
    return Device(uuid=f"MIG-{name}", parent_uuid=f"GPU-{parent}", mig_profile=profile, name=H100)


def granted(devices: list[Device], claim: Claim, *taken: Slot) -> tuple[Slot, ...] | None:
    allocation = allocate(PoolState(tuple(devices), frozenset(taken)), claim)
    return None if allocation is None else allocation.slots


def test_a_cpu_claim_takes_nothing_and_always_fits():
    assert granted([], Claim(kind=FlavorKind.CPU)) == ()


def test_a_whole_gpu_is_slot_0_of_1():
    assert granted([gpu(0)], ONE) == (Slot("GPU-0", 0, 1),)


@pytest.mark.parametrize(
    ("why", "devices", "taken"),
    [
        ("no device", [], []),
        ("held whole", [gpu(0)], [Slot("GPU-0")]),
        ("a slot of it is held", [gpu(0)], [Slot("GPU-0", 3, 4)]),
        ("in MIG mode", [gpu(0, mig_enabled=True)], []),
        ("a MIG instance is no whole GPU", [mig("a", 0)], []),
        ("broken", [gpu(0, problem="The GPU is lost.")], []),
    ],
)
def test_no_whole_gpu_is_granted_when(why, devices, taken):
    assert granted(devices, ONE, *taken) is None, why


@pytest.mark.parametrize(("model", "expected"), [("a100", "GPU-0"), ("T4", "GPU-1"), ("80GB", "GPU-0"), ("V100", None)])
def test_the_model_is_a_part_of_the_name_in_any_case(model, expected):
    slots = granted([gpu(0), gpu(1, name=T4)], Claim(kind=FlavorKind.GPU, gpus=1, model=model))
    assert (slots[0].device_uuid if slots else None) == expected


def test_a_device_without_a_name_matches_any_but_no_model():
    nameless = gpu(0, name=None)
    assert granted([nameless], ONE)
    assert granted([nameless], Claim(kind=FlavorKind.GPU, gpus=1, model="A100")) is None


def test_several_gpus_are_nvlink_peers_where_there_are():
    devices = [gpu(0), gpu(1, peers="3"), gpu(2), gpu(3, peers="1")]
    assert granted(devices, TWO) == (Slot("GPU-1"), Slot("GPU-3"))


def test_several_gpus_are_of_one_model():
    devices = [gpu(0), gpu(1, name=T4), gpu(2, name=T4)]
    assert granted(devices, TWO) == (Slot("GPU-1"), Slot("GPU-2"))
    assert granted(devices[:2], TWO) is None


def test_without_links_several_gpus_are_of_one_numa_node():
    devices = [gpu(0, numa=0), gpu(1, numa=1), gpu(2, numa=1)]
    assert granted(devices, TWO) == (Slot("GPU-1"), Slot("GPU-2"))


def test_one_gpu_is_taken_where_it_breaks_no_pair():
    devices = [gpu(0, peers="1"), gpu(1, peers="0"), gpu(2)]
    assert granted(devices, ONE) == (Slot("GPU-2"),)


def test_one_gpu_of_any_model_is_the_smallest():
    assert granted([gpu(0), gpu(1, name=T4, memory=15)], ONE) == (Slot("GPU-1"),)


def test_shared_slots_fill_the_started_gpu_first():
    devices = [gpu(0), gpu(1)]
    assert granted(devices, QUARTER, Slot("GPU-1", 0, 4)) == (Slot("GPU-1", 1, 4),)
    full = [Slot("GPU-1", number, 4) for number in range(4)]
    assert granted(devices, QUARTER, *full) == (Slot("GPU-0", 0, 4),)


def test_a_freed_slot_is_given_again():
    taken = [Slot("GPU-0", 0, 4), Slot("GPU-0", 2, 4), Slot("GPU-0", 3, 4)]
    assert granted([gpu(0)], QUARTER, *taken) == (Slot("GPU-0", 1, 4),)


@pytest.mark.parametrize("held", [Slot("GPU-0"), Slot("GPU-0", 0, 2)])
def test_a_gpu_is_cut_one_way_at_a_time(held):
    assert granted([gpu(0)], QUARTER, held) is None


def test_shared_slots_spare_linked_gpus():
    assert granted([gpu(0, peers="1"), gpu(1, peers="0"), gpu(2)], QUARTER) == (Slot("GPU-2", 0, 4),)


def test_mig_instances_fill_the_started_gpu_first():
    devices = [gpu(0, mig_enabled=True), mig("a", 0), mig("b", 0), gpu(1, mig_enabled=True), mig("c", 1), mig("d", 1)]
    assert granted(devices, SLICE, Slot("MIG-d")) == (Slot("MIG-c"),)


def test_a_mig_instance_is_taken_by_its_profile():
    devices = [mig("a", 0, "2g.20gb"), mig("b", 0)]
    assert granted(devices, SLICE) == (Slot("MIG-b"),)
    assert granted(devices[:1], SLICE) is None


def test_a_mig_instance_with_a_problem_is_not_granted():
    broken = Device(uuid="MIG-a", parent_uuid="GPU-0", mig_profile="1g.10gb", problem="The GPU is lost.")
    assert granted([broken], SLICE) is None


def test_leases_on_devices_that_vanished_do_no_harm():
    assert granted([gpu(0)], ONE, Slot("GPU-gone")) == (Slot("GPU-0"),)


CLAIMS = st.sampled_from(
    [
        ONE,
        TWO,
        Claim(kind=FlavorKind.GPU, gpus=3),
        Claim(kind=FlavorKind.GPU, gpus=1, model="T4"),
        QUARTER,
        Claim(kind=FlavorKind.SHARED, gpus=1, slots=2, model="A100"),
        SLICE,
        Claim(kind=FlavorKind.MIG, gpus=1, mig_profile="2g.20gb"),
        Claim(kind=FlavorKind.CPU),
    ]
)


@st.composite
def pools(draw: st.DrawFn) -> tuple[Device, ...]:
    """Up to eight GPUs, some in MIG mode with instances, some broken, links at random but mutual."""
    count = draw(st.integers(0, 8))
    links = draw(st.sets(st.tuples(st.integers(0, 7), st.integers(0, 7)), max_size=12))
    devices: list[Device] = []
    for number in range(count):
        peers = {b for a, b in links if a == number} | {a for a, b in links if b == number}
        in_mig = draw(st.booleans())
        problem = draw(st.sampled_from([None, None, None, "The GPU is lost."]))
        peers_text = " ".join(str(peer) for peer in sorted(peers - {number}) if peer < count)
        name = draw(st.sampled_from([A100, T4, None]))
        devices.append(gpu(number, name=name, peers=peers_text, mig_enabled=in_mig, problem=problem))
        if in_mig:
            profiles = draw(st.lists(st.sampled_from(["1g.10gb", "2g.20gb"]), max_size=4))
            devices += [mig(f"{number}-{each}", number, profile) for each, profile in enumerate(profiles)]
    return tuple(devices)


@given(pools(), st.lists(st.tuples(CLAIMS, st.integers(0, 20)), max_size=40))
def test_whatever_comes_and_goes_no_slot_is_held_twice(devices, steps):
    held: list[tuple[Slot, ...]] = []
    for claim, ends in steps:
        taken = frozenset(slot for slots in held for slot in slots)
        state = PoolState(devices, taken)
        free = count_free(state, claim)
        allocation = allocate(state, claim)
        assert (allocation is None) == (free == 0), "what the menu promises is what a start gets"
        if allocation is not None:
            check_grant(devices, claim, allocation.slots, taken)
            held.append(allocation.slots)
        if ends < len(held):
            held.pop(ends)


def check_grant(devices, claim, slots, taken):
    by_uuid = {device.uuid: device for device in devices}
    assert len(slots) == (claim.gpus if claim.kind is FlavorKind.GPU else claim.kind is not FlavorKind.CPU)
    assert len(set(slots)) == len(slots)
    for slot in slots:
        device = by_uuid[slot.device_uuid]
        others = {other for other in taken if other.device_uuid == slot.device_uuid}
        assert device.problem is None
        assert device.is_mig == (claim.kind is FlavorKind.MIG)
        assert not device.mig_enabled
        assert slot not in others
        assert all(other.slots == slot.slots for other in others), "a device is cut one way at a time"
        assert 0 <= slot.slot < slot.slots == claim.slots


@given(pools(), CLAIMS)
def test_as_many_fit_as_are_counted(devices, claim):
    capacity = count_capacity(PoolState(devices), claim)
    if capacity is None:
        assert claim.kind is FlavorKind.CPU
        return
    taken: frozenset[Slot] = frozenset()
    for _ in range(capacity):
        allocation = allocate(PoolState(devices, taken), claim)
        assert allocation is not None
        taken |= frozenset(allocation.slots)
    assert allocate(PoolState(devices, taken), claim) is None
