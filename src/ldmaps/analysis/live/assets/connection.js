// The connection: greeting, the map, frames; and what to do when it breaks.
const byId = (id) => document.getElementById(id);
const SOON = 500, LATEST = 15000, SILENT = 6000;
const WRONG_TOKEN = 4401, TOO_MANY = 1013, RESTARTING = 1012;

const connection = {
  socket: null,
  page: null, // what startMap returned
  mapId: null,
  token: keptToken(),
  attempts: 0,
  heard: 0,
  timer: 0,
  retryAt: 0,
  words: "Connecting",
};

// The token stands in the address' fragment, which is never sent; it is moved out of sight and out of bookmarks.
function keptToken() {
  const given = new URLSearchParams(location.hash.slice(1)).get("token");
  if (given) {
    sessionStorage.setItem("ldmaps-token", given);
    history.replaceState(null, "", location.pathname + location.search);
  }
  return given || sessionStorage.getItem("ldmaps-token") || "";
}

function setConnection(kind, words) {
  document.documentElement.dataset.connection = kind;
  connection.words = words;
  byId("retry").hidden = kind !== "closed";
  if (connection.page) connection.page.showStatus();
  else {
    byId("status").textContent = words;
    byId("status").dataset.kind = kind === "open" ? "" : kind === "closed" ? "trouble" : "waiting";
  }
}

function connect() {
  clearTimeout(connection.timer);
  if (connection.socket) {
    connection.socket.onclose = null;
    connection.socket.close();
  }
  if (document.documentElement.dataset.connection !== "closed") setConnection("opening", "Connecting");
  const socket = new WebSocket(`${location.protocol === "https:" ? "wss" : "ws"}://${location.host}/stream`);
  connection.socket = socket;
  connection.heard = performance.now();
  socket.binaryType = "arraybuffer";
  socket.onopen = () => socket.send(JSON.stringify({ token: connection.token, have: connection.mapId }));
  socket.onmessage = (event) => {
    connection.heard = performance.now();
    if (typeof event.data === "string") takeMap(event.data);
    else takeFrame(event.data);
  };
  socket.onclose = (event) => closed(event.code);
}

function takeMap(text) {
  const { id, title, subtitle, version } = JSON.parse(text);
  byId("token-form").hidden = true;
  if (id === "same") return;
  if (connection.mapId && connection.mapId !== id) {
    location.reload(); // another map is served here now
    return;
  }
  connection.mapId = id;
  byId("report-data").textContent = text;
  byId("title").textContent = document.title = title;
  byId("subtitle").textContent = subtitle;
  byId("version").textContent = version;
  document.body.classList.remove("empty");
  connection.page = startMap();
}

function takeFrame(buffer) {
  const length = new DataView(buffer).getUint32(0, true);
  const head = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 4, length)));
  const rows = new Float32Array(buffer, 4 + length);
  connection.attempts = 0;
  if (document.documentElement.dataset.connection !== "open") setConnection("open", "");
  connection.page.take(head, rows);
}

function closed(code) {
  connection.socket = null;
  if (code === WRONG_TOKEN) {
    askForToken();
    return;
  }
  const wait = Math.min(LATEST, SOON * 2 ** connection.attempts++);
  // Spread, so that all viewers of a restarted server do not come at once.
  const delay = Math.max(code === TOO_MANY ? 5000 : 0, wait * (0.75 + 0.5 * Math.random()));
  connection.retryAt = performance.now() + delay;
  connection.timer = setTimeout(connect, delay);
  const why = code === TOO_MANY ? "Too many viewers" : code === RESTARTING ? "Disconnected: the server has stopped" : "Disconnected";
  setConnection("closed", `${why}; trying again`);
}

function askForToken() {
  const tried = connection.token !== "";
  connection.token = "";
  sessionStorage.removeItem("ldmaps-token");
  byId("token-problem").textContent = tried ? "That is not the token." : "";
  byId("token-form").hidden = false;
  byId("token").value = "";
  byId("token").focus();
  setConnection("refused", "A token is needed");
  document.documentElement.dataset.firstDraw = performance.now().toFixed(0);
}

byId("token-form").addEventListener("submit", (event) => {
  event.preventDefault();
  connection.token = byId("token").value.trim();
  sessionStorage.setItem("ldmaps-token", connection.token);
  connect();
});
byId("retry").addEventListener("click", connect);
const waiting = () => document.documentElement.dataset.connection === "closed";
window.addEventListener("online", () => waiting() && connect());
document.addEventListener("visibilitychange", () => !document.hidden && waiting() && connect());
// The server says something every second: silence means a connection that nobody closed.
setInterval(() => {
  if (connection.socket && performance.now() - connection.heard > SILENT) {
    const dead = connection.socket;
    dead.onclose = null;
    dead.close();
    closed(1006);
  }
}, 1000);

// Light or dark, before there is a map.
function setTheme(dark) {
  document.documentElement.dataset.theme = dark ? "dark" : "light";
  byId("theme").setAttribute("aria-pressed", String(dark));
  byId("theme").textContent = dark ? "Light" : "Dark";
  if (connection.page) connection.page.redraw();
}
setTheme(window.matchMedia("(prefers-color-scheme: dark)").matches);
byId("theme").addEventListener("click", () => setTheme(document.documentElement.dataset.theme !== "dark"));
