// Controls, and what happens when something is chosen.
const byId = (id) => document.getElementById(id);

function fillSelect(select, entries, chosen) {
  select.replaceChildren(...entries.map((text, i) => element("option", { value: i }, text)));
  select.value = String(chosen);
}

function isDark() {
  return document.documentElement.dataset.theme === "dark";
}

function setTheme(dark) {
  document.documentElement.dataset.theme = dark ? "dark" : "light";
  byId("theme").setAttribute("aria-pressed", String(dark));
  byId("theme").textContent = dark ? "Light" : "Dark";
  if (scatter.colour) prepareColours();
}

// Words first: their height decides how much room the pictures have.
function drawAll() {
  scatterLegend();
  energyLegend();
  drawScatter();
  drawEnergy();
  drawStructure();
  drawnSize = sizeNow();
}

let drawnSize = "";

function sizeNow() {
  const boxes = ["scatter-plot", "energy-plot", "structure-plot"].map((id) => byId(id).getBoundingClientRect());
  return boxes.map((box) => `${Math.round(box.width)} ${Math.round(box.height)}`).join(", ");
}

function scatterLegend() {
  const legend = byId("scatter-legend"), { colours, colour } = scatter;
  const parts = [];
  const label = colour.key === "density" ? "Free energy" : colour.label;
  if (colours.kind === "scale") {
    const bar = colourBar(colours.table, colours.ends[0], colours.ends[1], label);
    if (colour.key === "density") bar.append(kbt());
    else if (colour.unit) bar.append(element("span", {}, colour.unit));
    parts.push(bar);
  }
  if (colours.kind === "categories") {
    parts.push(element("span", {}, label));
    colours.categories.forEach((value, i) => {
      const swatch = element("span", { class: "swatch" });
      const dot = element("i");
      dot.style.background = `rgb(${colours.table.subarray(3 * i, 3 * i + 3).join(" ")})`;
      swatch.append(dot, element("span", {}, categoryText(colour, value)));
      parts.push(swatch);
    });
    if (colours.missing.includes(1)) {
      const swatch = element("span", { class: "swatch" }), dot = element("i");
      dot.style.background = theme().missing;
      swatch.append(dot, element("span", {}, colour.key === "basin" ? "between" : "no value"));
      parts.push(swatch);
    }
  }
  if (scatter.showLandmarks && landmarks.n) parts.push(sizeLegend());
  legend.replaceChildren(...parts);
}

function categoryText(source, value) {
  if (!source.texts?.length) return formatNumber(value);
  return (source.key === "file" ? fileLabels : source.texts)[value] ?? "–";
}

// Files without the folders they all share: of replicas in folders of their own, the names are often the same.
const fileLabels = (() => {
  const paths = report.files.map((name) => name.split(/[\\/]/));
  let shared = 0;
  while (paths.length && paths.every((path) => shared < path.length - 1 && path[shared] === paths[0][shared])) shared++;
  return paths.map((path) => path.slice(shared).join("/"));
})();

// Two circles that tell what a landmark's size means.
function sizeLegend() {
  const whole = element("span", { class: "swatch" });
  const least = landmarks.multiplicity[landmarks.n - 1], most = landmarks.largest;
  const shown = most > least ? [[landmarks.n - 1, least], [0, most]] : [[0, most]];
  for (const [i, value] of shown) {
    const r = landmarkRadius(i), size = 2 * r + 3;
    const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
    svg.setAttribute("width", size);
    svg.setAttribute("height", size);
    svg.setAttribute("aria-hidden", "true");
    const circle = document.createElementNS("http://www.w3.org/2000/svg", "circle");
    for (const [key, number] of [["cx", size / 2], ["cy", size / 2], ["r", r]]) circle.setAttribute(key, number);
    circle.setAttribute("fill", "none");
    circle.setAttribute("stroke", "currentColor");
    svg.append(circle);
    whole.append(svg, element("span", {}, formatNumber(value)));
  }
  whole.append(element("span", {}, `${report.kind}${most === 1 ? "" : "s"} a landmark stands for`));
  return whole;
}

// -- words about a point or a landmark ------------------------------------------

