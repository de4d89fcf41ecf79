// The map: points splatted into an image pixel by pixel, landmarks and axes drawn over them.
const scatter = {
  canvas: document.getElementById("scatter"),
  over: document.getElementById("scatter-over"),
  axes: [],
  x: 0,
  y: 1,
  colour: null,
  palette: "viridis",
  file: -1,
  showLandmarks: true,
  view: null,
  home: null,
  hover: null,
  selected: -1,
  onSelect: () => {},
  onView: () => {},
};

const CATEGORY_LIMIT = 8;
const FEW_LANDMARKS = 40;

// What an axis can be: a coordinate of the map, or where a point is in time.
function scatterAxes() {
  const axes = report.names.map((name, i) => ({
    label: name,
    coordinate: i,
    values: points.coordinates[i],
    landmarkValues: landmarks.coordinates[i],
  }));
  for (const field of points.fields) {
    const own = field.key === "frame" ? landmarks.frame : field.key === "time" ? landmarks.time : null;
    if (own) axes.push({ label: withUnit(field.label, field.unit), coordinate: -1, values: field.values, landmarkValues: own });
  }
  return axes;
}

function withUnit(label, unit) {
  return unit ? `${label} (${unit})` : label;
}

// A fixed shuffle: drawn in order of time, late points would hide early ones.
function shuffled(n) {
  const order = new Uint32Array(n);
  for (let i = 0; i < n; i++) order[i] = i;
  let state = 12345;
  for (let i = n - 1; i > 0; i--) {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    const j = Math.floor((state / 4294967296) * (i + 1));
    const kept = order[i];
    order[i] = order[j];
    order[j] = kept;
  }
  return order;
}
const drawOrder = shuffled(points.n);

function extent(values, more) {
  let low = Infinity, high = -Infinity;
  for (const array of [values, more]) {
    if (!array) continue;
    for (let i = 0; i < array.length; i++) {
      const value = array[i];
      if (value < low) low = value;
      if (value > high) high = value;
    }
  }
  if (!(high > low)) {
    if (!isFinite(low)) return [0, 1];
    const width = Math.abs(low) || 1;
    return [low - 0.5 * width, low + 0.5 * width];
  }
  const margin = 0.04 * (high - low);
  return [low - margin, high + margin];
}

function homeView() {
  const [ax, ay] = [scatter.axes[scatter.x], scatter.axes[scatter.y]];
  return [...extent(ax.values, ax.landmarkValues), ...extent(ay.values, ay.landmarkValues)];
}

// -- colour ------------------------------------------------------------------

function colourSources() {
  const named = (key) => points.fields.filter((field) => field.key === key);
  const origin = [...named("time"), ...named("frame")];
  const density = energies.length && points.n ? [{ key: "density", label: "Density as −ln p", unit: "k_BT" }] : [];
  const quality = [...named("basin"), ...named("distance"), ...named("error"), ...named("file")];
  const plain = { key: "none", label: "One colour", unit: "" };
  // The first is shown first: what its owner brought along, basins that are crisp, of a trajectory its time.
  const covered = named("column").filter((field) => field.label === "inside"); // of ldmaps embed: hardly ever both
  const own = named("column").filter((field) => !covered.includes(field)), opens = own.length ? [] : named(report.opensWith);
  const rest = report.kind === "frame" ? [...origin, ...density, ...quality] : [...density, ...quality, ...origin];
  return [...own, ...opens, ...rest.filter((field) => !opens.includes(field)), ...covered, plain];
}

function densityValues() {
  const [a, b] = [scatter.axes[scatter.x].coordinate, scatter.axes[scatter.y].coordinate];
  const surface = energyOf(a, b) || energies[0];
  const [p, q] = surface.pair;
  const values = new Float32Array(points.n);
  for (let i = 0; i < points.n; i++) values[i] = energyAt(surface, points.coordinates[p][i], points.coordinates[q][i]);
  return values;
}

