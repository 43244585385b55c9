"""Runs inside a container, as its user and with the image's own Python: prints as JSON what is there.

Not a test by itself: test_inside.py runs it once an image and looks at the answers. Standard library only.
"""

import json
import os
import subprocess
import sys
import time
import urllib.request
import zipfile
from importlib import metadata
from importlib.util import cache_from_source, find_spec
from pathlib import Path
from typing import Any

VENV = "/opt/nbgpu"
SERVER, KERNEL = f"{VENV}/bin/python", "/usr/bin/python3"
TOKEN = "t"


def output(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stdout.strip() if done.returncode == 0 else f"failed: {done.stderr.strip()[-500:]}"


def bytecode() -> dict[str, Any]:
    missing, checked, count = [], [], 0
    for source in (*Path(VENV).rglob("*.py"), *Path("/usr/lib/python3.11").rglob("*.py")):
        count += 1
        compiled = Path(cache_from_source(os.fspath(source)))
        if not compiled.exists():
            if is_python(source):
                missing.append(os.fspath(source))
        elif compiled.read_bytes()[4:8] != b"\x01\0\0\0":  # flags: a hash, and not to be checked
            checked.append(os.fspath(source))
    return {"count": count, "missing": missing, "checked": checked}


def is_python(source: Path) -> bool:
    try:
        compile(source.read_bytes(), os.fspath(source), "exec", dont_inherit=True)
    except (SyntaxError, ValueError):
        return False
    return True


def wheel(name: str, version: str) -> str:
    path = f"/tmp/{name}-{version}-py3-none-any.whl"
    info = f"{name}-{version}.dist-info"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(f"{name}/__init__.py", f"__version__ = {version!r}\n")
        archive.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
        archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{info}/RECORD", "")
    return path


def own_packages() -> dict[str, Any]:
    """Install a package that is new and one that the image brings in another version, as people do."""
    installed = output("pip", "install", "--quiet", "--no-index", wheel("tinywheel", "1.0"), wheel("idna", "99.0"))
    where = "import tinywheel; print(tinywheel.__file__)"
    version = "import importlib.metadata as m; print(m.version('idna'))"
    found = {
        "pip": installed,
        "kernel_file": output(KERNEL, "-c", where),
        "server_file": output(SERVER, "-c", where),
        "kernel_idna": output(KERNEL, "-c", version),
        "server_idna": output(SERVER, "-c", version),
    }
    output("pip", "uninstall", "--yes", "tinywheel", "idna")
    return found | {"idna_after": output(KERNEL, "-c", version)}


def get(path: str) -> str:
    request = urllib.request.Request(f"http://127.0.0.1:8888{path}", headers={"Authorization": f"token {TOKEN}"})
    with urllib.request.urlopen(request, timeout=5) as answer:
        return str(answer.read().decode())


def boot() -> dict[str, Any]:
    """Start JupyterLab without a hub and ask it a few things."""
    started = time.monotonic()
    command = [f"{VENV}/bin/jupyter-lab", "--no-browser", f"--IdentityProvider.token={TOKEN}"]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as server:
        try:
            while True:
                try:
                    api = json.loads(get("/api"))
                    break
                except OSError:
                    if time.monotonic() - started > 60:
                        return {"problem": "no answer in 60 s"}
                    time.sleep(0.05)
            return {"seconds": time.monotonic() - started, "version": api["version"], **ask_server()}
        finally:
            server.terminate()


def ask_server() -> dict[str, Any]:
    page = get("/lab")
    config = page.partition('id="jupyter-config-data"')[2].partition(">")[2].partition("</script>")[0]
    return {
        "page": json.loads(config),
        "terminals": json.loads(get("/api/terminals")),
        "contents": json.loads(get("/api/contents"))["type"],
        "kernelspec": json.loads(get("/api/kernelspecs"))["kernelspecs"]["python3"]["spec"]["argv"],
        "sanitizer": json.loads(get("/lab/api/settings/@jupyterlab/apputils-extension:sanitizer"))["schema"],
    }


def kernel() -> str:
    """Return where a kernel's Python is, asked of a real one."""
    code = """
import jupyter_client
manager, client = jupyter_client.manager.start_new_kernel(startup_timeout=60)
lines = []
show = lambda message: lines.append(message["content"].get("text", ""))
client.execute_interactive("import sys; print(sys.executable)", output_hook=show, timeout=60)
client.stop_channels()
manager.shutdown_kernel(now=True)
print("".join(lines))
"""
    return output(SERVER, "-W", "ignore", "-c", code)


def torch() -> dict[str, Any] | None:
    if find_spec("torch") is None:
        return None
    code = """
import json, torch
doubled = torch.compile(lambda x: x * 2)(torch.ones(2)).tolist()
versions = {"version": torch.__version__, "cuda": torch.version.cuda, "cudnn": torch.backends.cudnn.version()}
print(json.dumps(versions | {"doubled": doubled}))
"""
    answer = output(KERNEL, "-c", code)
    return {"problem": answer} if answer.startswith("failed") else json.loads(answer)


def main() -> None:
    writable = [f for f in (VENV, *map(os.fspath, Path(VENV).rglob("*"))) if os.access(f, os.W_OK)]
    found = {
        "uid": os.getuid(),
        "home": os.environ["HOME"],
        "environment": dict(os.environ),
        "first_process": Path("/proc/1/cmdline").read_text().split("\0")[0],
        "python": ".".join(map(str, sys.version_info[:2])),
        "distributions": {d.name: d.version for d in metadata.distributions()},
        "rfc3987_syntax": find_spec("rfc3987_syntax") is not None,
        "pip_check": output(SERVER, "-m", "pip", "check"),
        "jupyter_lab": output(f"{VENV}/bin/jupyter-lab", "--version"),
        "writable": [f for f in writable if not Path(f).is_symlink()],
        "bytecode": bytecode(),
        "own_packages": own_packages(),
        "kernel": kernel(),
        "torch": torch(),
        "boot": boot(),
    }
    sys.stdout.write(json.dumps(found) + "\n")


main()
