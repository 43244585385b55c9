// The panel's page: cards with the newest readings and small plots of the last minutes. No build, no dependency.
// What comes from outside is put on the page as text only, never as markup.

const KEPT = 300;
const STALE_AFTER = 3; // intervals
const STILL_REDRAW_MS = 10000; // of plots, for those who ask for less motion
const HOST = "host";
const SVG = "http://www.w3.org/2000/svg";

const EN = {
  waiting: "Waiting for the first reading…",
  none: "No GPU in this session.",
  none_what: "To use one, start a server with a GPU flavor. On your own machine: check that the NVIDIA driver is installed.",
  stale: "Stale: no new values for some seconds. They follow when the kernel answers; if it was stopped, run the cell again.",
  old: (s) => `No answer from the driver: the values are ${s} s old.`,
  lost: "This GPU is lost. Save your work, stop this server and start it again; if it happens again, tell your administrator.",
  shared: (own) => `Shared GPU: the values are of all who use it. Your part of the memory: ${own}.`,
  simulated: "Simulated GPU: the values are not of a real device.",
  mig: "MIG slice", gpu: "GPU", unnamed: "unknown model", host: "This container", na: "n/a",
  of: (a, b) => `${a} of ${b}`,
  gpu_utilization: "GPU busy", memory_used: "Memory", temperature: "Temperature", power: "Power", sm_clock: "SM clock",
  memory_clock: "Memory clock", ecc_errors: "ECC errors", processes: "Processes", cpu_used: "CPU", ram_used: "RAM",
  shm_used: "/dev/shm", cores: "cores", no_processes: "none",
  plot: (label, now, low, high) => `${label}, last five minutes: now ${now}, lowest ${low}, highest ${high}`,
  no_plot: (label) => `${label}: nothing was reported in the last five minutes`,
  panel: "GPU panel", session: "This session", flavor: "Flavor", price: "Price", cost: "Cost so far", until: "Time limit",
  idle: "Idle check", per_hour: (money) => `${money} an hour`, left: (left, all) => `${left} of ${all} left`,
  budget: (name) => `Budget ${name}`, unlimited: "none",
  quota: { servers: "Servers", gpus: "GPUs", gpu_seconds: "GPU-hours", session_seconds: "Longest session" },
  ends: (at, left) => `${at} (in ${left})`, sec: "s", min: "min", hours: "h",
  verdict: { active: "at work", idle: "idle", unknown: "not known: it is not stopped for being idle" },
  since: (at) => `since ${at}`, would_stop: (at, left) => `is stopped at ${at} (in ${left}) if nothing happens`,
  would_move: (at, left, to) => `goes on as ${to} at ${at} (in ${left}) if nothing happens`,
  extended: (at) => `not stopped for being idle before ${at}`, counts_from: (value) => `counts from ${value}`,
  state: { active: "at work", quiet: "quiet", unknown: "not known", ignored: "not counted" },
  signal: { kernel: "Cells", terminal: "Terminals", person: "You", cpu: "CPU", network: "Network", gpu: "GPU",
    gpu_memory: "Change of GPU memory", report: "Server's report" },
  why: { idle: "it is idle", gpu_idle: "its GPU is idle", time_limit: "its time limit is reached", quota: "a quota is used up",
    budget: "a budget is used up" },
  stop: (at, left, why) => `This server will be stopped at ${at} (in ${left}): ${why}. Save your work.`,
  low: (name, left) => `Budget ${name}: ${left} left.`, extend: (span) => `Extend by ${span}`,
  away: "The hub tells nothing of this session now. The server goes on.",
  failed: "No answer: try again in a minute.",
};

