"""`nbgpu sessions` as it is called: against the service of this machine's deployment, and one elsewhere."""

import json

import pytest
from typer.testing import CliRunner

from nbgpu.cli.main import app
from nbgpu.core.errors import InvalidOptions, ServiceRefused, ServiceUnavailable, SetupError, UnknownSession
from nbgpu.wiring.deployment import open_deployment
from nbgpu.wiring.service import service_port
from service.api_site import make_books, serving

PREFIX = "/services/nbgpu/"


@pytest.fixture(scope="module")
def url(tmp_path_factory):
    with serving(make_books(tmp_path_factory.mktemp("api")), PREFIX) as found:
        yield found


@pytest.fixture
def call(url, monkeypatch):
    """Call the command as an administrator; give what it prints."""
    monkeypatch.setenv("NBGPU_TOKEN", "admin")
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setenv("COLUMNS", "160")

    def run(*arguments):
        done = CliRunner().invoke(app, ["sessions", *arguments, "--url", url], catch_exceptions=False)
        assert done.exit_code == 0, done.output
        return done.output

    return run


def test_those_that_run_are_listed(call):
    rows = [line.split() for line in call("--sort", "user").splitlines() if " cpu " in line]
    assert [row[0] for row in rows] == ["ann", "ann/second", "bob"]
    assert [row[-1] for row in rows] == ["idle", "idle", "rule"]


def test_those_of_one_user_are_listed_as_json(call):
    found = json.loads(call("--user", "ann", "--json"))
    assert {each["session_id"] for each in found} == {"a-1", "a-2"}
    assert call("--user", "nobody").strip() == "No such server runs."


def test_a_server_is_kept_running(call):
    assert call("extend", "ann", "--by", "2 h").startswith("It is not stopped for being idle before ")


def test_a_time_limit_is_extended(call):
    assert call("limit", "ann/second", "--by", "1 h").strip() == "Nothing limits how long it runs."


def test_a_server_is_stopped(call):
    assert call("stop", "bob", "--reason", "a fan").strip() == "bob is being stopped."


def test_a_server_that_does_not_run_is_told_in_words(call):
    with pytest.raises(UnknownSession, match="The server bob/other does not run. `nbgpu sessions` lists those that do"):
        call("stop", "bob/other", "--reason", "a fan")


def test_a_span_that_is_none_is_told_in_words(call):
    with pytest.raises(InvalidOptions, match="--by “long” is not "):
        call("extend", "ann", "--by", "long")


def test_who_may_not_is_told_so(call, monkeypatch):
    monkeypatch.setenv("NBGPU_TOKEN", "bob")
    with pytest.raises(ServiceRefused, match="This token reads its own user's usage only"):
        call("--user", "ann")


def test_a_service_elsewhere_needs_a_token(call, monkeypatch):
    monkeypatch.setenv("NBGPU_TOKEN", " ")
    with pytest.raises(InvalidOptions, match="--url needs a token of that hub in NBGPU_TOKEN"):
        call()


@pytest.mark.parametrize("arguments", [[], ["stop", "ann", "--reason", "a fan"]])
def test_a_service_that_does_not_run_is_told_in_words(tmp_path, arguments):
    def call():
        CliRunner().invoke(app, ["sessions", *arguments, "--data", str(tmp_path)], catch_exceptions=False)

    with pytest.raises(SetupError, match="is no data folder of nbgpu. Give it with --data, or a service elsewhere"):
        call()
    deployment = open_deployment(tmp_path)
    with pytest.raises(ServiceUnavailable, match=f"No hub has run for {tmp_path} yet"):
        call()
    port = service_port(deployment)
    deployment.secret(deployment.admin_token_file.name)
    with pytest.raises(ServiceUnavailable, match=f"No nbgpu service answers at http://127.0.0.1:{port}/services/nbgpu"):
        call()
