"""The panel's page in Chromium, with a model in the kernel's place; for the tests of what it says."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

import nbgpu.panel
from nbgpu.panel.wire import past_to_wire, to_wire
from support import chromium
from support.simulated import START

FOLDER = Path(nbgpu.panel.__file__).parent
PAGE = (
    '<!doctype html><html lang="en"><title>x</title><style>:root { color-scheme: light dark }</style><main id="root">'
)
MODEL = """
async ([source, css, state]) => {
  document.head.append(Object.assign(document.createElement("style"), { textContent: css }));
  const listeners = {};
  window.sent = [];
  window.model = {
    state,
    get: (key) => state[key],
    on: (name, listener) => (listeners[name] ??= []).push(listener),
    off: (name, listener) => (listeners[name] = listeners[name].filter((each) => each !== listener)),
    send: (message) => sent.push(message),
    put(value, key = "_frame") {
      state[key] = value;
      for (const listener of listeners[`change:${key}`] ?? []) listener();
    },
    count: () => (listeners["change:_frame"] ?? []).length,
  };
  const url = URL.createObjectURL(new Blob([source], { type: "text/javascript" }));
  const panel = (await import(url)).default;
  panel.initialize({ model });
  window.leave = panel.render({ model, el: document.getElementById("root") });
}
"""


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium.PATH, args=chromium.FLAGS)
        yield browser
        browser.close()


@pytest.fixture
def show(browser: Browser) -> Iterator[Callable[..., Page]]:
    """Return what opens a page with the panel on it."""
    contexts, errors = [], []

    def open_(sampler: Any, *, session: Any = None, **settings: Any) -> Page:
        context = browser.new_context(**{"locale": "en-US", "timezone_id": "UTC", **settings})
        contexts.append(context)
        page = context.new_page()
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.clock.install(time=START)
        page.set_content(PAGE)
        state = {"_frame": wire(sampler) if sampler.history else {}, "_past": past_to_wire(sampler.history)}
        state["_session"] = session
        page.evaluate(MODEL, [(FOLDER / "panel.js").read_text(), (FOLDER / "panel.css").read_text(), state])
        return page

    yield open_
    for context in contexts:
        context.close()
    assert errors == []


def wire(sampler: Any) -> dict[str, Any]:
    return to_wire(sampler.history[-1], interval_s=1.0)


def put(page: Page, sampler: Any) -> None:
    page.evaluate("frame => model.put(frame)", wire(sampler))
