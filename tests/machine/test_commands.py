"""The commands of the machine, as a person types them."""

import os
import socket
import subprocess
import sys

import pytest
from typer.testing import CliRunner

from nbgpu.cli.main import app
from nbgpu.wiring.deployment import open_deployment


def _nbgpu(*arguments, data):
    """Run the program itself: what counts here is its standard error and its status."""
    code = "from nbgpu.cli.main import main; main()"
    environ = {**os.environ, "NBGPU_DATA": str(data)}
    command = [sys.executable, "-c", code, *arguments]
    return subprocess.run(command, env=environ, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)


def test_an_error_is_a_sentence_and_status_1(tmp_path):
    done = _nbgpu("run", "--config", str(tmp_path / "none.toml"), data=tmp_path / "data")
    assert done.returncode == 1
    assert done.stderr.startswith("nbgpu: There is no settings file")
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "data").exists()


def test_purge_without_a_terminal_wants_yes(tmp_path):
    deployment = open_deployment(tmp_path / "data")
    done = _nbgpu("purge", data=deployment.data)
    assert (done.returncode, deployment.data.exists()) == (1, True)
    assert "confirm with --yes (make purge YES=1)" in done.stderr


@pytest.mark.parametrize("command", ["down", "purge"])
def test_nothing_is_made_where_there_is_no_deployment(tmp_path, command):
    result = CliRunner().invoke(app, [command, "--data", str(tmp_path / "none")])
    assert result.exit_code == 0
    assert "There is no deployment" in result.output
    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize("port", ["0", "65536", "http"])
def test_a_port_that_is_none_is_a_usage_error(port):
    assert CliRunner().invoke(app, ["run", "--port", port]).exit_code == 2


def test_bad_settings_are_told_before_anything_is_set_up(tmp_path):
    file = tmp_path / "nbgpu.toml"
    file.write_text("[auth]\nclas = 1\n")
    done = _nbgpu("run", "--config", str(file), data=tmp_path / "data")
    assert done.returncode == 1
    assert "clas" in done.stderr
    assert "Tools" not in done.stdout


def test_help_loads_nothing_heavy():
    code = (
        "import sys; from typer.testing import CliRunner; from nbgpu.cli.main import app\n"
        "CliRunner().invoke(app, ['--help'])\n"
        "print([name for name in ('jupyterhub', 'docker', 'sqlalchemy', 'pydantic') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_a_taken_port_makes_no_data_folder(tmp_path):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        done = _nbgpu("run", "--port", str(taken.getsockname()[1]), data=tmp_path / "data")
    assert (done.returncode, (tmp_path / "data").exists()) == (1, False)
    assert "Choose another: run the same command with PORT=" in done.stderr
