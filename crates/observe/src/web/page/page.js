"use strict";
// What is shared.
const $ = id => document.getElementById(id);
// The token is in a cookie, which the browser sends along.
function url(path, query = {}) {
  const text = new URLSearchParams(query).toString();
  return text ? path + "?" + text : path;
}
const percent = x => (100 * x).toFixed(x > 0 && x < 0.0995 ? 1 : 0) + " %";
function bytes(n) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let at = 0;
  while (n >= 1024 && at < 4) { n /= 1024; at++; }
  return n.toFixed(at && n < 100 ? 1 : 0) + " " + units[at];
}
function time(ns) {
  for (const [unit, of, digits] of [["s", 1e9, 2], ["ms", 1e6, 2], ["µs", 1e3, 1]])
    if (Math.abs(ns) >= of) return (ns / of).toFixed(digits) + " " + unit;
  return ns.toFixed(0) + " ns";
}
const count = n => Math.round(n).toLocaleString("en").replaceAll(",", " ");
// A command with the last part of its program's path.
function shortened(command) {
  const [first, ...rest] = command.split(" "), parts = first.split("/");
  return [parts.length > 3 ? "…/" + parts.slice(-2).join("/") : first, ...rest].join(" ");
}
const program = command => (command.split(" ")[0] || "").split("/").pop();
function element(name, text, kind) {
  const made = document.createElement(name);
  if (text !== undefined) made.textContent = text;
  if (kind) made.className = kind;
  return made;
}
async function ask(path, query, options) {
  const answer = await fetch(url(path, query), { ...options, headers: { "x-openmps": "1", ...options?.headers } });
  const value = await answer.json().catch(() => ({}));
  if (!answer.ok) throw new Error(value.error || answer.statusText);
  return value;
}
// A colour of the style sheet as canvases take it.
function resolved(name) {
  const probe = element("span");
  probe.style.color = "var(" + name + ")";
  document.body.append(probe);
  const text = getComputedStyle(probe).color;
  probe.remove();
  return text;
}
function sized(canvas) {
  const scale = devicePixelRatio || 1, box = canvas.getBoundingClientRect();
  canvas.width = Math.max(1, Math.round(box.width * scale));
  canvas.height = Math.max(1, Math.round(box.height * scale));
  const pen = canvas.getContext("2d");
  pen.scale(scale, scale);
  pen.font = "12px system-ui, sans-serif";
  return [pen, box.width, box.height];
}
const dark = matchMedia("(prefers-color-scheme: dark)");
// Each client keeps the colour that it came with.
const HUES = [212, 158, 32, 275, 350, 190, 90, 320];
const hues = new Map();
function tone(server, id) {
  const key = server + "/" + id;
  if (!hues.has(key)) hues.set(key, HUES[hues.size % HUES.length]);
  return "light-dark(hsl(" + hues.get(key) + " 62% 46%), hsl(" + hues.get(key) + " 65% 62%))";
}
// Only a change: a screen reader says again what is written again.
function write(id, text) { if ($(id).textContent !== text) $(id).textContent = text; }
function say(text, kind) { write("status", text); $("status").className = "small " + kind; }

