// Draws what this replica says of itself, once a second. Everything is put on the page as text.
"use strict";

const PAUSE_MS = 1000;
const ANSWER_MS = 3000;
// Points of a plot: two minutes.
const POINTS_MAX = 120;
const PLACES = ["face", "ring", "order", "log", "network", "apply", "total"];
// As `quorate status` has them: a share of the time at which something has no more to give; a far quorum in us.
const SATURATED = 0.85;
const FAR_US = 300;
const QUEUED_BYTES = 1 << 20;

const at = (id) => document.getElementById(id);
const made = (name, text, kind) => {
  const element = document.createElement(name);
  if (text !== undefined) element.textContent = text;
  if (kind) element.className = kind;
  return element;
};

const bytes = (count) => {
  if (count === null || count === undefined) return "unknown";
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let unit = 0;
  while (count >= 1024 && unit < units.length - 1) {
    count /= 1024;
    unit += 1;
  }
  return `${count < 10 && unit ? count.toFixed(1) : Math.round(count)} ${units[unit]}`;
};
const time = (us) => {
  if (us === null || !Number.isFinite(us)) return "-";
  if (us < 1000) return `${Math.round(us)} us`;
  return us < 1e6 ? `${(us / 1000).toPrecision(3)} ms` : `${(us / 1e6).toPrecision(3)} s`;
};
const span = (ms) => {
  const s = Math.floor(ms / 1000);
  const days = Math.floor(s / 86400), hours = Math.floor(s / 3600) % 24, minutes = Math.floor(s / 60) % 60;
  if (days) return `${days} d ${hours} h`;
  return hours ? `${hours} h ${minutes} min` : minutes ? `${minutes} min ${s % 60} s` : `${s} s`;
};
const count = (number) => Math.round(number).toLocaleString("en");
const percent = (share) => `${Math.round(share * 100)} %`;

// The samples of a page of metrics, by name and labels.
function samples(text) {
  const all = new Map();
  for (const line of text.split("\n")) {
    if (line.startsWith("#") || !line) continue;
    const space = line.lastIndexOf(" ");
    all.set(line.slice(0, space), Number(line.slice(space + 1)));
  }
  return all;
}

// What was added to a sample since the look before.
const added = (now, before, name) => Math.max(0, (now.get(name) || 0) - (before.get(name) || 0));

// The requests at a place between two looks: how many, their mean and quantiles in us.
function timesAt(place, now, before) {
  const name = `quorate_latency_seconds_bucket{place="${place}",le="`;
  const buckets = [];
  for (const key of now.keys()) {
    if (!key.startsWith(name)) continue;
    const bound = key.slice(name.length, -2);
    buckets.push([bound === "+Inf" ? Infinity : Number(bound), added(now, before, key)]);
  }
  buckets.sort((one, other) => one[0] - other[0]);
  const label = `{place="${place}"}`;
  const total = added(now, before, `quorate_latency_seconds_count${label}`);
  const spent = added(now, before, `quorate_latency_seconds_sum${label}`);
  const quantile = (share) => {
    if (!total) return null;
    let least = 0;
    let below = 0;
    for (const [bound, through] of buckets) {
      if (through >= share * total) {
        if (bound === Infinity) return least * 1e6;
        const inside = through - below;
        return (least + (bound - least) * (inside ? (share * total - below) / inside : 1)) * 1e6;
      }
      [least, below] = [bound, through];
    }
    return null;
  };
  return { total, spent, mean: total ? (spent / total) * 1e6 : null, p50: quantile(0.5), p99: quantile(0.99) };
}