const ZH = {
  waiting: "正在等待首次读数…",
  none: "此会话没有 GPU。",
  none_what: "如需使用 GPU，请启动带 GPU 的服务器规格。若在自己的机器上，请检查是否已安装 NVIDIA 驱动。",
  stale: "数据已过期：已有数秒没有新数值。内核响应后会恢复更新；若内核已停止，请重新运行该单元格。",
  old: (s) => `驱动没有响应：数值为 ${s} 秒前的读数。`,
  lost: "此 GPU 已丢失。请保存工作，停止此服务器后重新启动；若再次发生，请联系管理员。",
  shared: (own) => `共享 GPU：数值为所有使用者的总和。您的显存份额：${own}。`,
  simulated: "模拟 GPU：数值并非来自真实设备。",
  mig: "MIG 切片", gpu: "GPU", unnamed: "未知型号", host: "此容器", na: "无数据",
  of: (a, b) => `${a} / ${b}`,
  gpu_utilization: "GPU 占用", memory_used: "显存", temperature: "温度", power: "功率", sm_clock: "SM 频率",
  memory_clock: "显存频率", ecc_errors: "ECC 错误", processes: "进程", cpu_used: "CPU", ram_used: "内存",
  shm_used: "/dev/shm", cores: "核", no_processes: "无",
  plot: (label, now, low, high) => `${label}，最近五分钟：当前 ${now}，最低 ${low}，最高 ${high}`,
  no_plot: (label) => `${label}：最近五分钟没有数据`,
  panel: "GPU 面板", session: "此会话", flavor: "规格", price: "价格", cost: "目前费用", until: "时限",
  idle: "空闲检查", per_hour: (money) => `每小时 ${money}`, left: (left, all) => `剩余 ${left} / ${all}`,
  budget: (name) => `预算 ${name}`, unlimited: "无",
  quota: { servers: "服务器", gpus: "GPU", gpu_seconds: "GPU 小时", session_seconds: "最长会话" },
  ends: (at, left) => `${at}（还有 ${left}）`, sec: "秒", min: "分钟", hours: "小时",
  verdict: { active: "正在工作", idle: "空闲", unknown: "未知：不会因空闲而停止" },
  since: (at) => `自 ${at} 起`, would_stop: (at, left) => `若无活动将于 ${at} 停止（还有 ${left}）`,
  would_move: (at, left, to) => `若无活动将于 ${at} 换用规格 ${to}（还有 ${left}）`,
  extended: (at) => `${at} 之前不会因空闲而停止`, counts_from: (value) => `从 ${value} 起计入`,
  state: { active: "正在工作", quiet: "安静", unknown: "未知", ignored: "不计入" },
  signal: { kernel: "单元格", terminal: "终端", person: "您", cpu: "CPU", network: "网络", gpu: "GPU",
    gpu_memory: "显存变化", report: "服务器报告" },
  why: { idle: "服务器空闲", gpu_idle: "GPU 空闲", time_limit: "已到时限", quota: "配额已用完", budget: "预算已用完" },
  stop: (at, left, why) => `此服务器将于 ${at} 停止（还有 ${left}）：${why}。请保存工作。`,
  low: (name, left) => `预算 ${name}：剩余 ${left}。`, extend: (span) => `延长 ${span}`,
  away: "中心目前没有提供此会话的信息。服务器继续运行。",
  failed: "没有响应：请稍后重试。",
};

const LANGUAGE = navigator.language || "en";
export const T = /^zh\b/i.test(LANGUAGE) ? ZH : EN;

const isNumber = (value) => typeof value === "number" && Number.isFinite(value);
const whole = (unit) => (value) => `${Math.round(value)} ${unit}`;

export function bytes(value) {
  return value < 2 ** 30 ? `${Math.round(value / 2 ** 20)} MiB` : `${(value / 2 ** 30).toFixed(1)} GiB`;
}

// Of each row: the reading, what it is a part of (null: nothing), how a number is written, the least top of the plot.
const DEVICE_ROWS = [
  ["gpu_utilization", null, whole("%"), 100],
  ["memory_used", "memory_total", bytes, 1],
  ["temperature", null, whole("°C"), 100],
  ["power", "power_limit", whole("W"), 1],
  ["sm_clock", null, whole("MHz"), 1],
  ["memory_clock", null, whole("MHz"), 1],
  ["ecc_errors", null, String, 1],
];
const HOST_ROWS = [
  ["cpu_used", "cpu_limit", (value) => `${value.toFixed(1)} ${T.cores}`, 1],
  ["ram_used", "ram_total", bytes, 1],
  ["shm_used", "shm_total", bytes, 1],
];