function quantiles(values, low, high) {
  const step = Math.max(1, Math.floor(values.length / 20000));
  const sample = [];
  for (let i = 0; i < values.length; i += step) if (isFinite(values[i])) sample.push(values[i]);
  if (!sample.length) return [0, 1];
  sample.sort((a, b) => a - b);
  const at = (share) => sample[Math.min(sample.length - 1, Math.round(share * (sample.length - 1)))];
  return [at(low), at(high)];
}

// Whether a point's file is shown.
const isShown = (i) => scatter.file < 0 || points.fileOf[i] === scatter.file;

// A palette's darkest third would vanish in the dark.
function paletteTable(name) {
  if (!isDark()) return palettes[name];
  const table = new Uint8Array(3 * 256);
  for (let i = 0; i < 256; i++) {
    const c = 3 * Math.round(85 + (170 / 255) * i);
    table.set(palettes[name].subarray(c, c + 3), 3 * i);
  }
  return table;
}

// Colours to tell apart; more categories than there are such colours share out the palette.
function categoryTable(count) {
  const table = new Uint8Array(3 * 256), scale = paletteTable(scatter.palette);
  for (let i = 0; i < count; i++) {
    const c = 3 * Math.round((255 * i) / Math.max(1, count - 1));
    table.set(count <= report.categories.length ? rgb(report.categories[i]) : scale.subarray(c, c + 3), 3 * i);
  }
  return table;
}

function categoriesOf(values) {
  const found = new Set();
  for (let i = 0; i < values.length; i++) {
    if (values[i] !== values[i]) continue;
    if (!Number.isInteger(values[i])) return null;
    found.add(values[i]);
    if (found.size > CATEGORY_LIMIT) return null;
  }
  return found.size ? [...found].sort((a, b) => a - b) : null;
}

// Index 0..255 into the table of each point, and what the legend needs.
function prepareColours() {
  const source = scatter.colour;
  const n = points.n;
  const index = new Uint8Array(n);
  const missing = new Uint8Array(n);
  if (source.key === "none") {
    scatter.colours = { index, missing, table: null, kind: "none" };
    return;
  }
  const values = source.key === "density" ? densityValues() : source.values;
  const categories = source.texts?.length ? source.texts.map((_, i) => i) : source.key === "column" ? categoriesOf(values) : null;
  if (categories) {
    const table = categoryTable(categories.length);
    for (let i = 0; i < n; i++) {
      const place = categories.indexOf(values[i]);
      if (place < 0) missing[i] = 1;
      else index[i] = place;
    }
    scatter.colours = { index, missing, table, kind: "categories", categories, values };
    return;
  }
  const isOrder = source.key === "time" || source.key === "frame";
  let [low, high] = isOrder ? quantiles(values, 0, 1) : quantiles(values, 0.01, 0.99);
  const [least, most] = quantiles(values, 0, 1);
  if (source.key === "distance" || source.key === "error" || source.key === "density") low = Math.min(low, 0);
  if (!(high > low)) high = low + (Math.abs(low) || 1);
  const factor = 255 / (high - low);
  for (let i = 0; i < n; i++) {
    const place = (values[i] - low) * factor;
    if (place !== place) missing[i] = 1;
    else index[i] = place < 0 ? 0 : place > 255 ? 255 : place;
  }
  const ends = [(low > least ? "≤ " : "") + formatNumber(low, 3), (high < most ? "≥ " : "") + formatNumber(high, 3)];
  scatter.colours = { index, missing, table: paletteTable(scatter.palette), kind: "scale", ends, values };
}

// -- drawing -----------------------------------------------------------------

// Points grow as fewer of them are in view, within what still looks like a point.
function pointRadius(ratio) {
  const home = scatter.home, view = scatter.view;
  const zoom = Math.sqrt(((home[1] - home[0]) * (home[3] - home[2])) / ((view[1] - view[0]) * (view[3] - view[2])));
  const base = 62 / Math.sqrt(Math.max(points.n, 1)) + 0.95;
  return Math.max(1, Math.min(3.4, base) * Math.min(2.2, Math.sqrt(zoom)) * ratio);
}