// What keeps the replica from doing more.
function limitOf(seconds, rate, page, pageBefore, now, before, places) {
  const share = (place) => Math.min(1, timesAt(place, now, before).spent / seconds);
  const flush = share("log"), core = share("turn");
  const all = page.machine_total_ms - pageBefore.machine_total_ms;
  const machine = all > 0 ? (page.machine_busy_ms - pageBefore.machine_busy_ms) / all : 0;
  const quorum = Math.max(0, (places.order.mean || 0) - (places.log.mean || 0));
  const shares = `a flush is under way ${percent(flush)} of the time, the protocol's thread works ${percent(core)}, ` +
    `the machine ${percent(machine)}`;
  if (rate < 1) return `Nothing limits: hardly anybody asks for anything (${shares}).`;
  let queued = 0;
  for (const [name, value] of now) if (name.startsWith("quorate_peer_queued_bytes{")) queued += value;
  if (queued > QUEUED_BYTES) return `The network limits: ${bytes(queued)} wait for links to peers (${shares}).`;
  if (flush > SATURATED) return `The disk limits: ${shares}.`;
  if (core > SATURATED) return `The protocol's thread limits: ${shares}.`;
  if (machine > SATURATED) return `The machine's CPUs limit: ${shares}.`;
  if (quorum > FAR_US && quorum > (places.total.mean || 0) / 2) {
    return `The way to a quorum limits: ${time(quorum)} of the ${time(places.total.mean)} of a request (${shares}).`;
  }
  return `Clients limit: they ask for no more (${shares}).`;
}

const shown = new Map();

// Fills a table, unless it says the same already: a link that has the focus keeps it.
function table(id, heads, rows) {
  const element = at(id);
  const text = JSON.stringify([heads, rows.map((cells) => cells.map((cell) => cell instanceof Node ? cell.href : cell))]);
  if (shown.get(id) === text) return;
  shown.set(id, text);
  const head = made("tr");
  for (const [text, kind] of heads) head.append(made("th", text, kind));
  const lines = rows.map((cells) => {
    const row = made("tr");
    cells.forEach((cell, index) => {
      if (cell instanceof Node) {
        const box = made("td", undefined, heads[index][1]);
        box.append(cell);
        row.append(box);
      } else {
        row.append(made("td", cell, heads[index][1]));
      }
    });
    return row;
  });
  element.replaceChildren(head, ...lines);
}

function plot(id, lines) {
  const svg = at(id);
  const most = Math.max(1e-9, ...lines.flat());
  const drawn = lines.map((values, index) => {
    const line = document.createElementNS("http://www.w3.org/2000/svg", "polyline");
    const points = values.map((value, place) => {
      const x = 240 - (values.length - 1 - place) * (240 / (POINTS_MAX - 1));
      return `${x.toFixed(1)},${(58 - (value / most) * 54).toFixed(1)}`;
    });
    line.setAttribute("points", points.join(" "));
    if (index) line.setAttribute("class", "second");
    return line;
  });
  svg.replaceChildren(...drawn);
}