// Devices and their charts.
const KEPT = 120;
const LINES = [["occupancy", "--occ"], ["util", "--util"], ["sm_activity", "--sm"]];
const history = new Map();
function chart(canvas, points) {
  const [pen, width, height] = sized(canvas), left = 44, top = 6, foot = 18;
  const x = at => left + (width - left - 3) * (KEPT - points.length + at) / (KEPT - 1);
  const y = share => top + (height - top - foot) * (1 - share);
  pen.textBaseline = "middle"; pen.textAlign = "right"; pen.lineWidth = 1;
  for (const share of [0, .5, 1]) {
    pen.strokeStyle = resolved("--line"); pen.beginPath(); pen.moveTo(left, y(share)); pen.lineTo(width, y(share)); pen.stroke();
    pen.fillStyle = resolved("--dim"); pen.fillText(100 * share + " %", left - 8, y(share));
  }
  pen.textBaseline = "alphabetic"; pen.fillText("now", width - 2, height - 3);
  pen.textAlign = "left"; pen.fillText("2 min ago", left, height - 3);
  for (const [key, name] of LINES) {
    const colour = resolved(name);
    pen.beginPath();
    points.forEach((point, at) => at ? pen.lineTo(x(at), y(point[key])) : pen.moveTo(x(at), y(point[key])));
    pen.strokeStyle = colour; pen.lineWidth = 2; pen.lineJoin = "round"; pen.stroke();
    if (key === "sm_activity" && points.length > 1) {
      pen.lineTo(x(points.length - 1), y(0)); pen.lineTo(x(0), y(0)); pen.closePath();
      pen.globalAlpha = .14; pen.fillStyle = colour; pen.fill(); pen.globalAlpha = 1;
    }
  }
}
function deviceCard(device) {
  const card = element("article"), head = element("div", undefined, "head"), grid = element("div", undefined, "measures");
  card.id = "device-" + device.uuid;
  head.append(element("h3"), element("span", "", "small dim"));
  for (const [kind, label] of [["util", "GPU-Util"], ["sm", "SM activity"], ["occ", "Occupancy"]]) {
    const cell = element("div", undefined, kind);
    cell.append(element("b", ""), element("span", label));
    grid.append(cell);
  }
  const canvas = element("canvas", undefined, "chart");
  canvas.setAttribute("role", "img");
  const lines = element("div", undefined, "meterline");
  for (const label of ["SMs", "Memory"]) lines.append(element("span", label, "dim"), element("div", undefined, "track"), element("span", ""));
  card.append(head, grid, canvas, lines);
  $("devices").append(card);
  return card;
}
function parts(track, shares) {
  track.replaceChildren(...shares.filter(([part]) => part > 0.002).map(([part, colour, title]) => {
    const piece = element("i");
    piece.style.width = 100 * Math.min(1, part) + "%";
    piece.style.background = colour;
    piece.title = title;
    return piece;
  }));
}
function showDevices(devices, clients) {
  for (const device of devices) {
    const points = history.get(device.uuid) || [];
    points.push(device);
    if (points.length > KEPT) points.shift();
    history.set(device.uuid, points);
    const card = $("device-" + device.uuid) || deviceCard(device), mark = device.sampled ? "~" : "";
    card.querySelector("h3").textContent = device.name;
    card.querySelector(".head span").textContent = "device " + device.ordinal + ", " + device.sms + " SMs";
    const values = card.querySelectorAll("b");
    [percent(device.util), mark + percent(device.sm_activity), mark + percent(device.occupancy)].forEach((text, at) => { values[at].textContent = text; });
    const canvas = card.querySelector("canvas");
    canvas.setAttribute("aria-label", "GPU-Util " + percent(device.util) + ", SM activity " + percent(device.sm_activity) + ", occupancy " + percent(device.occupancy));
    chart(canvas, points);
    canvas.dataset.updates = +(canvas.dataset.updates || 0) + 1;
    const [sms, memory] = card.querySelectorAll(".track"), [smsText, memoryText] = card.querySelectorAll(".meterline > :nth-child(3n)");
    const mine = clients.filter(client => client.device === device.uuid);
    parts(sms, mine.map(c => [c.sm_share, tone(c.server, c.id), program(c.command) + " (PID " + (c.pid ?? "?") + "): " + percent(c.sm_share) + " of the SMs"]));
    smsText.textContent = mark + (device.sm_activity * device.sms).toFixed(1) + " of " + device.sms + " busy";
    const held = mine.reduce((sum, client) => sum + client.memory, 0), total = device.memory_total || 1;
    parts(memory, [...mine.map(c => [c.memory / total, tone(c.server, c.id), program(c.command) + ": " + bytes(c.memory)]),
      [Math.max(0, device.memory_used - held) / total, "var(--dim)", "contexts, code and other programs"]]);
    memoryText.textContent = bytes(device.memory_used) + " of " + bytes(device.memory_total);
  }
  for (const card of [...$("devices").children]) if (!devices.some(device => card.id === "device-" + device.uuid)) card.remove();
}

