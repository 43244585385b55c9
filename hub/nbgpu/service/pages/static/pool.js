// Keeps the page of GPUs up to date while it is visible. Forms are outside of what is replaced; the focus stays.
(() => {
  const PERIOD = 5000, AGAIN = 3000; // ms
  const pool = document.getElementById("pool");
  const news = document.getElementById("pool-news");

  const take = (text) => {
    const fresh = new DOMParser().parseFromString(text, "text/html").getElementById("pool");
    if (fresh === null) throw new Error("not the page");
    window.nbgpu.showTimes(fresh);
    const focused = pool.contains(document.activeElement) ? document.activeElement.id : "";
    pool.replaceChildren(...fresh.childNodes);
    if (focused) document.getElementById(focused)?.focus({ preventScroll: true });
  };

  let busy = false;
  const refresh = async () => {
    if (busy || document.visibilityState !== "visible" || !getSelection().isCollapsed) return;
    busy = true;
    try {
      const answer = await fetch(pool.dataset.address, { headers: { "X-XSRFToken": pool.dataset.xsrf }, redirect: "error", signal: AbortSignal.timeout(10000) });
      if (!answer.ok) throw new Error(String(answer.status));
      take(await answer.text());
      news.textContent = "";
    } catch {
      news.textContent = pool.dataset.stale;
    } finally {
      busy = false;
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
