// The free-energy surface: an image, with a contour line every so many k_BT.
const energyPlot = { canvas: document.getElementById("energy"), x: 0, y: 1, palette: "viridis", selected: -1, frame: null };

function contourStep(highest) {
  for (const step of [0.5, 1, 2, 5, 10]) if (highest / step <= 9) return step;
  return 20;
}

function drawEnergy() {
  const surface = energyOf(energyPlot.x, energyPlot.y);
  if (!surface) return;
  const colours = theme();
  const { context, width, height, ratio } = fitted(energyPlot.canvas);
  const frame = { left: PLOT.left, top: PLOT.top, width: width - PLOT.left - PLOT.right, height: height - PLOT.top - PLOT.bottom };
  const [a, b] = surface.swapped ? [1, 0] : [0, 1];
  const view = [surface.low[a], surface.high[a], surface.low[b], surface.high[b]];
  energyPlot.frame = frame;
  energyPlot.view = view;

  const w = Math.round(frame.width * ratio), h = Math.round(frame.height * ratio);
  const image = context.createImageData(w, h);
  const data = image.data, table = paletteTable(energyPlot.palette);
  const back = rgb(colours.card);
  // Between four cells, each with its share; a fringe of cells without data stands around them all.
  const n = surface.cells, values = surface.values, scale = 255 / surface.highest;
  const [alongX, alongY] = surface.swapped ? [1, n] : [n, 1];
  for (let py = 0; py < h; py++) {
    const q = n - ((py + 0.5) / h) * n - 0.5, q0 = Math.floor(q), fy = q - q0;
    for (let px = 0; px < w; px++) {
      const p = ((px + 0.5) / w) * n - 0.5, p0 = Math.floor(p), fx = p - p0;
      let sum = 0, weight = 0;
      for (let corner = 0; corner < 4; corner++) {
        const c = p0 + (corner & 1), r = q0 + (corner >> 1);
        if (c < 0 || r < 0 || c >= n || r >= n) continue;
        const value = values[c * alongX + r * alongY];
        if (value !== value) continue;
        const share = (corner & 1 ? fx : 1 - fx) * (corner >> 1 ? fy : 1 - fy);
        sum += share * value;
        weight += share;
      }
      const k = 4 * (py * w + px);
      data[k + 3] = 255;
      const c = weight >= 0.5 ? 3 * Math.min(255, Math.round((scale * sum) / weight)) : -1;
      data[k] = c < 0 ? back[0] : table[c];
      data[k + 1] = c < 0 ? back[1] : table[c + 1];
      data[k + 2] = c < 0 ? back[2] : table[c + 2];
    }
  }
  context.putImageData(image, Math.round(frame.left * ratio), Math.round(frame.top * ratio));

  const step = contourStep(surface.highest);
  context.lineWidth = 0.9;
  for (let level = step; level < surface.highest; level += step) {
    // Light lines where the colours are dark, and the other way round.
    context.strokeStyle = level < 0.55 * surface.highest ? "rgb(255 255 255 / 75%)" : "rgb(0 0 0 / 45%)";
    contour(context, surface, level, (u, v) => {
      const [p, q] = surface.swapped ? [v, u] : [u, v];
      return [frame.left + p * frame.width, frame.top + (1 - q) * frame.height];
    });
  }
  if (energyPlot.selected >= 0) {
    const x = landmarks.coordinates[energyPlot.x][energyPlot.selected], y = landmarks.coordinates[energyPlot.y][energyPlot.selected];
    const px = frame.left + ((x - view[0]) / (view[1] - view[0])) * frame.width;
    const py = frame.top + ((view[3] - y) / (view[3] - view[2])) * frame.height;
    ring(context, px, py, 5, colours, true);
  }
  drawAxes(context, frame, view, [report.names[energyPlot.x], report.names[energyPlot.y]], colours);
  energyPlot.canvas.setAttribute(
    "aria-label",
    `Free-energy surface over ${report.names[energyPlot.x]} and ${report.names[energyPlot.y]}, from 0 to ${formatNumber(surface.highest, 2)} kT`,
  );
}

function energyLegend() {
  const surface = energyOf(energyPlot.x, energyPlot.y);
  if (!surface) return;
  const words = element("span");
  words.append("−ln p in ", kbt(), `, contours every ${contourStep(surface.highest)}`);
  const bar = colourBar(paletteTable(energyPlot.palette), "0", `≥ ${formatNumber(surface.highest, 2)}`, "");
  document.getElementById("energy-legend").replaceChildren(bar, words);
}

function kbt() {
  const unit = element("span");
  const sub = element("sub", {}, "B");
  const [k, t] = [element("i", {}, "k"), element("i", {}, "T")];
  for (const part of [k, t]) part.style.cssText = "all:unset;font-style:italic";
  unit.append(k, sub, t);
  return unit;
}

// Marching squares over the middles of the cells; squares with a corner without data are left out.
function contour(context, surface, level, place) {
  const n = surface.cells, values = surface.values;
  context.beginPath();
  for (let i = 0; i + 1 < n; i++) {
    for (let j = 0; j + 1 < n; j++) {
      const corners = [values[i * n + j], values[(i + 1) * n + j], values[(i + 1) * n + j + 1], values[i * n + j + 1]];
      if (corners.some((value) => value !== value)) continue;
      const at = [[i, j], [i + 1, j], [i + 1, j + 1], [i, j + 1]];
      const cuts = [];
      for (let e = 0; e < 4; e++) {
        const p = corners[e], q = corners[(e + 1) % 4];
        if (p < level === q < level) continue;
        const share = (level - p) / (q - p), [from, to] = [at[e], at[(e + 1) % 4]];
        cuts.push(place((from[0] + share * (to[0] - from[0]) + 0.5) / n, (from[1] + share * (to[1] - from[1]) + 0.5) / n));
      }
      for (let c = 0; c + 1 < cuts.length; c += 2) {
        context.moveTo(...cuts[c]);
        context.lineTo(...cuts[c + 1]);
      }
    }
  }
  context.stroke();
}

function landmarkAtEnergy(x, y) {
  const { frame, view } = energyPlot;
  if (!frame) return -1;
  const xs = landmarks.coordinates[energyPlot.x], ys = landmarks.coordinates[energyPlot.y];
  let best = -1, least = 40 * 40;
  for (let i = 0; i < landmarks.n; i++) {
    const px = frame.left + ((xs[i] - view[0]) / (view[1] - view[0])) * frame.width;
    const py = frame.top + ((view[3] - ys[i]) / (view[3] - view[2])) * frame.height;
    const gap = (px - x) ** 2 + (py - y) ** 2;
    if (gap < least) {
      least = gap;
      best = i;
    }
  }
  return best;
}