// Clients.
let ending = null, names = new Map();
function clientRow(client, id) {
  const row = element("tr"), kinds = ["command", "wide", "wide word dim", "medium word", "", "wide", "", "wide", "medium", "medium", ""];
  row.id = id;
  for (const kind of kinds) row.append(element("td", undefined, kind));
  const cells = row.children, share = element("div", undefined, "share"), track = element("div", undefined, "track");
  cells[0].append(element("b", ""), element("span", "", "mono wide"), element("span", "", "narrow"), element("span", "", "limits"));
  cells[3].append(element("span", "", "tag"));
  share.append(element("span", ""), track);
  cells[4].append(share);
  const button = element("button", "End", "end");
  button.addEventListener("click", () => {
    ending = client;
    $("ask-text").textContent = "End " + program(client.command) + " (PID " + (client.pid ?? "?") + ")? What it has on the device is destroyed.";
    $("ask").showModal();
  });
  cells[10].append(button);
  return row;
}
function showClients(clients) {
  const rows = $("rows"), known = new Map([...rows.children].map(row => [row.id, row]));
  clients.sort((a, b) => a.server - b.server || a.id - b.id);
  names = new Map(clients.map(c => [c.server + "/" + c.id, program(c.command) + " " + (c.pid ?? "")]));
  clients.forEach((client, at) => {
    const id = "client-" + client.server + "-" + client.id, row = known.get(id) || clientRow(client, id);
    const cells = row.children, mark = client.sampled ? "~" : "", colour = tone(client.server, client.id);
    known.delete(id);
    row.style.setProperty("--tone", colour);
    const [name, command, pid, limits] = cells[0].children;
    name.textContent = program(client.command); command.textContent = shortened(client.command); pid.textContent = "PID " + (client.pid ?? "-"); cells[0].title = client.command;
    limits.textContent = client.limits ? "limited: " + client.limits : "";
    cells[1].textContent = client.pid ?? "-"; cells[2].textContent = client.user; cells[3].firstChild.textContent = client.class || "normal";
    const [share, track] = cells[4].firstChild.children;
    share.textContent = mark + percent(client.sm_share);
    parts(track, [[client.sm_share, colour, ""]]);
    [mark + percent(client.busy), bytes(client.memory), count(client.kernels_per_s), client.in_flight, percent(client.throttled)]
      .forEach((text, place) => { cells[5 + place].textContent = text; });
    cells[10].firstChild.setAttribute("aria-label", "End " + program(client.command) + ", PID " + (client.pid ?? "unknown"));
    if (rows.children[at] !== row) rows.insertBefore(row, rows.children[at] || null);
  });
  for (const row of known.values()) row.remove();
  if (!clients.length) {
    const row = element("tr"), cell = element("td", "No program uses the daemon. openmps run -- PROGRAM starts one.", "none");
    cell.colSpan = 11;
    row.append(cell);
    rows.append(row);
  }
}
// What became of the last button, until the next one.
function tell(text, kind) { write("done", text); $("done").className = "small " + kind; }
$("no").addEventListener("click", () => $("ask").close());
$("yes").addEventListener("click", async () => {
  $("ask").close();
  tell("", "");
  const headers = { "content-type": "application/json" };
  try {
    await ask("/api/end", {}, { method: "POST", headers, body: JSON.stringify({ server: ending.server, client: ending.id }) });
    tell("Ended " + program(ending.command) + " (PID " + (ending.pid ?? "?") + ").", "live");
  } catch (error) { tell(program(ending.command) + " was not ended: " + error.message, "bad"); }
});

// Kernels.
async function showKernels() {
  let all;
  try { all = await ask("/api/kernels"); } catch { return; /* The next event says what is wrong. */ }
  const rows = all.flatMap(client => client.kernels.map(kernel => [client, kernel]));
  rows.sort((a, b) => b[1].device_ns - a[1].device_ns || b[1].launches - a[1].launches);
  const product = list => list.reduce((a, b) => a * b, 1);
  $("kernels").replaceChildren(...rows.slice(0, 30).map(([client, kernel]) => {
    const row = element("tr"), mark = kernel.timing === "sampled" ? "~" : "", known = kernel.timing !== "none";
    const shape = [...kernel.shapes].sort((a, b) => b.launches - a.launches)[0];
    const name = element("td", undefined, "command");
    name.append(element("b", kernel.name, "mono"));
    name.title = kernel.name;
    name.style.setProperty("--tone", tone(client.server, client.client));
    row.append(name, element("td", names.get(client.server + "/" + client.client) || "client " + client.client, "wide word dim"),
      element("td", count(kernel.launches)), element("td", known ? mark + time(kernel.device_ns) : "-"),
      element("td", known ? mark + time(kernel.device_ns / Math.max(1, kernel.launches)) : "-", "wide"),
      element("td", shape ? product(shape.grid) + " × " + product(shape.block) : "", "wide"));
    return row;
  }));
}

