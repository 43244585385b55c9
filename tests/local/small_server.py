"""Stands for JupyterLab: answers at its address in a tenth of the time. Its argument is how it behaves."""

import os
import signal
import subprocess
import sys
import time
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from urllib.parse import urlsplit


class Answer(BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()

    def log_message(self, *args):
        pass


how = sys.argv[1] if len(sys.argv) > 1 else ""
print("booting", how, flush=True)
if how == "die":
    print("\x1b[31mModuleNotFoundError: No module named 'jupyterhub'\xff" + "x" * 5000, flush=True)
    raise SystemExit(3)
if how == "stubborn":
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
if how == "parent":  # as kernels do, the child leaves the process group
    child = subprocess.Popen(["sleep", "1000"], start_new_session=True)
    Path("child").write_text(str(child.pid))
if how == "mute":
    Path("mute").touch()
    time.sleep(1000)
if how == "closed":
    os.close(1)
    os.close(2)
HTTPServer(("127.0.0.1", urlsplit(os.environ["JUPYTERHUB_SERVICE_URL"]).port), Answer).serve_forever()
