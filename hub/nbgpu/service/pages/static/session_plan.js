// Shows how far a plan is until it is over. When the service does not answer, it says so and tries again.
(() => {
  const PERIOD = 1000; // ms
  const plan = document.getElementById("plan");
  const news = document.getElementById("plan-news");
  const look = async () => {
    if (plan.dataset.state !== "running") return;
    try {
      const answer = await fetch(location.href, { headers: { "X-XSRFToken": plan.dataset.xsrf }, redirect: "error", signal: AbortSignal.timeout(10000) });
      if (!answer.ok) throw new Error(String(answer.status));
      const fresh = new DOMParser().parseFromString(await answer.text(), "text/html").getElementById("plan");
      if (fresh === null) throw new Error("not the page");
      window.nbgpu.showTimes(fresh);
      plan.dataset.state = fresh.dataset.state;
      plan.replaceChildren(...fresh.childNodes);
      news.textContent = "";
    } catch {
      news.textContent = plan.dataset.stale;
    }
    setTimeout(look, PERIOD);
  };
  setTimeout(look, PERIOD / 2);
})();
