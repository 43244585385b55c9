// On every page: the language switch, times in the reader's own zone, a permalink that survives the login.
(() => {
  const LINK = "nbgpu-link";

  // Query arguments of a start would start it again; _xsrf comes with a form that was sent.
  const cleanUrl = () => {
    const query = new URLSearchParams(location.search);
    for (const name of [...query.keys()]) {
      if (name === "_xsrf" || name.startsWith("opt-")) query.delete(name);
    }
    return location.pathname + (query.size ? `?${query}` : "");
  };

  const showTimes = (root) => {
    const clock = new Intl.DateTimeFormat(window.nbgpu.lang, { hour: "2-digit", minute: "2-digit", hourCycle: "h23" });
    const full = new Intl.DateTimeFormat(window.nbgpu.lang, {
      year: "numeric", month: "short", day: "numeric", hour: "2-digit", minute: "2-digit", hourCycle: "h23", timeZoneName: "short",
    });
    for (const element of root.querySelectorAll("time[datetime]")) {
      const instant = new Date(element.dateTime);
      const today = instant.toDateString() === new Date().toDateString();
      element.textContent = today ? clock.format(instant) : full.format(instant);
      element.title = full.format(instant);
    }
  };

  for (const button of document.querySelectorAll("[data-language]")) {
    button.addEventListener("click", () => {
      const { cookie, prefix } = window.nbgpu;
      document.cookie = `${cookie}=${button.dataset.language}; path=${prefix}; max-age=31536000; SameSite=Lax`;
      if (location.hash) sessionStorage.setItem(LINK, location.hash);
      location.replace(cleanUrl());
    });
  }

  // The login drops the fragment of a permalink; the spawn page takes it from here.
  if (/[#&]profile=/.test(location.hash)) sessionStorage.setItem(LINK, location.hash);
  const takeLink = () => {
    const link = location.hash || sessionStorage.getItem(LINK) || "";
    sessionStorage.removeItem(LINK);
    return new URLSearchParams(link.slice(1));
  };

  Object.assign(window.nbgpu, { cleanUrl, showTimes, takeLink });
  showTimes(document);
})();