// Timeline: what is drawn is `view`, ns, a part of `whole`.
const ROW = 24, AXIS = 24;
const KINDS = { "copy-in": "to device", "copy-out": "to host", "copy-within": "on device", "on-sm": "kernel" };
let records = [], tracks = [], view = [0, 1], whole = [0, 1];
function layout(answer) {
  const clients = new Map(answer.clients.map(c => [c.server + "/" + c.id, program(c.command) + " " + c.pid])), found = new Map();
  records = answer.records.sort((a, b) => a.start - b.start);
  // What an SM had is told by its launch's number.
  const launches = new Map(records.filter(r => r.kind === "kernel").map(r => [[r.server, r.client, r.launch].join(), r.name]));
  for (const r of records) if (r.kind === "on-sm") r.name = launches.get([r.server, r.client, r.launch].join()) || "";
  for (const r of records) {
    const key = r.server + "/" + r.client, of = clients.get(key) || "client " + r.client;
    const [group, name] = r.kind === "on-sm" ? ["", "SM " + String(r.sm).padStart(3, "0")] : [of, r.stream === null ? "in graphs" : "stream " + r.stream];
    r.of = of;
    tone(r.server, r.client);
    r.hue = r.kind.startsWith("copy") || r.kind === "fill" ? null : r.kind === "on-sm" ? hues.get(key) : hueOf(r.name || r.kind);
    const id = (group || "~") + "/" + name;
    if (!found.has(id)) found.set(id, { id, group, name, tone: group ? tone(r.server, r.client) : null });
    r.track = id;
  }
  // Clients by name, then SMs.
  tracks = [...found.values()].sort((a, b) => !a.group - !b.group || a.id.localeCompare(b.id, "en", { numeric: true }));
  whole = records.length ? [records[0].start, records.reduce((end, r) => Math.max(end, r.end), 0)] : [0, 1];
  view = [...whole];
  $("what").textContent = records.length ? count(records.length) + " records" + (answer.lost ? ", " + count(answer.lost) + " lost" : "") + ". A stream's colours are its kernels, grey is copies and fills; an SM's are the programs."
    : "No kernel or copy ended while it was recorded.";
  drawTimeline();
}
function hueOf(text) { let sum = 7; for (const c of text) sum = (sum * 33 + c.charCodeAt(0)) % 100003; return (sum * 47) % 360; }
function fitted(pen, text, room) {
  if (pen.measureText(text).width <= room) return text;
  while (text && pen.measureText(text + "…").width > room) text = text.slice(0, -1);
  return text + "…";
}
const labels = width => Math.min(230, width / 3);
function drawTimeline() {
  const canvas = $("timeline");
  canvas.dataset.records = records.length;
  canvas.style.height = AXIS + tracks.length * ROW + 2 + "px";
  const [pen, width, height] = sized(canvas), left = labels(width), [from, to] = view;
  const text = resolved("--text"), dim = resolved("--dim"), line = resolved("--line");
  const x = t => left + (width - left) * (t - from) / (to - from);
  pen.textBaseline = "middle"; pen.lineWidth = 1;
  // A tick at a round distance, about every 110 pixels.
  const rough = (to - from) * 110 / Math.max(1, width - left), unit = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map(n => n * unit).find(n => n >= rough);
  for (let t = Math.ceil((from - whole[0]) / step) * step; t <= to - whole[0]; t += step) {
    const at = Math.round(x(t + whole[0])) + .5;
    pen.strokeStyle = line; pen.beginPath(); pen.moveTo(at, AXIS - 6); pen.lineTo(at, height); pen.stroke();
    pen.fillStyle = dim; if (at < width - 50) pen.fillText(time(t).replace(/\.0+ /, " "), at + 4, AXIS / 2 - 2);
  }
  const places = new Map();
  let group = null;
  tracks.forEach((track, at) => {
    const y = AXIS + at * ROW;
    places.set(track.id, y);
    if (track.group !== group) { pen.strokeStyle = line; pen.beginPath(); pen.moveTo(0, y + .5); pen.lineTo(width, y + .5); pen.stroke(); }
    if (track.tone) { pen.fillStyle = colourOf(track.tone); pen.fillRect(0, y + 3, 4, ROW - 6); }
    const room = left - 24 - pen.measureText(track.name).width, first = track.group && track.group !== group;
    pen.textAlign = "right"; pen.fillStyle = dim;
    if (room > 60 || !first) pen.fillText(track.name, left - 12, y + ROW / 2);
    pen.textAlign = "left"; pen.fillStyle = text;
    if (first) pen.fillText(fitted(pen, track.group, room > 60 ? room : left - 20), 11, y + ROW / 2);
    group = track.group;
  });
  const drawn = new Map(), dull = dark.matches ? "hsl(215 8% 42%)" : "hsl(215 12% 72%)";
  for (const r of records) {
    if (r.end < from || r.start > to) continue;
    const a = Math.max(left, x(r.start)), b = Math.max(Math.min(width, x(r.end)), a + 1), y = places.get(r.track);
    // What falls into a pixel that is drawn already is not seen.
    if (b <= (drawn.get(r.track) ?? -1)) continue;
    drawn.set(r.track, b);
    pen.fillStyle = r.hue === null ? dull : "hsl(" + r.hue + (dark.matches ? " 45% 40%)" : " 62% 78%)");
    const wide = b - a;
    if (wide > 5) { pen.beginPath(); pen.roundRect(a, y + 3, wide - .5, ROW - 6, 3); pen.fill(); } else pen.fillRect(a, y + 3, wide, ROW - 6);
    if (wide > 44) {
      pen.save(); pen.beginPath(); pen.rect(a, y, wide - 4, ROW); pen.clip();
      pen.fillStyle = text; pen.fillText(r.name || KINDS[r.kind] || r.kind, a + 5, y + ROW / 2 + .5); pen.restore();
    }
  }
  canvas.dataset.from = from - whole[0]; canvas.dataset.to = to - whole[0];
  write("span", records.length ? time(to - from) + " of " + time(whole[1] - whole[0]) : "");
  if ($("words").open) showWords();
}
// What the canvas shows, for those who do not see it: by track, of the part that is shown.
function showWords() {
  const [from, to] = view, rows = new Map(tracks.map(track => [track.id, { track, number: 0, ns: 0, names: new Map() }]));
  for (const r of records) {
    if (r.end < from || r.start > to) continue;
    const row = rows.get(r.track), ns = Math.min(r.end, to) - Math.max(r.start, from), name = r.name || KINDS[r.kind] || r.kind;
    row.number++; row.ns += ns; row.names.set(name, (row.names.get(name) || 0) + ns);
  }
  $("tracks").replaceChildren(...[...rows.values()].filter(row => row.number).map(({ track, number, ns, names }) => {
    const row = element("tr"), longest = [...names].sort((a, b) => b[1] - a[1])[0];
    row.append(element("td", (track.group ? track.group + ", " : "") + track.name), element("td", count(number)), element("td", time(ns)),
      element("td", longest[0] + ", " + time(longest[1]), "mono"));
    return row;
  }));
}
$("words").addEventListener("toggle", () => { if ($("words").open) showWords(); });
function colourOf(text) { const probe = element("span"); probe.style.color = text; document.body.append(probe); const found = getComputedStyle(probe).color; probe.remove(); return found; }
function show(start, length) {
  length = Math.min(whole[1] - whole[0], Math.max(100, length));
  start = Math.max(whole[0], Math.min(whole[1] - length, start));
  view = [start, start + length];
  drawTimeline();
}
function zoom(factor, center = .5) { const [from, to] = view; const length = Math.min(whole[1] - whole[0], Math.max(100, (to - from) * factor)); show(from + (to - from - length) * center, length); }
function move(part) { const length = view[1] - view[0]; show(view[0] + part * length, length); }
const all = () => show(whole[0], whole[1] - whole[0]);
for (const [id, does] of [["in", () => zoom(.5)], ["out", () => zoom(2)], ["left", () => move(-.3)], ["right", () => move(.3)], ["all", all]]) $(id).addEventListener("click", does);
const timeline = $("timeline");
timeline.addEventListener("keydown", event => {
  const does = { "+": () => zoom(.5), "=": () => zoom(.5), "-": () => zoom(2), ArrowLeft: () => move(-.3), ArrowRight: () => move(.3), 0: all }[event.key];
  if (does) { does(); event.preventDefault(); }
});
function place(event) {
  const box = timeline.getBoundingClientRect(), left = labels(box.width);
  return [(event.clientX - box.left - left) / (box.width - left), event.clientY - box.top - AXIS];
}
timeline.addEventListener("wheel", event => {
  // A wheel that scrolls the page goes on doing so: zooming needs Ctrl or a pinch, or the focus.
  if (!event.ctrlKey && document.activeElement !== timeline) return;
  zoom(event.deltaY < 0 ? .8 : 1.25, Math.max(0, Math.min(1, place(event)[0])));
  event.preventDefault();
}, { passive: false });
let dragged = null;
timeline.addEventListener("pointerdown", event => { dragged = event.clientX; timeline.setPointerCapture(event.pointerId); $("tip").hidden = true; });
for (const name of ["pointerup", "pointercancel"]) timeline.addEventListener(name, () => { dragged = null; });
timeline.addEventListener("pointerleave", () => { $("tip").hidden = true; });
timeline.addEventListener("pointermove", event => {
  if (dragged !== null) { move((dragged - event.clientX) / (timeline.clientWidth - labels(timeline.clientWidth))); dragged = event.clientX; return; }
  const [share, y] = place(event), at = view[0] + share * (view[1] - view[0]), track = tracks[Math.floor(y / ROW)];
  // Half a pixel more, so that short ones are found.
  const slack = (view[1] - view[0]) / timeline.clientWidth;
  const r = share < 0 ? undefined : records.find(r => r.track === track?.id && r.start - slack <= at && at <= r.end + slack);
  const tip = $("tip");
  tip.hidden = !r;
  if (!r) return;
  const rest = [r.of, time(r.end - r.start)];
  if (r.submitted) rest.push("began " + time(r.start - r.submitted) + " after its submission");
  if (r.kind === "kernel") rest.push(r.grid.join(" × ") + " blocks of " + r.block.join(" × ") + " threads");
  else if (r.bytes) rest.push(bytes(r.bytes));
  tip.replaceChildren(element("b", r.name || KINDS[r.kind] || r.kind), element("span", rest.join(", ")));
  const box = tip.getBoundingClientRect();
  tip.style.left = Math.max(4, Math.min(innerWidth - box.width - 8, event.clientX + 14)) + "px";
  tip.style.top = (event.clientY + 18 + box.height > innerHeight ? event.clientY - box.height - 10 : event.clientY + 18) + "px";
});
$("record").addEventListener("click", async () => {
  $("record").disabled = true;
  $("what").textContent = "recording";
  try { layout(await ask("/api/timeline", { ms: $("length").value })); } catch (error) { $("what").textContent = error.message; }
  $("record").disabled = false;
});