function disc(radius) {
  const reach = Math.ceil(radius + 0.5), offsets = [], strengths = [];
  for (let dy = -reach; dy <= reach; dy++) {
    for (let dx = -reach; dx <= reach; dx++) {
      const inside = radius + 0.5 - Math.hypot(dx, dy);
      if (inside > 0) {
        offsets.push([dx, dy]);
        strengths.push(Math.min(1, inside));
      }
    }
  }
  return { reach, offsets, strengths };
}

function splat(context, frame, ratio, colours) {
  const w = Math.round(frame.width * ratio), h = Math.round(frame.height * ratio);
  const image = context.createImageData(w, h);
  const data = image.data;
  const back = rgb(colours.card);
  new Uint32Array(data.buffer).fill((255 << 24) | (back[2] << 16) | (back[1] << 8) | back[0]);
  const radius = pointRadius(ratio);
  const { reach, offsets, strengths } = disc(radius);
  const opacity = points.n > 30000 ? 0.62 : points.n > 5000 ? 0.72 : 0.85;
  const jumps = offsets.map(([dx, dy]) => 4 * (dy * w + dx));
  const alphas = strengths.map((value) => Math.round(256 * opacity * value));
  const { index, missing, table, kind } = scatter.colours;
  const plain = rgb(colours.accent), grey = rgb(colours.missing);
  const view = scatter.view;
  const ax = scatter.axes[scatter.x].values, ay = scatter.axes[scatter.y].values;
  const sx = w / (view[1] - view[0]), sy = h / (view[3] - view[2]);
  const m = jumps.length;
  for (let o = 0; o < points.n; o++) {
    const i = drawOrder[o];
    if (!isShown(i)) continue;
    const px = Math.round((ax[i] - view[0]) * sx), py = Math.round((view[3] - ay[i]) * sy);
    // Discs that the edge would cut are left out: the view has a margin.
    if (!(px >= reach && py >= reach && px < w - reach && py < h - reach)) continue;
    let r, g, b;
    if (missing[i]) [r, g, b] = grey;
    else if (kind === "none") [r, g, b] = plain;
    else {
      const c = 3 * index[i];
      r = table[c];
      g = table[c + 1];
      b = table[c + 2];
    }
    const at = 4 * (py * w + px);
    for (let j = 0; j < m; j++) {
      const k = at + jumps[j], a = alphas[j];
      data[k] += ((r - data[k]) * a) >> 8;
      data[k + 1] += ((g - data[k + 1]) * a) >> 8;
      data[k + 2] += ((b - data[k + 2]) * a) >> 8;
    }
  }
  context.putImageData(image, Math.round(frame.left * ratio), Math.round(frame.top * ratio));
}

function landmarkRadius(i) {
  const largest = Math.min(11, 4 + 70 / Math.sqrt(landmarks.n));
  return Math.max(2.2, largest * Math.sqrt(landmarks.multiplicity[i] / landmarks.largest));
}

function landmarkPlace(i) {
  const { frame, view } = scatter;
  const x = scatter.axes[scatter.x].landmarkValues[i], y = scatter.axes[scatter.y].landmarkValues[i];
  return [
    frame.left + ((x - view[0]) / (view[1] - view[0])) * frame.width,
    frame.top + ((view[3] - y) / (view[3] - view[2])) * frame.height,
  ];
}