function pointRows(i) {
  const rows = [];
  for (const field of points.fields) {
    if (field.key !== "frame" && field.key !== "time") continue;
    rows.push([field.label, formatNumber(field.values[i], 7) + (field.unit ? ` ${field.unit}` : "")]);
  }
  if (points.fileOf) rows.push(["File", report.files[points.fileOf[i]]]);
  report.names.slice(0, 4).forEach((name, k) => rows.push([name, formatNumber(points.coordinates[k][i])]));
  for (const field of points.fields) {
    if (field.key === "distance") rows.push(["To nearest landmark", `${formatNumber(field.values[i], 3)} √ε`]);
    if (field.key === "error") rows.push(["Estimated ζ", `${formatNumber(field.values[i], 3)} %`]);
  }
  const source = scatter.colour;
  if (source.key === "column" || source.key === "basin") rows.push([source.label, categoryText(source, source.values[i])]);
  if (source.key === "density") rows.push(["Free energy", `${formatNumber(scatter.colours.values[i], 3)} kT`]);
  return rows;
}

function landmarkRows(i) {
  const rows = [];
  if (landmarks.frame && isFinite(landmarks.frame[i])) rows.push([report.kind === "point" ? "Row" : "Frame", formatNumber(landmarks.frame[i])]);
  if (landmarks.time && isFinite(landmarks.time[i])) rows.push([report.timeLabel, `${formatNumber(landmarks.time[i], 7)} ${report.timeUnit}`]);
  rows.push(["Stands for", `${formatNumber(landmarks.multiplicity[i])} ${report.kind}${landmarks.multiplicity[i] === 1 ? "" : "s"}`]);
  report.names.slice(0, 6).forEach((name, k) => rows.push([name, formatNumber(landmarks.coordinates[k][i])]));
  for (const field of landmarks.features) rows.push([field.label, formatNumber(field.values[i])]);
  return rows;
}

function showTip(found) {
  const tip = byId("tip");
  if (!found) {
    tip.hidden = true;
    return;
  }
  const rows = found.landmark ? landmarkRows(found.i) : pointRows(found.i);
  const lines = rows.map(([name, text]) => element("div", {}, `${name} ${text}`));
  if (found.landmark) lines.unshift(element("b", {}, `Landmark ${landmarks.number[found.i]}`));
  tip.replaceChildren(...lines);
  tip.hidden = false;
  const { width } = scatter.over.getBoundingClientRect();
  const right = found.px > width - tip.offsetWidth - 24;
  tip.style.left = `${right ? Math.max(0, found.px - tip.offsetWidth - 14) : found.px + 14}px`;
  tip.style.top = `${Math.max(0, found.py - tip.offsetHeight / 2)}px`;
}

function select(i) {
  if (i < 0 || i >= landmarks.n) return;
  describe(i);
  drawScatterOver();
  drawEnergy();
  drawStructure();
}

function describe(i) {
  scatter.selected = energyPlot.selected = viewer.landmark = i;
  byId("landmark-number").value = landmarks.number[i];
  byId("structure-heading").textContent = `Landmark ${landmarks.number[i]}`;
  const details = byId("landmark-details");
  details.replaceChildren(...landmarkRows(i).flatMap(([name, text]) => [element("dt", {}, name), element("dd", {}, text)]));
}

// -- pointer and keys -----------------------------------------------------------

