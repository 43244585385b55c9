// What page.js, which the hub's pages share, is told of the page: there by an inline script, which the policy here forbids.
(() => {
  const { cookie, site } = document.documentElement.dataset;
  window.nbgpu = { cookie, prefix: site, lang: document.documentElement.lang };
})();
