// The home page: stop, delete and name servers. The hub's own home.js speaks English only and announces nothing.
require(["utils"], (utils) => {
  const { texts } = window.nbgpu;
  const news = document.getElementById("home-news");
  const say = (text, server) => {
    news.textContent = text.replace("{}", () => server);
  };
  const wait = (seconds) => new Promise((done) => setTimeout(done, 1000 * seconds));

  const ask = (url, options = {}) =>
    fetch(url, { ...options, headers: { "X-XSRFToken": window.jhdata.xsrf_token, "Content-Type": "application/json" } });

  // 202: the hub goes on stopping; it is done when the page shows the server with a way to start it.
  const isStopped = async (name) => {
    const page = new DOMParser().parseFromString(await (await ask(location.pathname)).text(), "text/html");
    const row = page.querySelector(`[data-server-name="${CSS.escape(name)}"]`);
    if (row === null || row.querySelector(".start-server") === null) return null;
    return row;
  };

  const stop = async (row) => {
    const title = row.querySelector("h2").textContent;
    const buttons = row.querySelectorAll("button, a");
    buttons.forEach((button) => button.classList.add("disabled"));
    say(texts.stopping, title);
    const answer = await ask(row.dataset.api, { method: "DELETE" }).catch(() => null);
    let stopped = null;
    for (let round = 0; answer?.ok && stopped === null && round < 60; round += 1) {
      stopped = await isStopped(row.dataset.serverName).catch(() => null);
      if (stopped === null) await wait(1);
    }
    if (stopped === null) {
      buttons.forEach((button) => button.classList.remove("disabled"));
      say(texts.failed, title);
      return;
    }
    window.nbgpu.showTimes(stopped);
    row.replaceWith(document.adoptNode(stopped));
    say(texts.stopped, title);
    stopped.querySelector(".start-server").focus();
  };

  const remove = async (row) => {
    const title = row.querySelector("h2").textContent;
    if (!window.confirm(texts.sure.replace("{}", () => title))) return;
    const answer = await ask(row.dataset.api, { method: "DELETE", body: JSON.stringify({ remove: true }) }).catch(() => null);
    if (!answer?.ok) {
      say(texts.failed, title);
      return;
    }
    row.remove();
    say(texts.deleted, title);
    document.querySelector(".new-server-name").focus();
  };

  document.getElementById("servers").addEventListener("click", (event) => {
    const row = event.target.closest(".home-server-row");
    if (event.target.closest(".stop-server")) stop(row);
    if (event.target.closest(".delete-server")) remove(row);
  });

  // The hub makes the server when it is started: first its flavor is chosen.
  document.getElementById("new-server")?.addEventListener("submit", (event) => {
    event.preventDefault();
    const name = utils.sanitise_display_name(document.getElementById("new-server-name").value);
    if (!name) return;
    const query = new URLSearchParams({ display_name: name });
    location.href = `${event.target.dataset.spawn}${utils.safe_slug(name)}?${query}`;
  });
  window._jupyterhub_page_loaded = true; // as the hub's own pages tell their tests
});