function write(value, format) {
  return isNumber(value) ? format(value) : T.na;
}

function writeOf(values, [key, total, format]) {
  const now = write(values[key], format);
  return total && isNumber(values[total]) ? T.of(now, format(values[total])) : now;
}

// --- the session: money, time, whether it is idle, and what warns of an end

export function money(micro, currency) {
  if (!isNumber(micro)) return T.na;
  try {
    return new Intl.NumberFormat(LANGUAGE, { style: "currency", currency }).format(micro / 1e6);
  } catch {
    return `${(micro / 1e6).toFixed(2)} ${currency ?? ""}`.trim();
  }
}

export function span(seconds) {
  if (seconds < 90) return `${Math.max(0, Math.round(seconds))} ${T.sec}`;
  if (seconds < 5400) return `${Math.round(seconds / 60)} ${T.min}`;
  return `${+(seconds / 3600).toFixed(1)} ${T.hours}`;
}

function clock(instant) {
  const date = new Date(instant);
  const far = Math.abs(date - Date.now()) > 72e6;
  return date.toLocaleString(LANGUAGE, { hour: "2-digit", minute: "2-digit", ...(far && { month: "short", day: "numeric" }) });
}

export const secondsTo = (instant) => (Date.parse(instant) - Date.now()) / 1000;

// What the person is to know, most pressing first; a warning keeps its key.
export function warningsOf(session) {
  const { status, notice } = session ?? {};
  const stop = status?.stop ?? (notice?.stop_at && { ...notice, at: notice.stop_at });
  const found = [];
  if (stop && secondsTo(stop.at) > -60) {
    const why = T.why[stop.cause];
    const text = why ? T.stop(clock(stop.at), span(secondsTo(stop.at)), why) : stop.text;
    found.push({ key: `stop ${stop.cause} ${stop.at}`, text, at: stop.at });
  }
  if (notice?.cause === "gpu_lost") found.push({ key: notice.text, text: T.lost });
  for (const { number, text } of status?.messages ?? []) found.push({ key: `m${number}`, text });
  for (const each of status?.budgets ?? [])
    if (each.left_micro <= each.amount_micro / 5)
      found.push({ key: `low ${each.budget} ${each.left_micro > 0}`, text: T.low(each.budget, money(each.left_micro, status.currency)) });
  return found;
}

const UNITS = {
  cpu: (value) => `${+value.toFixed(1)} %`, gpu: (value) => `${+value.toFixed(1)} %`, gpu_memory: bytes,
  network: (value) => `${Math.round(value / 1024)} KiB/s`,
};

function reason({ signal, state, at, value, threshold, text }) {
  if (!T.signal[signal]) return text;
  const unit = UNITS[signal];
  const parts = [T.state[state]];
  if (unit && isNumber(value)) parts.push(unit(value));
  if (unit && isNumber(threshold)) parts.push(T.counts_from(unit(threshold)));
  if (at && state === "quiet") parts.push(T.since(clock(at)));
  return `${T.signal[signal]}: ${parts.join(", ")}`;
}

function verdictOf(idle) {
  const parts = [T.verdict[idle.verdict]];
  if (idle.since && idle.verdict === "idle") parts.push(T.since(clock(idle.since)));
  const at = idle.would_stop_at;
  if (at) parts.push((idle.move_to ? T.would_move : T.would_stop)(clock(at), span(secondsTo(at)), idle.move_to));
  if (idle.extended_until && secondsTo(idle.extended_until) > 0) parts.push(T.extended(clock(idle.extended_until)));
  return parts.join("; ");
}

function quotaOf({ kind, value, used, held }) {
  const left = Math.max(0, value - (used ?? 0) - (held ?? 0));
  return /seconds/.test(kind) ? T.left(span(left), span(value)) : T.left(left, value);
}

