"""Malformed options by every way in, to a real hub: always a 4xx, at once, and nothing is left or pending."""

import json
import time
from functools import partial
from urllib.parse import quote

import httpx
import pytest
from bs4 import BeautifulSoup

pytestmark = [pytest.mark.docker, pytest.mark.case(13)]
PROMPT = 2.0  # seconds
FUZZER, OTHER = "f-fuzz", "f-other"
MEGABYTE = 10**6
DEEP = "{" + '"a":{' * 100_000 + "}" * 100_000 + "}"
WIDE = json.dumps({f"key-{number}": {"profile": ["cpu"] * 10} for number in range(12_000)})

REST = {
    "a list": b"[1, 2]",
    "a list of pairs": b'[["profile", "cpu"]]',
    "a text": b'"cpu"',
    "a number": b"7",
    "true": b"true",
    "no JSON": b"profile=cpu",
    "half a JSON": b'{"profile": "cpu"',
    "two JSONs": b'{"profile": "cpu"} {}',
    "bytes that are no UTF-8": b'{"profile": "\xff\xfe\xc3\x28"}',
    "a key that is no UTF-8": b'{"\xff": "cpu"}',
    "UTF-16": '{"profile": "cpu"}'.encode("utf-16"),
    "NUL bytes": b"\x00\x00",
    "NaN": b'{"profile": NaN}',
    "Infinity": b'{"profile": -Infinity}',
    "a huge number": b'{"profile": ' + b"9" * MEGABYTE + b"}",
    "null": b'{"profile": null}',
    "a bool": b'{"profile": true}',
    "an object": b'{"profile": {"slug": "cpu"}}',
    "an empty list": b'{"profile": []}',
    "two values": b'{"profile": ["cpu", "a100"]}',
    "a list in a list": b'{"profile": [["cpu"]]}',
    "a long text": json.dumps({"profile": "x" * MEGABYTE}).encode(),
    "a long key": json.dumps({"x" * MEGABYTE: "cpu"}).encode(),
    "a wide object": WIDE.encode(),
    "a deep object": DEEP.encode(),
    "a deep object of a field": b'{"profile": ' + DEEP.encode() + b"}",
    "a control character": b'{"profile": "cpu\\u0000"}',
    "a lone surrogate": b'{"profile": "\\ud800"}',
    "right-to-left override": b'{"profile": "cpu\\u202e"}',
    "markup": b'{"profile": "<script>alert(1)</script>"}',
    "an unknown field": b'{"profile": "cpu", "cmd": ["sh"]}',
    "Docker's word": b'{"extra_host_config": {"privileged": true}}',
    "an empty key": b'{"": "cpu"}',
    "an image from elsewhere": b'{"profile": "cpu", "image": "evil.example/x:latest"}',
    "a repeated field, wrong at last": b'{"profile": "cpu", "profile": "nope"}',
    "a field with capitals": b'{"Profile": "cpu"}',
    "a list as user_options": b'{"user_options": []}',
    "a text as user_options": b'{"user_options": "cpu"}',
    "wrong user_options": b'{"user_options": {"profile": 1}}',
    "a number as display_name": b'{"display_name": 1, "user_options": {"profile": "nope"}}',
    "a display_name beside options": b'{"display_name": "x", "profile": "cpu", "user_options": {"gpus": 8}}',
    "a long display_name": json.dumps({"display_name": "x" * MEGABYTE, "user_options": {"profile": "nope"}}).encode(),
    "markup as display_name": b'{"display_name": "<b>\\u0000", "user_options": {"profile": "nope"}}',
}
FORMS = {
    "an unknown field": b"profile=cpu&cmd=sh",
    "an unknown flavor": b"profile=nope",
    "a field without a name": b"=cpu",
    "a repeated field": b"profile=cpu&profile=a100",
    "a long text": b"profile=" + b"x" * MEGABYTE,
    "a long name": b"x" * MEGABYTE + b"=cpu",
    "many fields": b"&".join(b"f%d=1" % number for number in range(900)),
    "bytes that are no UTF-8": b"profile=%ff%fe",
    "raw bytes that are no UTF-8": b"profile=\xff\xfe",
    "a name that is no UTF-8": b"%ff=cpu",
    "a NUL": b"profile=cpu%00",
    "a line end": b"profile=cpu%0d%0aX-Evil:1",
    "broken escapes": b"profile=%zz%",
    "markup": b"profile=%3Cscript%3Ealert(1)%3C/script%3E",
    "JSON": b'{"profile": "cpu"}',
}
QUERIES = {
    "an unknown flavor": "opt-profile=nope",
    "an unknown field": "opt-profile=cpu&opt-cmd=sh",
    "an option without a name": "opt-=cpu",
    "a repeated field": "opt-profile=cpu&opt-profile=a100",
    "bytes that are no UTF-8": "opt-profile=%ff%fe",
    "a name that is no UTF-8": "opt-%ff=cpu",
    "a NUL": "opt-profile=cpu%00",
    "a long text": "opt-profile=" + "x" * 30_000,
    "an empty name": "opt-image=&opt-profile=nope",
    "without the prefix": "profile=nope",
    "markup": "opt-profile=%3Cscript%3Ealert(1)%3C/script%3E",
}
SERVER_NAMES = ["..", ".", "a/b", "a%2Fb", "A", "Train", "x" * 31, "é", "a b", "%00", "-", "a_b", "<b>", "a" * 5000]