function startPointer() {
  const canvas = scatter.over;
  const at = (event) => {
    const box = canvas.getBoundingClientRect();
    return [event.clientX - box.left, event.clientY - box.top];
  };
  let start = null, waiting = false;
  const pinched = watchPinch(canvas, () => {
    const { frame, view: [x0, x1, y0, y1] } = scatter;
    showTip(null);
    // What was between the fingers stays there.
    return (scale, from, to) => {
      const factor = 1 / Math.min(scale, (x1 - x0) / (1e-6 * (scatter.home[1] - scatter.home[0])));
      const u = x0 + ((from[0] - frame.left) / frame.width) * (x1 - x0);
      const v = y1 - ((from[1] - frame.top) / frame.height) * (y1 - y0);
      const left = u - ((to[0] - frame.left) / frame.width) * (x1 - x0) * factor;
      const top = v + ((to[1] - frame.top) / frame.height) * (y1 - y0) * factor;
      setView([left, left + (x1 - x0) * factor, top - (y1 - y0) * factor, top]);
    };
  });
  canvas.addEventListener("pointerdown", (event) => {
    start = pinched() ? null : at(event);
    if (event.pointerType === "mouse") canvas.setPointerCapture(event.pointerId);
  });
  canvas.addEventListener("pointermove", (event) => {
    const [x, y] = at(event);
    if (waiting || (event.pointerType === "touch" && pinched())) return;
    waiting = true;
    requestAnimationFrame(() => {
      waiting = false;
      if (event.pointerType === "touch" && pinched()) return;
      const dragged = start && event.pointerType === "mouse" && Math.hypot(x - start[0], y - start[1]) > 6;
      scatter.box = dragged ? [...start, x, y] : null;
      scatter.hover = dragged ? null : under(x, y);
      drawScatterOver();
      showTip(scatter.hover);
    });
  });
  canvas.addEventListener("pointerup", (event) => {
    const [x, y] = at(event);
    const from = start;
    start = scatter.box = null;
    if (!from || (event.pointerType === "touch" && pinched())) return;
    if (event.pointerType === "mouse" && Math.hypot(x - from[0], y - from[1]) > 6) {
      zoomToBox(from, [x, y]);
      return;
    }
    let chosen = landmarkUnder(x, y, 8);
    if (chosen < 0) {
      const found = under(x, y);
      if (found && points.nearest && points.nearest[found.i] < landmarks.n) chosen = points.nearest[found.i];
    }
    if (chosen < 0) chosen = landmarkUnder(x, y, 30);
    select(chosen);
    if (event.pointerType !== "mouse") {
      scatter.hover = under(x, y);
      drawScatterOver();
      showTip(scatter.hover);
    }
  });
  canvas.addEventListener("pointercancel", () => (start = scatter.box = null));
  canvas.addEventListener("pointerleave", () => {
    scatter.hover = null;
    drawScatterOver();
    showTip(null);
  });
  canvas.addEventListener("dblclick", () => setView(scatter.home));
  canvas.addEventListener("keydown", (event) => {
    const moves = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
    if (moves[event.key]) {
      select(neighbourLandmark(...moves[event.key]));
      const [px, py] = landmarkPlace(scatter.selected);
      showTip({ i: scatter.selected, px, py, landmark: true });
    } else if (event.key === "+" || event.key === "=") zoomBy(0.8);
    else if (event.key === "-") zoomBy(1.25);
    else if (event.key === "0") setView(scatter.home);
    else if (event.key === "Escape") showTip(null);
    else return;
    event.preventDefault();
  });
  canvas.addEventListener("blur", () => showTip(null));
  energyPlot.canvas.addEventListener("click", (event) => {
    const box = energyPlot.canvas.getBoundingClientRect();
    select(landmarkAtEnergy(event.clientX - box.left, event.clientY - box.top));
  });
}

function zoomToBox(from, to) {
  const { frame, view } = scatter;
  const u = [from[0], to[0]].map((x) => view[0] + ((x - frame.left) / frame.width) * (view[1] - view[0])).sort((a, b) => a - b);
  const v = [from[1], to[1]].map((y) => view[3] - ((y - frame.top) / frame.height) * (view[3] - view[2])).sort((a, b) => a - b);
  if (u[1] > u[0] && v[1] > v[0]) setView([...u, ...v]);
}

