"""Chromium as the tests run it."""

import shutil

PATH = next((path for name in ("chromium", "google-chrome") if (path := shutil.which(name))), None)
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