// Advice.
$("advise").addEventListener("click", async () => {
  $("advise").disabled = true;
  $("advice").textContent = "looking";
  try {
    const advices = await ask("/api/advice");
    $("advice").replaceChildren(...advices.map(advice => {
      const article = element("article"), list = element("ul"), [verdict, ...reasons] = advice.words;
      for (const words of reasons) list.append(element("li", words));
      article.append(element("h3", program(advice.command) + " (PID " + (advice.pid ?? "?") + ")"), element("p", verdict, "verdict"), list);
      return article;
    }));
    if (!advices.length) $("advice").textContent = "No program uses the daemon.";
  } catch (error) { $("advice").textContent = error.message; }
  $("advise").disabled = false;
});

// Live.
let last = 0;
function drawAll() {
  if (records.length) drawTimeline();
  for (const [uuid, points] of history) { const card = $("device-" + uuid); if (card) chart(card.querySelector("canvas"), points); }
}
const events = new EventSource(url("/events"));
events.onmessage = event => {
  const state = JSON.parse(event.data);
  document.body.classList.toggle("read-only", state.read_only);
  showClients(state.clients);
  showDevices(state.devices, state.clients);
  if (state.notes.length) say(state.notes.join("; "), "bad");
  else say(state.clients.length + " client" + (state.clients.length === 1 ? "" : "s"), "live");
  if (Date.now() - last > 2000) { last = Date.now(); showKernels(); }
};
events.onerror = () => say("the connection is lost; trying again", "bad");
addEventListener("resize", drawAll);
dark.addEventListener("change", drawAll);
