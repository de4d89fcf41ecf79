// The picture: which part of the map is in view, what lies beneath the stream, and the stream.
const calm = window.matchMedia("(prefers-reduced-motion: reduce)");
const MODES = [["coverage", "Coverage"], ["region", "Region"], ["plain", "One colour"]];
const LENGTHS = [[5, "5 s"], [15, "15 s"], [60, "1 min"], [300, "5 min"]];
const ZOOM = 3, ALARMS = 100, FRESH = 5000;

const k = report.names.length;
// The last axis is time, for how a coordinate went.
const axes = [...report.names.map((label, i) => ({ label, coordinate: i })), { label: "Time from now (s)", coordinate: -1 }];
const picture = {
  x: k > 1 ? 0 : axes.length - 1,
  y: k > 1 ? 1 : 0,
  mode: "coverage",
  length: 15000,
  view: null,
  home: null,
  frame: null,
  base: null,
  following: false,
  since: -Infinity,
  needed: true,
  drawnAt: 0,
  fading: false,
  here: -1,
  labels: [],
};
const past = newTrail();
let frozen = null; // while paused: the past as it was
let head = null;
let taken = 0;
const seconds = { count: -1, values: [] };
const seen = { alarm: -1, unread: 0, said: 0, waiting: [] };

// -- the view ---------------------------------------------------------------------

function extentOf(coordinate) {
  if (coordinate < 0) return [-picture.length / 1000, 0.02 * (picture.length / 1000)];
  for (const surface of energies) {
    const place = surface.pair.indexOf(coordinate);
    if (place >= 0) return [surface.low[place], surface.high[place]];
  }
  const values = landmarks.coordinates[coordinate];
  let low = Infinity, high = -Infinity;
  for (const value of values) {
    low = Math.min(low, value);
    high = Math.max(high, value);
  }
  const margin = 0.06 * (high - low) || Math.abs(low) || 1;
  return [low - margin, high + margin];
}

function homeView() {
  return [picture.x, picture.y].flatMap((which) => {
    const { coordinate } = axes[which];
    const [low, high] = extentOf(coordinate);
    const margin = coordinate < 0 ? 0 : 0.04 * (high - low);
    return [low - margin, high + margin];
  });
}

// Following: a third of the map, moved when the stream nears its edge.
function followedView() {
  const home = picture.home, current = head && head.current;
  if (!picture.following || !current) return home;
  const view = picture.view.slice();
  [picture.x, picture.y].forEach((which, c) => {
    const { coordinate } = axes[which];
    if (coordinate < 0) return;
    const value = current.coordinates[coordinate];
    const width = (home[2 * c + 1] - home[2 * c]) / ZOOM;
    const share = (value - view[2 * c]) / (view[2 * c + 1] - view[2 * c]);
    const same = Math.abs(view[2 * c + 1] - view[2 * c] - width) < 1e-9 * width;
    if (value === null || (same && share > 0.15 && share < 0.85)) return;
    // Not beyond the map, unless the stream is there.
    const most = Math.max(home[2 * c + 1] - width, value - 0.8 * width);
    view[2 * c] = Math.min(most, Math.max(Math.min(home[2 * c], value - 0.2 * width), value - width / 2));
    view[2 * c + 1] = view[2 * c] + width;
  });
  return view;
}

function setHome() {
  picture.home = homeView();
  picture.view = picture.home;
  picture.base = null;
  drawBack();
}

// -- what lies beneath the stream ---------------------------------------------------