@pytest.fixture(scope="module")
def browser(shared_site):
    """The session of the one who sends it all, in a browser."""
    for user in (FUZZER, OTHER):
        shared_site.add_user(user)
    with shared_site.logged_in(FUZZER) as session:
        yield session


def problem(site, send):
    """Send something that is to be refused at once, in a few words, and to have no effect; return what is wrong."""
    begun = time.monotonic()
    answer = send()
    seconds = time.monotonic() - begun
    if not 400 <= answer.status_code < 500:
        return f"status {answer.status_code}"
    unescaped = "<script>alert" in answer.text and "html" in answer.headers["content-type"]
    if "Traceback" in answer.text or unescaped or len(answer.content) > 100_000:
        return f"says {answer.text[:1000]}"
    if site.leases():
        return "a lease is held"
    model = site.api.get(f"/users/{FUZZER}").raise_for_status().json()
    if any(server["pending"] or server["ready"] for server in model["servers"].values()):
        return f"servers {model['servers']}"
    begun = time.monotonic()
    site.api.get(f"/users/{OTHER}").raise_for_status()
    for_other = time.monotonic() - begun
    return f"took {seconds:.1f} s, somebody else {for_other:.1f} s" if max(seconds, for_other) > PROMPT else None


def problems(site, sends):
    """Send many; return what is wrong by name."""
    found = {name: problem(site, send) for name, send in sends.items()}
    assert site.containers() == []
    assert site.serves()
    return {name: what for name, what in found.items() if what is not None}


@pytest.mark.parametrize("server", ["/server", "/servers/fuzz"])
def test_bodies_over_the_api(site, browser, server):
    def send(body):
        answer = site.api.post(f"/users/{FUZZER}{server}", content=body)
        return answer if len(answer.json()["message"]) < 1000 else httpx.Response(599, text="a long message")

    assert problems(site, {name: partial(send, body) for name, body in REST.items()}) == {}


@pytest.mark.parametrize("server", ["", f"/{FUZZER}/fuzz"])
def test_bodies_of_the_form(site, browser, server):
    page = BeautifulSoup(browser.get("/spawn").text, "html.parser")
    token = page.select_one("form[action*=spawn]")["action"].partition("_xsrf=")[2]
    post = partial(browser.post, f"/spawn{server}?_xsrf={token}", follow_redirects=False)
    plain = {"Content-Type": "application/x-www-form-urlencoded"}
    sends = {name: partial(post, content=body, headers=plain) for name, body in FORMS.items()}
    sends["files"] = partial(post, files={"profile": ("x.bin", b"\xff" * 1000), "cpu": ("\x00", b"")})
    sends["a broken upload"] = partial(
        post, content=b"\xff", headers={"Content-Type": "multipart/form-data; boundary=x"}
    )
    assert problems(site, sends) == {}


@pytest.mark.parametrize("server", [FUZZER, f"{FUZZER}/fuzz"])
def test_queries_of_the_url(site, browser, server):
    get = partial(browser.get, follow_redirects=False)
    assert problems(site, {name: partial(get, f"/spawn/{server}?{query}") for name, query in QUERIES.items()}) == {}


def test_names_of_servers(site, browser):
    def send(name):
        url = f"{site.url}/hub/api/users/{FUZZER}/servers/{name if '%' in name else quote(name)}"
        request = site.api.build_request("POST", url, json={"profile": "cpu"})
        return site.api.send(request)

    sends = {name: partial(send, name) for name in SERVER_NAMES}
    # The proxy has its own answer to a path that is no UTF-8, so the hub is asked itself.
    itself = f"http://{(site.data / 'gateway').read_text().strip()}:8081/hub/api/users/{FUZZER}/servers/%ff"
    sends["bytes that are no UTF-8"] = partial(site.api.post, itself, json={"profile": "cpu"})
    assert problems(site, sends) == {}


def test_a_display_name_reaches_no_container_and_no_page_unescaped(site, browser):
    def start(shown):
        body = {"display_name": shown, "user_options": {"profile": "cpu", "image": "base"}}
        return site.api.post(f"/users/{FUZZER}/servers/shown", json=body)

    assert start("right-to-left \u202e override").status_code == httpx.codes.BAD_REQUEST
    assert start("R&D <script>alert(1)</script>").status_code in (httpx.codes.CREATED, httpx.codes.ACCEPTED)
    site.wait_ready(FUZZER, "shown")
    assert "alert" not in json.dumps(site.container(FUZZER, "shown").attrs)
    page = browser.get("/home").text
    assert "<script>alert" not in page
    assert "R&amp;D &lt;script&gt;alert" in page
