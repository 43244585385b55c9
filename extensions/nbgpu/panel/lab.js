// The panel without a cell. The prebuilt extension (prefix/) hands over JupyterLab's own modules.

import panel, { T, base, bytes, extend, money, secondsTo, span, warningsOf } from "./panel.js";

const AGAIN_MS = 5000;
const ICON = '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 24 24"><path class="jp-icon3" fill="#616161" d="M2 6h20v12H2zm6 2v8h8V8zM5 19h2v3H5zm6 0h2v3h-2zm6 0h2v3h-2z"/></svg>';

// What the stream says, in the form of a widget's model.
class Model extends EventTarget {
  state = {};
  get = (key) => this.state[key];
  on = this.addEventListener;
  off = this.removeEventListener;
  send() {}
  put(key, value) {
    this.state[key] = value;
    this.dispatchEvent(new Event(`change:${key}`));
  }
}

// One stream a page, while the page is visible.
function follow(model, settings) {
  let socket = null;
  let timer = null;
  const open = () => {
    clearTimeout(timer);
    if (socket || document.hidden) return;
    const token = settings.appendToken && settings.token ? `?token=${encodeURIComponent(settings.token)}` : "";
    socket = new WebSocket(`${settings.wsUrl}nbgpu/stream${token}`);
    socket.onmessage = ({ data }) => {
      for (const [key, value] of Object.entries(JSON.parse(data))) model.put(`_${key}`, value);
    };
    socket.onclose = () => {
      socket = null;
      timer = setTimeout(open, AGAIN_MS * (0.5 + Math.random()));
    };
  };
  document.addEventListener("visibilitychange", () => (document.hidden ? socket?.close() : open()));
  open();
}

const sum = (devices, key) => devices.reduce((total, { now }) => total + (now[key] ?? 0), 0);

// The item's text: GPU share, memory, cost, minutes until an end that is decided.
function itemText(frame, session) {
  const parts = [];
  const devices = frame?.devices ?? [];
  const busy = devices.map(({ now }) => now.gpu_utilization).filter(Number.isFinite);
  if (busy.length) parts.push(`GPU ${Math.round(busy.reduce((a, b) => a + b) / busy.length)} %`);
  else if (frame) parts.push(devices.length ? `GPU ${T.na}` : "CPU");
  const total = sum(devices, "memory_total");
  if (total) parts.push(T.of(bytes(sum(devices, "memory_used")), bytes(total)));
  const status = session?.status;
  if (Number.isFinite(status?.cost_micro)) parts.push(money(status.cost_micro, status.currency));
  const end = warningsOf(session).find(({ at }) => at);
  if (end) parts.push(`⚠ ${span(secondsTo(end.at))}`);
  return parts.join(" · ");
}

class Item {
  constructor(widgets, model, onClick) {
    this.model = model;
    this.button = document.createElement("button");
    this.button.className = "nbgpu-item";
    this.button.type = "button";
    this.button.title = T.panel;
    this.button.addEventListener("click", onClick);
    this.widget = new widgets.Widget();
    this.widget.id = "nbgpu-item";
    this.widget.node.append(this.button);
    setInterval(() => this.show(), 1000);
  }
  show() {
    const session = this.model.get("_session");
    const text = itemText(this.model.get("_frame"), session);
    if (this.button.textContent !== text) this.button.textContent = text;
    this.button.setAttribute("aria-label", `${T.panel}: ${text}`);
    this.button.classList.toggle("nbgpu-ends", warningsOf(session).some(({ at }) => at));
  }
}

// A notification for each warning that is new; one that is over goes.
class Toasts {
  constructor(notification, model) {
    this.notification = notification;
    this.model = model;
    this.shown = new Map();
    model.on("change:_session", () => this.show());
  }
  show() {
    const session = this.model.get("_session");
    const warnings = new Map(warningsOf(session).map((each) => [each.key, each]));
    for (const [key, id] of this.shown)
      if (!warnings.has(key)) {
        this.notification.dismiss(id);
        this.shown.delete(key);
      }
    for (const [key, { text, at }] of warnings)
      if (!this.shown.has(key)) this.shown.set(key, this.notification.warning(text, { autoClose: false, actions: at ? this.actions(session) : [] }));
  }
  actions(session) {
    const seconds = session.status?.idle?.extend_s ?? 0;
    return seconds > 0 ? [{ label: T.extend(span(seconds)), callback: () => this.extend() }] : [];
  }
  async extend() {
    const problem = await extend();
    if (problem) this.notification.error(problem);
  }
}

export function activate(app, { apputils, components, widgets, statusBar, restorer }) {
  document.head.append(Object.assign(document.createElement("link"), { rel: "stylesheet", href: `${base()}nbgpu/static/panel.css` }));
  const model = new Model();
  panel.initialize({ model });
  const side = new widgets.Widget();
  side.id = "nbgpu-panel";
  side.addClass("nbgpu-side");
  side.title.caption = T.panel;
  side.title.icon = new components.LabIcon({ name: "nbgpu:panel", svgstr: ICON });
  panel.render({ model, el: side.node });
  app.shell.add(side, "right", { rank: 900 });
  restorer?.add(side, side.id);
  const show = () => app.shell.activateById(side.id);
  app.commands.addCommand("nbgpu:show", { label: T.panel, execute: show });
  if (statusBar) {
    const item = new Item(widgets, model, show);
    statusBar.registerStatusItem("nbgpu:item", { item: item.widget, align: "right", rank: 900 });
  }
  new Toasts(apputils.Notification, model);
  follow(model, app.serviceManager.serverSettings);
}