// The density over the home view, in shades of the page, with contours; a part of it is shown when following.
function baseImage(frame, colours) {
  const [x, y] = [axes[picture.x].coordinate, axes[picture.y].coordinate];
  const surface = x >= 0 && y >= 0 && x !== y ? energyOf(x, y) : null;
  if (!surface) return null;
  // Following magnifies the image, so it is made finer and its lines thinner.
  const [scale, spacing, thickness] = picture.following ? [2, 6, 0.7] : [1, 9, 0.9];
  const key = [x, y, frame.width, frame.height, scale, document.documentElement.dataset.theme].join();
  if (picture.base && picture.base.key === key) return picture.base.canvas;
  const w = Math.max(1, Math.round(frame.width * scale)), h = Math.max(1, Math.round(frame.height * scale));
  const canvas = element("canvas", { width: w, height: h });
  const context = canvas.getContext("2d");
  const image = context.createImageData(w, h), data = image.data;
  const card = rgb(colours.card), tone = rgb(colours.muted);
  const hatch = offMap && rgb(offMap.colour);
  const [u0, u1, v0, v1] = picture.home;
  for (let py = 0; py < h; py++) {
    const v = v1 - ((py + 0.5) / h) * (v1 - v0);
    for (let px = 0; px < w; px++) {
      const u = u0 + ((px + 0.5) / w) * (u1 - u0);
      const energy = surface.swapped ? energyAt(surface, v, u) : energyAt(surface, u, v);
      const at = 4 * (py * w + px);
      data[at + 3] = 255;
      if (energy !== energy) {
        const share = hatch && (px + py) % spacing < 1 ? 0.3 : 0;
        for (let c = 0; c < 3; c++) data[at + c] = card[c] + share * (hatch ? hatch[c] - card[c] : 0);
      } else {
        const share = 0.08 + 0.5 * Math.pow(Math.max(0, 1 - energy / surface.highest), 1.4);
        for (let c = 0; c < 3; c++) data[at + c] = card[c] + share * (tone[c] - card[c]);
      }
    }
  }
  context.putImageData(image, 0, 0);
  const place = placer({ left: 0, top: 0, width: w, height: h }, picture.home);
  const [low, high] = [surface.low, surface.high];
  const dark = document.documentElement.dataset.theme === "dark";
  context.lineWidth = thickness;
  context.strokeStyle = dark ? "rgb(255 255 255 / 16%)" : "rgb(20 40 60 / 17%)";
  const step = contourStep(surface.highest);
  for (let level = step; level < surface.highest; level += step) {
    contour(context, surface, level, (p, q) => {
      const a = low[0] + p * (high[0] - low[0]), b = low[1] + q * (high[1] - low[1]);
      return surface.swapped ? place(b, a) : place(a, b);
    });
  }
  picture.base = { key, canvas };
  return canvas;
}

function drawBack() {
  const colours = theme();
  const { context, width, height, ratio } = fitted(energyPlot.canvas);
  const frame = { left: PLOT.left, top: PLOT.top, width: width - PLOT.left - PLOT.right, height: height - PLOT.top - PLOT.bottom };
  picture.frame = frame;
  picture.view = followedView();
  const { home, view } = picture;
  context.save();
  context.beginPath();
  context.rect(frame.left, frame.top, frame.width, frame.height);
  context.clip();
  const base = baseImage(frame, colours);
  if (base) {
    const w = base.width / (home[1] - home[0]), h = base.height / (home[3] - home[2]);
    context.imageSmoothingQuality = "high";
    context.drawImage(
      base,
      (view[0] - home[0]) * w,
      (home[3] - view[3]) * h,
      (view[1] - view[0]) * w,
      (view[3] - view[2]) * h,
      frame.left,
      frame.top,
      frame.width,
      frame.height,
    );
  }
  const [x, y] = [axes[picture.x].coordinate, axes[picture.y].coordinate];
  picture.labels = drawRegions(context, x, y, view, frame, ratio, colours, picture.here);
  context.restore();
  drawAxes(context, frame, view, [axes[picture.x].label, axes[picture.y].label], colours);
  picture.needed = true;
}