// Rows of the session as [key, label, text].
function sessionRows(status) {
  const in_ = (micro) => money(micro, status.currency);
  const rows = [
    ["flavor", T.flavor, status.flavor?.display_name ?? T.na],
    ["price", T.price, T.per_hour(in_(status.price_per_hour_micro))],
    ["cost", T.cost, in_(status.cost_micro)],
    ["until", T.until, status.until ? T.ends(clock(status.until), span(secondsTo(status.until))) : T.unlimited],
  ];
  for (const each of status.budgets ?? [])
    rows.push(["budget", T.budget(each.budget), T.left(in_(each.left_micro), in_(each.amount_micro))]);
  for (const each of status.quotas ?? []) rows.push(["quota", T.quota[each.kind] ?? each.kind, quotaOf(each)]);
  if (status.idle) rows.push(["idle", T.idle, verdictOf(status.idle)]);
  return rows;
}

// The page's server, if it is Jupyter's.
const pageConfig = () => JSON.parse(document.getElementById("jupyter-config-data")?.textContent || "{}");

export const base = () => pageConfig().baseUrl;

// Ask for more time; the answer is null, or why not.
export async function extend() {
  const headers = { "Content-Type": "application/json" };
  const xsrf = /(?:^|;\s*)_xsrf=([^;]+)/.exec(document.cookie)?.[1];
  if (xsrf) headers["X-XSRFToken"] = xsrf;
  const { token } = pageConfig();
  if (token) headers.Authorization = `token ${token}`;
  try {
    const answer = await fetch(`${base()}nbgpu/extend`, { method: "POST", headers, body: "{}" });
    return answer.ok ? null : (await answer.json()).message ?? T.failed;
  } catch {
    return T.failed;
  }
}

class SessionCard {
  constructor(parent, below) {
    this.alerts = make("div");
    this.alerts.setAttribute("role", "alert");
    below.before(this.alerts);
    this.node = make("details", "nbgpu-session", parent);
    this.node.open = true;
    setText(make("summary", "", this.node), T.session);
    this.note = make("p", "nbgpu-note", this.node);
    this.note.setAttribute("role", "status");
    this.rows = make("div", "nbgpu-rows", this.node);
    this.reasons = make("ul", "", this.node);
    this.button = make("button", "", this.node);
    this.button.type = "button";
    this.button.addEventListener("click", () => this.extend());
    this.problem = "";
  }

  show(session) {
    const status = session?.status;
    this.node.hidden = !session;
    fill(this.alerts, warningsOf(session).map(({ key, text }) => [key, "p", text]), "nbgpu-note nbgpu-warning");
    setText(this.note, session?.away ? T.away : this.problem);
    fill(this.rows, status ? sessionRows(status).map(([key, label, text]) => [`${key} ${label}`, "div", text, label]) : []);
    fill(this.reasons, (status?.idle?.reasons ?? []).map((each) => [each.signal, "li", reason(each)]));
    const seconds = status?.idle?.extend_s ?? 0;
    this.button.hidden = !(seconds > 0 && base());
    setText(this.button, T.extend(span(seconds)));
  }

  async extend() {
    this.button.disabled = true;
    this.problem = (await extend()) ?? "";
    this.button.disabled = false;
    setText(this.note, this.problem);
  }
}

// Make a node's children those of [key, tag, text, label]; what stays is not made (and read aloud) anew.
function fill(parent, entries, className = "") {
  const before = new Map([...parent.children].map((child) => [child.dataset.key, child]));
  parent.replaceChildren(...entries.map(([key, tag, text, label]) => {
    const node = before.get(key) ?? make(tag, label ? "nbgpu-row" : className);
    node.dataset.key = key;
    if (label && !node.firstChild) {
      setText(make("span", "", node), label);
      make("span", "", node).dataset.session = key.split(" ")[0];
    }
    setText(label ? node.lastChild : node, text);
    return node;
  }));
}

function make(tag, className, parent) {
  const node = document.createElement(tag);
  if (className) node.className = className;
  parent?.append(node);
  return node;
}

