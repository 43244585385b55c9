"""Options: whatever is sent, the answer is a choice of the menu or a plain refusal."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nbgpu.core.errors import InvalidOptions, NotAllowed, Refusal
from nbgpu.core.flavors import Flavor, FlavorKind
from nbgpu.core.menu import MAX_LENGTH, Menu, parse_options

NOBODY: frozenset[str] = frozenset()


def flavor(slug: str, *, groups: tuple[str, ...] = (), images: tuple[str, ...] = ("base", "pytorch")) -> Flavor:
    return Flavor(
        slug=slug,
        display_name=slug.title(),
        kind=FlavorKind.CPU,
        cpus=1,
        memory=2**30,
        shm=2**26,
        pids=100,
        images=images,
        price_per_hour=0,
        groups=frozenset(groups),
    )


@pytest.fixture
def menu() -> Menu:
    return Menu([flavor("lab", groups=("phd", "staff")), flavor("cpu"), flavor("big", images=("pytorch",))])


def test_nothing_asked_gives_the_first_flavor_one_may_take_and_its_first_image(menu):
    assert menu.choose({}, NOBODY).to_options() == {"profile": "cpu", "image": "base"}
    assert menu.choose(None, frozenset({"phd"})).to_options() == {"profile": "lab", "image": "base"}


def test_form_fields_come_as_lists_of_one(menu):
    assert menu.choose({"profile": ["big"], "image": ["pytorch"]}, NOBODY).flavor.slug == "big"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ([], "must be an object"),
        ("cpu", "must be an object"),
        (3, "must be an object"),
        ({"flavor": "cpu"}, "Unknown server option “flavor”"),
        ({3: "cpu"}, "Unknown server option 3"),
        ({"a\nb" * 200: "cpu"}, "Unknown server option"),
        ({"profile": None}, "must be one text; got NoneType"),
        ({"profile": ["cpu", "big"]}, "must be one text; got list"),
        ({"profile": [["cpu"]]}, "must be one text; got list"),
        ({"profile": {"slug": "cpu"}}, "must be one text; got dict"),
        ({"profile": float("nan")}, "must be one text; got float"),
        ({"profile": True}, "must be one text; got bool"),
        ({"profile": b"cpu"}, "must be one text; got bytes"),
        ({"profile": "x" * 1_000_000}, "must be a slug of the menu"),
        ({"profile": "cpu\r\nSet-Cookie: a"}, "must be a slug of the menu"),
        ({"profile": "huge"}, "There is no flavor “huge”"),
        ({"profile": "cpu", "image": "debian:latest"}, "has no image “debian:latest”"),
        ({"profile": "big", "image": "base"}, "“Big” has no image “base”. It starts with: pytorch"),
    ],
)
def test_wrong_options_are_refused_with_a_short_sentence(menu, options, message):
    with pytest.raises(InvalidOptions, match=message) as refusal:
        menu.choose(options, NOBODY)
    assert len(str(refusal.value)) < 300
    assert (refusal.value.status_code, refusal.value.reason) == (400, "options")


def test_a_flavor_of_other_groups_is_refused_and_says_whose_it_is(menu):
    with pytest.raises(NotAllowed, match="“Lab” is open to phd, staff only. You may take: cpu, big") as refusal:
        menu.choose({"profile": "lab"}, frozenset({"student"}))
    assert (refusal.value.status_code, refusal.value.reason) == (403, "not_allowed")


def test_without_any_flavor_the_refusal_says_whom_to_ask():
    with pytest.raises(NotAllowed, match="Ask an administrator"):
        Menu([flavor("lab", groups=("phd",))]).choose({}, NOBODY)


JSON = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text() | st.binary(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@given(JSON | st.dictionaries(st.sampled_from(["profile", "image", "x"]), JSON))
def test_any_object_at_all_is_parsed_or_refused(options):
    try:
        parsed = parse_options(options)
    except Refusal as refusal:
        assert str(refusal).isprintable()  # noqa: PT017 - most examples are refused, a few are not
    else:
        assert set(parsed) <= {"profile", "image"}
        assert all(isinstance(value, str) and len(value) <= MAX_LENGTH for value in parsed.values())
