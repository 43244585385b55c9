// The pending page: follows the events of a start, and stops it.
(() => {
  const { server_url, progress_url, templates, texts } = window.nbgpu.pending;
  const element = (id) => document.getElementById(id);
  const bar = element("progress-bar");
  const phases = [...element("phases").children];
  const stop = element("stop-server");
  const events = new EventSource(progress_url);
  let stopping = false;

  // What the start says comes with its template; what the hub says is known by its English.
  const read = (event) => {
    const template = templates[event.template ?? event.message];
    if (template === undefined) return event.message;
    return template.replace(/%\((\w+)\)s/g, (whole, name) => String(event.params?.[name] ?? whole));
  };
  const show = (text) => {
    element("progress-message").textContent = text;
    const line = document.createElement("div");
    line.textContent = text;
    element("progress-log").append(line);
  };
  const end = (title) => {
    events.close();
    document.title = `${title} · nbgpu`;
    element("pending-title").textContent = title;
    const focused = document.activeElement === stop;
    stop.hidden = true;
    element("choose-again").hidden = false;
    element("go-home").hidden = false;
    if (focused) element("choose-again").focus();
  };
  const advance = (name) => {
    const now = phases.findIndex((phase) => phase.dataset.phase === name);
    if (now < 0) return;
    phases.forEach((phase, index) => {
      phase.classList.toggle("nbgpu-done", index < now);
      phase.classList.toggle("nbgpu-now", index === now);
      if (index === now) phase.setAttribute("aria-current", "step");
      else phase.removeAttribute("aria-current");
    });
  };
  const fail = async (message) => {
    bar.classList.add("bg-danger");
    for (const phase of phases.filter((each) => each.classList.contains("nbgpu-now"))) {
      phase.classList.replace("nbgpu-now", "nbgpu-broken");
    }
    element("progress-details").open = true;
    element("progress-message").textContent = "";
    end(texts.failed);
    const failure = element("failure");
    failure.replaceChildren(...(await explain(message)));
    failure.className = "alert alert-danger";
  };
  // This address now answers with the page of the failed start, which says why in the reader's language.
  const explain = async (message) => {
    try {
      const answer = await fetch(location.pathname, { redirect: "manual" });
      const page = new DOMParser().parseFromString(await answer.text(), "text/html");
      const found = page.getElementById("failure");
      if (found !== null) return [...found.childNodes];
    } catch {
      // The event's own words will do.
    }
    const words = document.createElement("p");
    words.textContent = message;
    return [words];
  };

  events.onopen = () => element("progress-log").replaceChildren(); // who comes again gets all events again
  events.onerror = () => {
    if (events.readyState === EventSource.CLOSED && !stop.hidden) show(texts.lost);
  };
  events.onmessage = (message) => {
    // The hub calls a cancelled start "ready" until it has ended it; the answer to our DELETE says how it went.
    if (stopping) return;
    const event = JSON.parse(message.data);
    if (event.progress !== undefined) {
      bar.style.width = `${event.progress}%`;
      bar.parentElement.setAttribute("aria-valuenow", event.progress);
    }
    if (event.phase) advance(event.phase);
    if (event.ready) {
      show(texts.ready);
      events.close();
      location.reload();
      return;
    }
    if (event.failed) {
      const why = event.message.replace(/^Spawn failed: /, "");
      show(read({ ...event, message: why }));
      fail(why);
    } else if (event.message) show(read(event));
  };

  stop.addEventListener("click", async () => {
    if (stopping) return;
    stopping = true;
    stop.setAttribute("aria-disabled", "true"); // one that is disabled would lose the focus
    show(texts.stopping);
    const response = await fetch(server_url, {
      method: "DELETE",
      headers: { "X-XSRFToken": window.jhdata.xsrf_token },
    }).catch(() => null);
    if (response !== null && response.ok) {
      show(texts.stopped_news);
      end(texts.stopped);
    } else {
      show(texts.not_stopped);
      stopping = false;
      stop.removeAttribute("aria-disabled");
    }
  });
})();
