// The spawn page: images follow the flavor, what is free follows the hub, a link pre-selects.
(() => {
  const REFRESH = 10_000; // milliseconds
  const form = document.getElementById("spawn_form");
  const texts = JSON.parse(form.dataset.texts);
  const button = document.getElementById("start-server");
  const news = document.getElementById("menu-news");
  const freshness = document.getElementById("menu-freshness");
  const radios = (name) => [...form.querySelectorAll(`input[name="${name}"]`)];
  const chosen = (name) => radios(name).find((radio) => radio.checked);
  const card = (radio) => radio.closest("label");
  const title = (radio) => card(radio).querySelector(".nbgpu-card-title").textContent;
  const isGone = (radio) => card(radio).classList.contains("nbgpu-card-unavailable");
  const fill = (text, value) => text.replace("{}", () => value);

  // Only what the chosen flavor starts with can be picked.
  const offerImages = () => {
    const flavor = chosen("profile");
    const allowed = flavor ? flavor.dataset.images.split(" ") : null;
    const images = radios("image");
    for (const image of images) {
      const built = image.dataset.built === "yes";
      const other = built && allowed !== null && !allowed.includes(image.value);
      image.disabled = !built || other;
      card(image).classList.toggle("nbgpu-card-unavailable", image.disabled);
      card(image).querySelector(".nbgpu-card-other").hidden = !other;
    }
    if (!images.some((image) => image.checked && !image.disabled)) {
      const first = images.find((image) => !image.disabled);
      if (first) first.checked = true;
    }
  };

  // A choice that others took stays chosen, so that it can come back, but can't be started.
  const judgeChoice = () => {
    const flavor = chosen("profile");
    const gone = flavor !== undefined && isGone(flavor);
    if (gone) button.setAttribute("aria-disabled", "true");
    else button.removeAttribute("aria-disabled");
    button.classList.toggle("disabled", gone);
    return gone;
  };

  const choose = (wanted) => {
    if (!wanted.has("profile") && !wanted.has("image")) return;
    const pick = (name) => radios(name).find((radio) => radio.value === wanted.get(name));
    const flavor = pick("profile");
    if (wanted.has("profile") && flavor === undefined) news.textContent = texts.no_such;
    else if (flavor !== undefined && flavor.disabled) {
      const reason = card(flavor).querySelector(".nbgpu-card-foot").textContent.replace(/\s+/g, " ").trim();
      news.textContent = `${title(flavor)}: ${reason}`;
    } else if (flavor !== undefined) flavor.checked = true;
    offerImages();
    const image = pick("image");
    if (image !== undefined && !image.disabled) image.checked = true;
    if (flavor !== undefined) card(flavor).scrollIntoView({ block: "nearest" });
    judgeChoice();
  };

  // What is free

  const update = (page) => {
    const fresh = page.getElementById("spawn_form");
    if (fresh === null) return false;
    const announced = [];
    for (const radio of [...radios("profile"), ...radios("image")]) {
      const now = fresh.querySelector(`input[name="${radio.name}"][value="${CSS.escape(radio.value)}"]`);
      if (now === null) continue;
      if (radio.name === "image") radio.dataset.built = now.dataset.built;
      else updateFlavor(radio, now, announced);
      const [old, foot] = [card(radio), now.closest("label")].map((each) => each.querySelector(".nbgpu-card-foot"));
      window.nbgpu.showTimes(foot);
      if (old.innerHTML !== foot.innerHTML) old.replaceChildren(...foot.cloneNode(true).childNodes);
    }
    offerImages();
    judgeChoice();
    if (announced.length) news.textContent = announced.join(" ");
    return true;
  };

  const updateFlavor = (radio, now, announced) => {
    const was = isGone(radio);
    card(radio).classList.toggle("nbgpu-card-unavailable", now.disabled);
    radio.disabled = now.disabled && !radio.checked;
    if (was === now.disabled) return;
    const text = now.disabled ? (radio.checked ? texts.chosen_gone : texts.gone) : texts.free;
    announced.push(fill(text, title(radio)));
  };

  let timer;
  let askedAt = Date.now();
  const refresh = async () => {
    clearTimeout(timer);
    if (document.visibilityState !== "visible") return;
    askedAt = Date.now();
    try {
      // Without the query: its arguments would be taken for options of a start. A redirect is a login or a start.
      const answer = await fetch(location.pathname, { redirect: "manual", signal: AbortSignal.timeout(REFRESH) });
      if (answer.type === "opaqueredirect") {
        freshness.textContent = texts.moved;
        return;
      }
      const page = answer.ok ? new DOMParser().parseFromString(await answer.text(), "text/html") : null;
      freshness.textContent = page !== null && update(page) ? texts.fresh : texts.stale;
    } catch {
      freshness.textContent = texts.stale;
    }
    // Not all pages at the same moment.
    timer = setTimeout(refresh, REFRESH * (0.9 + 0.2 * Math.random()));
  };

  document.addEventListener("visibilitychange", () => {
    if (document.visibilityState === "visible" && Date.now() - askedAt > REFRESH) refresh();
  });

  // A link to this choice

  const copyLink = async () => {
    const [flavor, image] = [chosen("profile"), chosen("image")];
    if (!flavor || !image) {
      news.textContent = texts.none_chosen;
      return;
    }
    const choice = new URLSearchParams({ profile: flavor.value, image: image.value });
    const link = `${location.origin}${form.dataset.link}#${choice}`;
    try {
      await navigator.clipboard.writeText(link);
      news.textContent = texts.copied;
    } catch {
      // No clipboard without HTTPS, or not allowed.
      const field = document.getElementById("link");
      field.hidden = false;
      field.value = link;
      field.select();
      news.textContent = texts.copy_by_hand;
    }
  };

  document.getElementById("copy-link").addEventListener("click", copyLink);
  form.addEventListener("change", () => {
    offerImages();
    judgeChoice();
  });
  form.addEventListener("submit", (event) => {
    if (judgeChoice()) {
      event.preventDefault();
      news.textContent = fill(texts.chosen_gone, title(chosen("profile")));
      return;
    }
    clearTimeout(timer);
    button.disabled = true;
    button.textContent = texts.starting;
  });
  // The page comes back from the browser's cache with the button as it was left.
  window.addEventListener("pageshow", (event) => {
    button.disabled = false;
    button.textContent = texts.start;
    if (event.persisted) refresh();
  });
  window.addEventListener("hashchange", () => choose(window.nbgpu.takeLink()));
  offerImages();
  choose(window.nbgpu.takeLink());
  timer = setTimeout(refresh, REFRESH);
})();
