// Keeps the page of running servers up to date while it is visible. Nothing is replaced under somebody's hands.
(() => {
  const PERIOD = 30000, AGAIN = 3000; // ms
  const servers = document.getElementById("servers");
  const news = document.getElementById("servers-news");
  const opened = () => [...servers.querySelectorAll("details[open]")].map((each) => [each.closest("[data-session]").dataset.session, each.dataset.part ?? ""]);
  const isTyping = () => [...servers.querySelectorAll("input:not([type=hidden])")].some((each) => each.value !== "");

  const take = (text) => {
    const fresh = new DOMParser().parseFromString(text, "text/html").getElementById("servers");
    if (fresh === null) throw new Error("not the page");
    if (servers.contains(document.activeElement) || isTyping()) return;
    window.nbgpu.showTimes(fresh);
    for (const [session, part] of opened()) {
      const which = part ? `details[data-part="${part}"]` : "details:not([data-part])";
      const details = fresh.querySelector(`[data-session="${CSS.escape(session)}"] ${which}`);
      if (details !== null) details.open = true;
    }
    servers.replaceChildren(...fresh.childNodes);
  };

  const refresh = async () => {
    if (document.visibilityState !== "visible") return;
    try {
      const answer = await fetch(location.href, { headers: { "X-XSRFToken": servers.dataset.xsrf }, redirect: "error", signal: AbortSignal.timeout(10000) });
      if (!answer.ok) throw new Error(String(answer.status));
      take(await answer.text());
      news.textContent = "";
    } catch {
      news.textContent = servers.dataset.stale;
    }
  };

  let timer = 0;
  const go = async () => {
    clearTimeout(timer);
    await refresh();
    clearTimeout(timer);
    timer = setTimeout(go, news.textContent ? AGAIN : PERIOD); // sooner while the service is away
  };
  timer = setTimeout(go, PERIOD);
  document.addEventListener("visibilitychange", go);
})();