function setText(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

// --- the past, one for all views

class Past {
  constructor(model) {
    this.load(model);
  }

  load(model) {
    this.series = new Map();
    this.receivedAt = 0; // by this page's clock: the container's may differ
    for (const [name, keys] of Object.entries(model.get("_past") ?? {}))
      for (const [key, values] of Object.entries(keys)) this.of(name, key).push(...values.slice(-KEPT));
    if (model.get("_frame")?.at) this.receivedAt = performance.now();
  }

  of(name, key) {
    const id = `${name}/${key}`;
    if (!this.series.has(id)) this.series.set(id, []);
    return this.series.get(id);
  }

  add(frame) {
    this.receivedAt = performance.now();
    this.addValues(HOST, frame.host, HOST_ROWS, false);
    const present = new Set([HOST]);
    for (const device of frame.devices) {
      present.add(device.uuid);
      this.addValues(device.uuid, device.now, DEVICE_ROWS, device.age > 0);
    }
    for (const id of this.series.keys()) if (!present.has(id.split("/")[0])) this.series.delete(id);
  }

  addValues(name, values, rows, isOld) {
    for (const [key] of rows) {
      const kept = this.of(name, key);
      kept.push(isOld || !isNumber(values[key]) ? null : values[key]);
      if (kept.length > KEPT) kept.shift();
    }
  }

  seconds() {
    return (performance.now() - this.receivedAt) / 1000;
  }
}

const pasts = new WeakMap();

function pastOf(model) {
  if (!pasts.has(model)) {
    const past = new Past(model);
    pasts.set(model, past);
    model.on("change:_frame", () => {
      const frame = model.get("_frame");
      if (frame?.at) past.add(frame);
    });
    model.on("change:_past", () => past.load(model));
  }
  return pasts.get(model);
}

// --- rows and cards

class Row {
  constructor(parent, spec) {
    this.spec = spec;
    this.node = make("div", "nbgpu-row", parent);
    setText(make("span", "", this.node), T[spec[0]]);
    this.value = make("span", "", this.node);
    this.value.dataset.reading = spec[0];
    this.svg = document.createElementNS(SVG, "svg");
    this.svg.setAttribute("viewBox", `0 0 ${KEPT - 1} 100`);
    this.svg.setAttribute("preserveAspectRatio", "none");
    this.svg.setAttribute("role", "img");
    this.path = document.createElementNS(SVG, "path");
    this.svg.append(this.path);
    this.node.append(this.svg);
  }

  show(values, points, draws) {
    setText(this.value, writeOf(values, this.spec));
    if (draws) this.draw(values, points);
  }

  draw(values, points) {
    const [key, total, format, least] = this.spec;
    const known = points.filter(isNumber);
    const low = Math.min(...known);
    const high = Math.max(...known);
    const top = Math.max(least, (total && values[total]) || high, known.length ? high : 0);
    this.path.setAttribute("d", line(points, top));
    const label = known.length
      ? T.plot(T[key], write(values[key], format), format(low), format(high))
      : T.no_plot(T[key]);
    this.svg.setAttribute("aria-label", label);
  }
}

// A gap in the readings is a gap in the line.
function line(points, top) {
  const first = KEPT - points.length;
  let path = "";
  let pen = "M";
  points.forEach((value, index) => {
    if (!isNumber(value)) pen = "M";
    else {
      path += `${pen}${first + index} ${(98 - (96 * value) / top).toFixed(1)}`;
      pen = "L";
    }
  });
  return path;
}

class Card {
  constructor(parent, rows) {
    this.node = make("details", "", parent);
    this.node.open = true;
    this.title = make("summary", "", this.node);
    this.note = make("p", "nbgpu-note", this.node);
    this.rows = make("div", "nbgpu-rows", this.node);
    this.list = rows.map((spec) => new Row(this.rows, spec));
  }

  show(name, values, past, draws) {
    for (const row of this.list) row.show(values, past.of(name, row.spec[0]), draws);
  }
}

class DeviceCard extends Card {
  constructor(parent) {
    super(parent, DEVICE_ROWS);
    const row = make("div", "nbgpu-row", this.rows);
    setText(make("span", "", row), T.processes);
    this.processes = make("span", "", row);
    this.processes.dataset.reading = "processes";
  }

  showDevice(device, number, frame, past, draws) {
    const isOld = device.age > STALE_AFTER * frame.interval;
    setText(this.title, titleOf(device, number));
    setText(this.note, noteOf(device, frame, isOld));
    this.node.classList.toggle("nbgpu-old", isOld);
    setText(this.processes, processesOf(device.processes));
    this.show(device.uuid, device.now, past, draws);
  }
}

function titleOf(device, number) {
  const kind = device.isMig ? `${T.mig} ${device.mig ?? ""}`.trim() : T.gpu;
  return `${kind} ${number}: ${device.name ?? T.unnamed}`;
}

function noteOf(device, frame, isOld) {
  const notes = [];
  if (device.lost) notes.push(T.lost);
  if (isOld) notes.push(T.old(Math.round(device.age)));
  if (device.problem) notes.push(device.problem);
  if (isNumber(frame.share)) notes.push(T.shared(bytes(frame.share)));
  if (frame.simulated) notes.push(T.simulated);
  return notes.join(" ");
}

function processesOf(processes) {
  if (!Array.isArray(processes)) return T.na;
  const each = ({ pid, name, memory }) => `${name ?? "PID"} ${pid}: ${write(memory, bytes)}`;
  return processes.length ? processes.map(each).join("; ") : T.no_processes;
}

// --- the view

class View {
  constructor(model, el) {
    this.model = model;
    this.past = pastOf(model);
    this.root = make("section", "nbgpu-panel", el);
    this.root.setAttribute("aria-label", T.panel);
    this.note = make("p", "nbgpu-note", this.root);
    this.note.setAttribute("role", "status");
    this.devices = make("div", "", this.root);
    this.session = new SessionCard(this.root, this.devices);
    this.cards = new Map();
    this.host = new Card(this.root, HOST_ROWS);
    setText(this.host.title, T.host);
    this.drawnAt = -Infinity;
    this.still = globalThis.matchMedia?.("(prefers-reduced-motion: reduce)");
  }

  show() {
    this.session.show(this.model.get("_session"));
    const frame = this.model.get("_frame");
    if (!frame?.at) return setText(this.note, T.waiting);
    const draws = this.takesDrawing();
    this.keepCards(frame.devices);
    frame.devices.forEach((device, number) =>
      this.cards.get(device.uuid).showDevice(device, number, frame, this.past, draws));
    this.host.show(HOST, frame.host, this.past, draws);
    this.watch();
  }

  takesDrawing() {
    if (this.still?.matches && performance.now() - this.drawnAt < STILL_REDRAW_MS) return false;
    this.drawnAt = performance.now();
    return true;
  }

  keepCards(devices) {
    const present = new Set(devices.map((device) => device.uuid));
    for (const [uuid, card] of this.cards)
      if (!present.has(uuid)) {
        card.node.remove();
        this.cards.delete(uuid);
      }
    for (const uuid of present)
      if (!this.cards.has(uuid)) this.cards.set(uuid, new DeviceCard(this.devices));
  }

  // Whether the values are still those of now; called each second, also when nothing comes.
  watch() {
    const frame = this.model.get("_frame");
    if (!frame?.at) return;
    const stale = this.past.seconds() > STALE_AFTER * frame.interval;
    if (stale && !this.root.classList.contains("nbgpu-old")) this.model.send({ kind: "awake" }); // another page that closed the panel put it to sleep
    this.root.classList.toggle("nbgpu-old", stale);
    this.session.show(this.model.get("_session"));
    const none = frame.devices.length ? "" : [T.none, T.none_what, frame.problem].filter(Boolean).join(" ");
    setText(this.note, stale ? T.stale : none);
  }
}

function initialize({ model }) {
  pastOf(model);
}

function render({ model, el }) {
  const view = new View(model, el);
  const show = () => view.show();
  model.on("change:_frame", show);
  model.on("change:_session", show);
  const timer = setInterval(() => view.watch(), 1000);
  view.show();
  return () => {
    clearInterval(timer);
    model.off("change:_frame", show);
    model.off("change:_session", show);
    view.root.remove();
  };
}

export default { initialize, render };