function drawLandmarks(context, colours) {
  if (!scatter.showLandmarks) return;
  const { frame } = scatter;
  context.save();
  context.beginPath();
  context.rect(frame.left, frame.top, frame.width, frame.height);
  context.clip();
  const { index, missing, table, kind } = scatter.colours;
  context.lineWidth = landmarks.n > 600 ? 0.6 : 0.9;
  context.strokeStyle = colours.ink;
  // Largest first, as they are sorted, so that small ones stay in sight.
  for (let i = 0; i < landmarks.n; i++) {
    const [x, y] = landmarkPlace(i);
    if (!(x > frame.left - 20 && x < frame.left + frame.width + 20 && y > frame.top - 20 && y < frame.top + frame.height + 20)) continue;
    context.beginPath();
    context.arc(x, y, landmarkRadius(i), 0, 2 * Math.PI);
    // In the colour of the point it is, so that a crowd of landmarks hides no colours.
    const own = landmarks.point[i];
    if (landmarks.n > FEW_LANDMARKS && own < points.n && isShown(own) && !missing[own] && kind !== "none") {
      const c = 3 * index[own];
      context.globalAlpha = 0.8;
      context.fillStyle = `rgb(${table[c]} ${table[c + 1]} ${table[c + 2]})`;
      context.fill();
    }
    if (landmarks.n <= FEW_LANDMARKS) {
      // Few and large: rings, so that the wells they lie in stay in sight.
      context.lineWidth = 3.6;
      context.strokeStyle = colours.card;
      context.stroke();
      context.lineWidth = 1.6;
      context.strokeStyle = colours.ink;
    } else context.globalAlpha = landmarks.n > 600 ? 0.45 : 0.65;
    context.stroke();
    context.globalAlpha = 1;
  }
  context.restore();
}

function drawScatter() {
  const colours = theme();
  const { context, width, height, ratio } = fitted(scatter.canvas);
  scatter.frame = {
    left: PLOT.left,
    top: PLOT.top,
    width: width - PLOT.left - PLOT.right,
    height: height - PLOT.top - PLOT.bottom,
  };
  splat(context, scatter.frame, ratio, colours);
  drawLandmarks(context, colours);
  drawAxes(context, scatter.frame, scatter.view, [scatter.axes[scatter.x].label, scatter.axes[scatter.y].label], colours);
  if (fitted.paper && scatter.selected >= 0) drawSelected(context, colours);
  scatter.bins = null;
  drawScatterOver();
  const words = `Scatter plot of ${formatNumber(points.n)} points and ${formatNumber(landmarks.n)} landmarks: ` +
    `${scatter.axes[scatter.y].label} against ${scatter.axes[scatter.x].label}, coloured by ${scatter.colour.label}`;
  scatter.canvas.setAttribute("aria-label", words);
}

function ring(context, x, y, radius, colours, strong) {
  context.beginPath();
  context.arc(x, y, radius, 0, 2 * Math.PI);
  context.lineWidth = strong ? 5 : 4;
  context.strokeStyle = colours.card;
  context.stroke();
  context.lineWidth = strong ? 2.5 : 2;
  context.strokeStyle = strong ? colours.second : colours.ink;
  context.stroke();
}

function drawSelected(context, colours) {
  const [x, y] = landmarkPlace(scatter.selected);
  ring(context, x, y, landmarkRadius(scatter.selected) + 1.5, colours, true);
}

function drawScatterOver() {
  const { context } = fitted(scatter.over);
  const colours = theme();
  const { frame, hover, box } = scatter;
  context.save();
  context.beginPath();
  context.rect(frame.left, frame.top, frame.width, frame.height);
  context.clip();
  if (scatter.selected >= 0) drawSelected(context, colours);
  if (hover) ring(context, hover.px, hover.py, hover.landmark ? landmarkRadius(hover.i) + 1 : 5, colours, false);
  if (box) {
    context.fillStyle = colours.accent;
    context.globalAlpha = 0.15;
    context.fillRect(box[0], box[1], box[2] - box[0], box[3] - box[1]);
    context.globalAlpha = 1;
    context.strokeStyle = colours.accent;
    context.strokeRect(box[0], box[1], box[2] - box[0], box[3] - box[1]);
  }
  context.restore();
}
