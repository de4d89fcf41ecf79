// What is under the pointer, and moving about the map.
const CELL = 14;

function binPoints() {
  const { frame, view } = scatter;
  const columns = Math.ceil(frame.width / CELL), rows = Math.ceil(frame.height / CELL);
  const ax = scatter.axes[scatter.x].values, ay = scatter.axes[scatter.y].values;
  const starts = new Uint32Array(columns * rows + 1);
  const cell = new Int32Array(points.n);
  for (let i = 0; i < points.n; i++) {
    const c = Math.floor((((ax[i] - view[0]) / (view[1] - view[0])) * frame.width) / CELL);
    const r = Math.floor((((view[3] - ay[i]) / (view[3] - view[2])) * frame.height) / CELL);
    cell[i] = isShown(i) && c >= 0 && r >= 0 && c < columns && r < rows ? r * columns + c : -1;
    if (cell[i] >= 0) starts[cell[i] + 1]++;
  }
  for (let i = 0; i < columns * rows; i++) starts[i + 1] += starts[i];
  const members = new Uint32Array(starts[columns * rows]);
  const next = starts.slice();
  for (let i = 0; i < points.n; i++) if (cell[i] >= 0) members[next[cell[i]]++] = i;
  scatter.bins = { columns, rows, starts, members };
}

function landmarkUnder(x, y, reach) {
  let best = -1, least = Infinity;
  for (let i = 0; i < landmarks.n; i++) {
    const [px, py] = landmarkPlace(i);
    const gap = Math.hypot(px - x, py - y) - landmarkRadius(i);
    // Of circles on top of each other, the smaller one is meant.
    const cost = gap <= 0 ? landmarkRadius(i) - 100 : gap;
    if (gap <= reach && cost < least) {
      least = cost;
      best = i;
    }
  }
  return best;
}

function pointUnder(x, y, reach) {
  if (!scatter.bins) binPoints();
  const { frame, view } = scatter;
  const { columns, rows, starts, members } = scatter.bins;
  const ax = scatter.axes[scatter.x].values, ay = scatter.axes[scatter.y].values;
  const c = Math.floor((x - frame.left) / CELL), r = Math.floor((y - frame.top) / CELL);
  let best = null, least = reach * reach;
  for (let dr = -1; dr <= 1; dr++) {
    for (let dc = -1; dc <= 1; dc++) {
      if (c + dc < 0 || r + dr < 0 || c + dc >= columns || r + dr >= rows) continue;
      const at = (r + dr) * columns + c + dc;
      for (let m = starts[at]; m < starts[at + 1]; m++) {
        const i = members[m];
        const px = frame.left + ((ax[i] - view[0]) / (view[1] - view[0])) * frame.width;
        const py = frame.top + ((view[3] - ay[i]) / (view[3] - view[2])) * frame.height;
        const gap = (px - x) * (px - x) + (py - y) * (py - y);
        if (gap < least) {
          least = gap;
          best = { i, px, py, landmark: false };
        }
      }
    }
  }
  return best;
}

function under(x, y) {
  const { frame } = scatter;
  if (x < frame.left || y < frame.top || x > frame.left + frame.width || y > frame.top + frame.height) return null;
  const near = scatter.showLandmarks ? landmarkUnder(x, y, 1) : -1;
  if (near >= 0) {
    const [px, py] = landmarkPlace(near);
    return { i: near, px, py, landmark: true };
  }
  return pointUnder(x, y, CELL);
}

function setView(view) {
  scatter.view = view;
  scatter.hover = null;
  drawScatter();
  scatter.onView();
}

// Zoom about the chosen landmark, or the middle where that is out of sight.
function zoomBy(factor) {
  const [x0, x1, y0, y1] = scatter.view;
  let [cx, cy] = [(x0 + x1) / 2, (y0 + y1) / 2];
  if (scatter.selected >= 0) {
    const x = scatter.axes[scatter.x].landmarkValues[scatter.selected], y = scatter.axes[scatter.y].landmarkValues[scatter.selected];
    if (x > x0 && x < x1 && y > y0 && y < y1) [cx, cy] = [x, y];
  }
  setView([cx - (cx - x0) * factor, cx + (x1 - cx) * factor, cy - (cy - y0) * factor, cy + (y1 - cy) * factor]);
}

// From the chosen landmark to the next one in a direction.
function neighbourLandmark(dx, dy) {
  if (!landmarks.n) return -1;
  if (scatter.selected < 0) return 0;
  const [x, y] = landmarkPlace(scatter.selected);
  let best = -1, least = Infinity;
  for (let i = 0; i < landmarks.n; i++) {
    if (i === scatter.selected) continue;
    const [px, py] = landmarkPlace(i);
    const along = (px - x) * dx + (py - y) * dy;
    const across = Math.abs((px - x) * dy) + Math.abs((py - y) * dx);
    if (along <= 0.5) continue;
    const cost = along + 2.5 * across;
    if (cost < least) {
      least = cost;
      best = i;
    }
  }
  return best < 0 ? scatter.selected : best;
}