function startControls() {
  const sources = colourSources();
  scatter.axes = scatterAxes();
  const k = report.names.length;
  if (k === 1) {
    // One coordinate: against time or frame, if there is either.
    scatter.x = scatter.axes.length > 1 ? scatter.axes.length - 1 : 0;
    scatter.y = 0;
  }
  scatter.colour = sources[0];
  const labels = scatter.axes.map((axis) => axis.label);
  fillSelect(byId("x-axis"), labels, scatter.x);
  fillSelect(byId("y-axis"), labels, scatter.y);
  fillSelect(byId("colour"), sources.map((source) => withUnit(source.label, source.unit.replace("k_BT", "kT"))), 0);
  const names = Object.keys(palettes);
  fillSelect(byId("palette"), names.map((name) => name[0].toUpperCase() + name.slice(1)), 0);
  for (const which of ["x", "y"]) {
    byId(`${which}-axis`).addEventListener("change", (event) => {
      scatter[which] = Number(event.target.value);
      followAxes();
    });
  }
  byId("colour").addEventListener("change", (event) => {
    scatter.colour = sources[Number(event.target.value)];
    prepareColours();
    drawScatter();
    scatterLegend();
  });
  byId("palette").addEventListener("change", (event) => {
    scatter.palette = energyPlot.palette = names[Number(event.target.value)];
    prepareColours();
    drawAll();
  });
  if (points.fileOf && report.files.length > 1) {
    byId("file-choice").hidden = false;
    fillSelect(byId("file"), ["all files", ...fileLabels], 0);
    byId("file").addEventListener("change", (event) => {
      scatter.file = Number(event.target.value) - 1;
      drawScatter();
    });
  }
  const check = byId("landmarks");
  // An exact map has a landmark per point: circles on everything say nothing.
  if (landmarks.all > 5000 || (points.n > 0 && landmarks.n >= points.n)) check.checked = false;
  scatter.showLandmarks = check.checked;
  check.addEventListener("change", () => {
    scatter.showLandmarks = check.checked;
    drawScatter();
    scatterLegend();
  });
  byId("reset").addEventListener("click", () => setView(scatter.home));
  byId("zoom-in").addEventListener("click", () => zoomBy(0.7));
  byId("zoom-out").addEventListener("click", () => zoomBy(1 / 0.7));
  scatter.onView = () => {
    byId("reset").disabled = scatter.view.every((value, i) => value === scatter.home[i]);
    scatter.over.dataset.view = scatter.view.join(" ");
  };
  byId("previous").addEventListener("click", () => select((scatter.selected - 1 + landmarks.n) % landmarks.n));
  byId("next").addEventListener("click", () => select((scatter.selected + 1) % landmarks.n));
  byId("landmark-number").setAttribute("max", landmarks.all - 1);
  byId("landmark-number").addEventListener("change", (event) => {
    const place = landmarks.number.indexOf(Number(event.target.value));
    if (place >= 0) select(place);
    else event.target.value = landmarks.number[scatter.selected];
  });
  byId("theme").addEventListener("click", () => {
    setTheme(!isDark());
    drawAll();
  });
}

// The free energy follows the map's axes where both are coordinates.
function followAxes() {
  const [a, b] = [scatter.axes[scatter.x].coordinate, scatter.axes[scatter.y].coordinate];
  if (a >= 0 && b >= 0 && energyOf(a, b)) {
    energyPlot.x = a;
    energyPlot.y = b;
  }
  byId("energy-axes").textContent = energies.length ? `over ${report.names[energyPlot.x]} and ${report.names[energyPlot.y]}` : "";
  scatter.home = homeView();
  scatter.view = scatter.home;
  scatter.onView();
  if (!scatter.colours || scatter.colour.key === "density") prepareColours();
  drawAll();
}

// Sizes on paper in CSS pixels: a page's width is not known before it is printed, but they are all about the same.
const PAPER = {
  scatter: { width: 680, height: 302 },
  "scatter-over": { width: 680, height: 302 },
  energy: { width: 320, height: 214 },
  structure: { width: 320, height: 214 },
};

function startPrinting() {
  let dark = false;
  const before = () => {
    dark = isDark();
    if (dark) setTheme(false);
    fitted.ratio = 3;
    fitted.paper = PAPER;
    showTip(null);
    drawAll();
  };
  const after = () => {
    fitted.ratio = 0;
    fitted.paper = null;
    if (dark) setTheme(true);
    drawAll();
  };
  window.addEventListener("beforeprint", before);
  window.addEventListener("afterprint", after);
}

function start() {
  setTheme(window.matchMedia("(prefers-color-scheme: dark)").matches);
  startControls();
  startViewer();
  startPointer();
  startPrinting();
  startExports();
  if (!energies.length) byId("energy").closest(".card").hidden = true;
  if (landmarks.n) describe(0);
  followAxes();
  document.documentElement.dataset.firstDraw = performance.now().toFixed(0);
  new ResizeObserver(() => {
    if (sizeNow() !== drawnSize) requestAnimationFrame(drawAll);
  }).observe(byId("scatter-plot"));
}

start();
