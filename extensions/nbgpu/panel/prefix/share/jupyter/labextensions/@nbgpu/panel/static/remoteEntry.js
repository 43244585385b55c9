// A module-federation container, written by hand: its one module loads the panel from this server.
(() => {
  let scope;

  // JupyterLab's own copy of a package, not one that another extension brought.
  async function shared(name) {
    const versions = Object.values(scope[name] ?? {});
    const own = versions.find((each) => each.loaded) ?? versions[0];
    return (await own.get())();
  }

  const optional = (name) => shared(name).catch(() => ({}));

  async function extension() {
    const [application, statusbar] = await Promise.all([optional("@jupyterlab/application"), optional("@jupyterlab/statusbar")]);
    const tokens = [statusbar.IStatusBar, application.ILayoutRestorer].filter(Boolean);
    return {
      id: "@nbgpu/panel:plugin",
      description: "GPUs and session of this server",
      autoStart: true,
      optional: tokens,
      activate: async (app, ...found) => {
        const given = new Map(tokens.map((token, index) => [token, found[index]]));
        try {
          const [apputils, components, widgets] = await Promise.all(
            ["@jupyterlab/apputils", "@jupyterlab/ui-components", "@lumino/widgets"].map(shared));
          const { baseUrl } = app.serviceManager.serverSettings;
          const lab = await import(new URL("nbgpu/static/lab.js", new URL(baseUrl, document.baseURI)).href);
          lab.activate(app, { apputils, components, widgets, statusBar: given.get(statusbar.IStatusBar), restorer: given.get(application.ILayoutRestorer) });
        } catch (error) {
          console.warn("No GPU panel: is the server extension nbgpu.panel.server enabled?", error);
        }
      },
    };
  }

  (window._JUPYTERLAB ??= {})["@nbgpu/panel"] = {
    init: (given) => {
      scope = given;
    },
    get: async () => {
      const plugin = await extension();
      return () => ({ __esModule: true, default: plugin });
    },
  };
})();