// A link to the console of another replica, if its URL is one that a browser opens.
function placeOf(url) {
  const first = url.split(",")[0];
  if (!/^https?:\/\//.test(first)) return url;
  const link = made("a", first);
  link.href = `${first.replace(/\/+$/, "")}/console`;
  link.rel = "noreferrer";
  return link;
}

function showNow(page) {
  const epoch = page.epochs[page.epochs.length - 1] || {};
  const clock = page.clock && page.clock.error_ns !== null && page.clock.error_ns !== undefined
    ? `within ${time(page.clock.error_ns / 1000)}` : "nobody bounds it";
  const leader = page.leader === null ? "none is named" : `replica ${page.leader} (term ${page.leader_term})`;
  const facts = [
    ["protocol", page.protocol],
    ["configuration", epoch.number],
    ["role", page.role],
    [page.leads === null ? "named to clients" : "leader", leader],
    ["slots applied", count(page.applied_slot)],
    ["durability", page.durability],
    ["log", `${bytes(page.log_bytes)} in ${page.log_segments} ${page.log_segments === 1 ? "file" : "files"}`],
    ["snapshots", bytes(page.snapshot_bytes)],
    ["disk free", bytes(page.disk_free_bytes)],
    ["memory", bytes(page.memory_rss_bytes)],
    ["clock", clock],
    ["up for", span(page.uptime_ms)],
  ];
  at("now").replaceChildren(...facts.map(([name, value]) => {
    const box = made("div");
    box.append(made("dt", name), made("dd", String(value)));
    return box;
  }));
}

function showPage(page) {
  const own = page.members.find((member) => member.replica_id === page.replica_id);
  const name = own && own.name ? ` (${own.name})` : "";
  at("who").textContent = `replica ${page.replica_id}${name} of cluster ${page.cluster_id}, version ${page.version}`;
  document.title = `Quorate: replica ${page.replica_id}`;
  const isWell = page.has_quorum && page.alarms.length === 0 && page.role !== "rejoining";
  at("health").className = isWell ? "good" : "bad";
  at("health").textContent = isWell ? "it is well" : page.has_quorum ? "something is wrong" : "it reaches no quorum";
  at("alarms").replaceChildren(...page.alarms.map((alarm) => made("li", alarm)));
  showNow(page);
  table("members", [["replica"], ["name"], ["clients"], ["peers"], ["", ""], ["link from here"]],
    page.members.map((member) => {
      const isHere = member.replica_id === page.replica_id;
      const marks = [];
      if (member.is_learner) marks.push("learner");
      if (member.replica_id === page.leader) marks.push(page.leads === null ? "named" : "leader");
      const link = isHere ? "this one" : page.links_up.includes(member.replica_id) ? "up" : "DOWN";
      return [String(member.replica_id), member.name, placeOf(member.client_url), member.peer_url, marks.join(", "), link];
    }));
  table("epochs", [["number", "number"], ["from slot", "number"], ["protocol"], ["parameters"], ["members"], [""]],
    page.epochs.slice().reverse().map((epoch) => [
      String(epoch.number), count(epoch.first_slot), epoch.protocol,
      Object.entries(epoch.params).map(([key, value]) => `${key}=${value}`).join(" ") || "-",
      epoch.members.join(", "), epoch.forced ? "made by hand" : "",
    ]));
}

const rates = [], p50s = [], p99s = [];
let last = null;

function push(list, value) {
  list.push(value);
  if (list.length > POINTS_MAX) list.shift();
}

function showRates(page, now, when) {
  if (last === null) return;
  const seconds = (when - last.when) / 1000;
  const rate = added(now, last.samples, "quorate_commands_applied_total") / seconds;
  const places = {};
  for (const place of PLACES) places[place] = timesAt(place, now, last.samples);
  push(rates, rate);
  push(p50s, places.total.p50 || 0);
  push(p99s, places.total.p99 || 0);
  at("rate").textContent = count(rate);
  at("total").textContent = `${time(places.total.p50)}, ${time(places.total.p99)}`;
  plot("rate-plot", [rates]);
  plot("total-plot", [p50s, p99s]);
  at("limit").textContent = limitOf(seconds, rate, page, last.page, now, last.samples, places);
  table("places", [["place"], ["in a second", "number"], ["p50", "number"], ["p99", "number"]],
    PLACES.map((place) => {
      const { total, p50, p99 } = places[place];
      return [place, count(total / seconds), time(p50), time(p99)];
    }));
}

async function text(path) {
  // A replica that is frozen takes connections and does not answer.
  const answer = await fetch(path, { cache: "no-store", signal: AbortSignal.timeout(ANSWER_MS) });
  if (!answer.ok) throw new Error(`${path}: status ${answer.status}`);
  return answer.text();
}

async function look() {
  try {
    const page = JSON.parse(await text("status"));
    const now = samples(await text("metrics"));
    const when = performance.now();
    showPage(page);
    showRates(page, now, when);
    last = { page, samples: now, when };
  } catch (error) {
    at("health").className = "bad";
    at("health").textContent = `no answer (${error.message})`;
    last = null;
  }
}

async function watch() {
  for (;;) {
    // A page that nobody sees asks for nothing.
    if (!document.hidden) await look();
    await new Promise((done) => setTimeout(done, PAUSE_MS));
  }
}
watch();