function legend() {
  const colours = theme(), parts = [];
  const glyph = (draw, text) => {
    const canvas = element("canvas", { class: "glyph", width: 36, height: 36, "aria-hidden": "true" });
    const pen = canvas.getContext("2d");
    pen.scale(3, 3);
    draw(pen);
    const whole = element("span", { class: "swatch" });
    whole.append(canvas, element("span", {}, text));
    return whole;
  };
  if (picture.mode === "coverage") {
    const table = coverageTable(document.documentElement.dataset.theme === "dark");
    parts.push(colourBar(table, "0", `≥ ${FARTHEST} √ε`, "Distance to nearest landmark"));
  } else if (picture.mode === "region") {
    const shown = [...regions.slice(0, 8).map((region) => [region.colour, region.name]), [colours.muted, "none"]];
    for (const [colour, name] of shown) {
      const swatch = element("span", { class: "swatch" }), dot = element("i");
      dot.style.background = colour;
      swatch.append(dot, element("span", {}, name));
      parts.push(swatch);
    }
  }
  parts.push(
    glyph((pen) => {
      pen.strokeStyle = picture.mode === "region" ? colours.ink : colours.second;
      pen.lineWidth = 2.2;
      line(pen, 2, 2, 10, 10);
      line(pen, 2, 10, 10, 2);
    }, outsideWords),
    glyph((pen) => {
      pen.strokeStyle = colours.ink;
      pen.lineWidth = 2;
      pen.beginPath();
      pen.arc(6, 6, 4.6, 0, 7);
      pen.stroke();
    }, "last record"),
  );
  const [x, y] = [axes[picture.x].coordinate, axes[picture.y].coordinate];
  if (x >= 0 && y >= 0 && energyOf(x, y)) {
    parts.push(element("span", {}, `Grey: training ${report.kind}s.${offMap ? " Hatched: none." : ""}`));
  }
  byId("map-legend").replaceChildren(...parts);
}

// -- the stream ---------------------------------------------------------------------

function drawOver(now) {
  const colours = theme();
  const { context, ratio } = fitted(byId("over"));
  const { frame, view } = picture;
  const trail = frozen ? frozen.trail : past;
  const at = frozen ? frozen.now : now;
  const value = (which) => {
    const { coordinate } = axes[which];
    return coordinate < 0 ? (t, i) => (t.time[i] - at) / 1000 : (t, i) => t.coordinates[coordinate][i];
  };
  const how = {
    xOf: value(picture.x), yOf: value(picture.y), now: at, length: picture.length, since: picture.since,
    mode: picture.mode, place: placer(frame, view), colours, ratio, frame,
    faintest: axes[picture.x].coordinate < 0 || axes[picture.y].coordinate < 0 ? 0.55 : 0.06, // time is told by the axis
  };
  context.save();
  context.beginPath();
  context.rect(frame.left, frame.top, frame.width, frame.height);
  context.clip();
  const drawn = drawTrail(context, trail, how);
  drawWake(context, trail, how);
  drawLabels(context, picture.labels, frame, colours);
  const current = frozen ? frozen.current : head && head.current;
  if (current) {
    const [x, y] = [picture.x, picture.y].map((which) => (axes[which].coordinate < 0 ? 0 : current.coordinates[axes[which].coordinate]));
    if (x !== null && y !== null) {
      const inks = trailColours(picture.mode, colours);
      const code = 2 * (current.region + 1) + !current.inside;
      const ink = !current.inside && picture.mode !== "region" ? colours.second : inks[colourIndex(picture.mode, current.distance, code)];
      drawCurrent(context, ...how.place(x, y), frame, ink || colours.accent, !current.inside, colours);
    }
  }
  context.restore();
  picture.fading = drawn > 0 && !frozen;
  document.documentElement.dataset.drawn = drawn;
}

function loop(now) {
  requestAnimationFrame(loop);
  const every = calm.matches ? 500 : picture.needed ? 30 : 90;
  if (!(picture.needed || picture.fading) || now - picture.drawnAt < every) return;
  picture.needed = false;
  picture.drawnAt = now;
  drawOver(performance.now());
}

