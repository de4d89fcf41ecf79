// Numbers, regions, alarms, and what state the stream is in.
function duration(value) {
  if (value < 1e-3) return `${formatNumber(value * 1e6, 2)} µs`;
  if (value < 1) return `${formatNumber(value * 1e3, 3)} ms`;
  return `${formatNumber(value, 3)} s`;
}
const perCent = (share) => `${share === 0 ? "0" : share < 0.001 ? "< 0.1" : formatNumber(100 * share, 3)} %`;
// Dates come as seconds since 1970; no simulation has come so far in picoseconds.
const timeText = (time) => (time > 1e8 && time < 1e11 ? new Date(1000 * time).toISOString().slice(0, 19).replace("T", " ") : formatNumber(time, 7));
const set = (id, text) => {
  const place = byId(id);
  if (place.textContent !== text) place.textContent = text;
};

function showNumbers() {
  set("records", formatNumber(head.records));
  set("rate", formatNumber(head.rate >= 10 ? Math.round(head.rate) : head.rate, 2));
  set("latency", head.latency ? duration(head.latency[0]) : "–");
  set("latency-name", head.latency ? `latency, worst ${duration(head.latency[1])}` : "latency");
  const all = head.records ? head.outside / head.records : 0;
  set("outside", perCent(head.outsideNow === null ? all : head.outsideNow));
  set("outside-name", `${outsideWords}, ${perCent(all)} of all`);
  set("rejected", formatNumber(head.rejected));
  set("rejected-name", head.rejected && head.problem ? `rejected: ${head.problem}` : "rejected");
  byId("rejected-name").title = head.problem;
  set("viewers", formatNumber(head.viewers));
  set("viewers-name", head.viewers === 1 ? "viewer" : "viewers");
}

function showNow() {
  const { current } = head;
  if (!current) return;
  set("now-aside", `record ${formatNumber(current.number)}`);
  const rows = [];
  if (current.time !== null) rows.push(["Time", timeText(current.time)]);
  if (!byId("regions-card").hidden) rows.push(["Region", current.region >= 0 ? regions[current.region].name : "none"]);
  rows.push(["To nearest landmark", current.distance === null ? "–" : `${formatNumber(current.distance, 3)} √ε${current.inside ? "" : `, ${outsideWords}`}`]);
  if (current.p !== null) rows.push(["p", formatNumber(current.p, 2)]);
  report.names.forEach((name, c) => rows.push([name, formatNumber(current.coordinates[c])]));
  const list = byId("now");
  if (list.children.length !== 2 * rows.length) {
    list.replaceChildren(...rows.flatMap(() => [element("dt"), element("dd")]));
  }
  rows.forEach(([name, text], i) => {
    if (list.children[2 * i].textContent !== name) list.children[2 * i].textContent = name;
    if (list.children[2 * i + 1].textContent !== text) list.children[2 * i + 1].textContent = text;
  });
}

function startRegions() {
  byId("regions-card").hidden = regions.every((region) => region.off);
  const entries = regions.map((region) => {
    const entry = element("li"), swatch = element("i");
    swatch.style.background = region.colour;
    entry.append(swatch, element("span", { class: "name" }, region.name), element("span", { class: "here" }, "now here"), element("span", { class: "share" }, "–"));
    return entry;
  });
  byId("regions").replaceChildren(...entries);
}

function showRegions() {
  const here = head.current ? head.current.region : -1;
  [...byId("regions").children].forEach((entry, i) => {
    entry.toggleAttribute("data-here", i === here);
    const text = head.records ? perCent(head.byRegion[i + 1] / head.records) : "–";
    if (entry.lastChild.textContent !== text) entry.lastChild.textContent = text;
  });
  if (here !== picture.here && !frozen) {
    picture.here = here;
    drawBack();
  }
}

const promised = offMap && offMap.rate ? `at most one in ${formatNumber(Math.round(1 / offMap.rate))} records like the training data` : "";

function startAlarms() {
  byId("alarms-card").hidden = !regions.length;
  set("alarms-aside", promised);
}

const MARKS = { enter: ["▶", "entered"], leave: ["◁", "left"], dwell: ["■", "still in"] };
const because = (why) => Object.entries(why || {}).map(([name, share]) => `${name} ${formatNumber(100 * share, 2)} %`).join(", ");

// An event off the map is one entry, which is written again when it ends.
function alarmEntry(event, list) {
  const key = `${event.region} ${event.began}`;
  let entry = [...list.children].find((child) => child.dataset.key === key);
  if (!entry) {
    entry = element("li");
    entry.dataset.key = key;
    entry.dataset.at = event.at;
    list.prepend(entry);
  }
  const over = event.kind === "leave";
  entry.className = over ? "alarm over" : "alarm";
  const clock = new Date(1000 * Number(entry.dataset.at)).toLocaleTimeString([], { hour12: false });
  const where = over ? `record ${formatNumber(event.began)} to ${formatNumber(event.number)}` : `since record ${formatNumber(event.began)}`;
  const details = [where, `${over ? "peak" : "began at"} ${formatNumber(event.peak, 3)} √ε`];
  if (event.p !== null) details.push(`p ${formatNumber(event.p, 2)}`);
  if (event.began_time !== null) details.push(timeText(event.began_time));
  entry.replaceChildren(
    element("span", { class: "mark", "aria-hidden": "true" }, over ? "△" : "▲"),
    element("span", { class: "what" }, event.region + (over ? "" : ", still on")),
    element("span", { class: "clock" }, clock),
    element("span", { class: "more" }, details.join(" · ")),
  );
  const why = because(event.why);
  if (why) entry.append(element("span", { class: "more why" }, why));
  return entry;
}

function addAlarms(events) {
  const fresh = events.filter((event) => event.id > seen.alarm);
  if (!fresh.length) return;
  const first = seen.alarm < 0;
  seen.alarm = fresh[fresh.length - 1].id;
  const list = byId("alarms");
  for (const event of fresh.slice(-ALARMS)) {
    const region = regions.find(({ name }) => name === event.region);
    const [mark, verb] = MARKS[event.kind] || ["•", event.kind];
    const isAlarm = event.began !== undefined && event.kind !== "dwell";
    const entry = isAlarm ? alarmEntry(event, list) : element("li", { class: event.kind });
    if (region && !isAlarm) entry.style.setProperty("--region", region.colour);
    if (!first && event.kind === "enter") {
      entry.classList.add("fresh");
      setTimeout(() => entry.classList.remove("fresh"), FRESH);
    }
    if (isAlarm) continue;
    const clock = new Date(1000 * event.at).toLocaleTimeString([], { hour12: false });
    const details = [`record ${formatNumber(event.number)}`];
    if (event.time !== null) details.push(`time ${timeText(event.time)}`);
    if (event.duration) details.push(`after ${formatNumber(event.duration)} record${event.duration === 1 ? "" : "s"}`);
    entry.append(
      element("span", { class: "mark", "aria-hidden": "true" }, mark),
      element("span", { class: "what" }, `${verb} ${event.region}`),
      element("span", { class: "clock" }, clock),
      element("span", { class: "more" }, details.join(" · ")),
    );
    list.prepend(entry);
  }
  while (list.children.length > ALARMS) list.lastChild.remove();
  set("alarms-aside", promised);
  if (first) return;
  const entered = fresh.filter((event) => event.kind === "enter");
  seen.waiting.push(...entered);
  if (document.hidden && entered.length) {
    seen.unread += entered.length;
    document.title = `(${seen.unread}) ${report.title}`;
  }
}

// For those who listen: what was entered, at most every six seconds.
function announce(now) {
  if (!seen.waiting.length || now - seen.said < 6000) return;
  const last = seen.waiting[seen.waiting.length - 1], more = seen.waiting.length - 1;
  seen.waiting = [];
  seen.said = now;
  set("announce", `Entered ${last.region} at record ${formatNumber(last.number)}.${more ? ` ${more} more since the last message.` : ""}`);
}

function showStatus() {
  const place = byId("status"), state = document.documentElement.dataset.connection;
  const stream = head ? head.status : "waiting";
  let kind = "live", words = "Live";
  if (state !== "open") [kind, words] = ["trouble", connection.words];
  else if (stream === "failed") [kind, words] = ["trouble", `Stream stopped: ${head.problem}`];
  else if (stream === "ended") [kind, words] = ["ended", "Stream ended"];
  else if (stream === "waiting") [kind, words] = ["waiting", "Waiting for records"];
  else if (head.alarm) [kind, words] = ["alarm", `Alarm since record ${formatNumber(head.alarm.began)}: ${because(head.alarm.why) || "off the map"}`];
  if (frozen && state === "open") [kind, words] = ["paused", `Paused (${words.toLowerCase()})`];
  if (place.textContent !== words) place.textContent = words;
  place.dataset.kind = kind;
}

// -- the last two minutes -------------------------------------------------------------

function addSeconds() {
  if (head.seconds) {
    seconds.values = head.seconds;
    seconds.count = head.second[0];
  } else if (head.second[0] !== seconds.count) {
    seconds.count = head.second[0];
    seconds.values.push(head.second.slice(1));
    seconds.values = seconds.values.slice(-120);
  } else return;
  const rates = seconds.values.map((entry) => entry[0]), shares = seconds.values.map((entry) => entry[1]);
  const most = Math.max(1e-9, ...rates), worst = Math.max(0, ...shares);
  spark("rate-chart", rates, most);
  spark("outside-chart", shares, Math.max(worst, 0.01));
  byId("rate-chart").setAttribute("aria-label", `Records a second over the last two minutes, at most ${formatNumber(Math.round(most))}`);
  byId("outside-chart").setAttribute("aria-label", `Share outside the map over the last two minutes, at most ${perCent(worst)}`);
}

function spark(id, values, top) {
  const at = values.map((value, i) => `${(240 - 2 * (values.length - 1 - i)).toFixed(1)},${(43 - (40 * value) / top).toFixed(1)}`);
  const path = (kind, d) => {
    const made = document.createElementNS("http://www.w3.org/2000/svg", "path");
    made.setAttribute("d", d);
    if (kind) made.setAttribute("class", kind);
    return made;
  };
  if (at.length < 2) return;
  const first = (240 - 2 * (values.length - 1)).toFixed(1);
  byId(id).replaceChildren(path("area", `M${first},44L${at.join("L")}L240,44Z`), path("", `M${at.join("L")}`));
}

