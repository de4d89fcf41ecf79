// The recent past of the stream, and how it is drawn.
const CAPACITY = 6000;

function newTrail() {
  const k = report.names.length;
  return {
    n: 0, // ever added; the place is this modulo CAPACITY
    time: new Float64Array(CAPACITY),
    distance: new Float32Array(CAPACITY),
    code: new Int16Array(CAPACITY),
    coordinates: Array.from({ length: k }, () => new Float32Array(CAPACITY)),
  };
}

function copyOf(trail) {
  return {
    n: trail.n,
    time: trail.time.slice(),
    distance: trail.distance.slice(),
    code: trail.code.slice(),
    coordinates: trail.coordinates.map((values) => values.slice()),
  };
}

function addRows(trail, rows, width, now) {
  for (let at = 0; at + width <= rows.length; at += width) {
    const i = trail.n++ % CAPACITY;
    trail.time[i] = now - 1000 * rows[at];
    trail.distance[i] = rows[at + 1];
    trail.code[i] = rows[at + 2];
    for (let c = 0; c < trail.coordinates.length; c++) trail.coordinates[c][i] = rows[at + 3 + c];
  }
}

function placer(frame, view) {
  const sx = frame.width / (view[1] - view[0]), sy = frame.height / (view[3] - view[2]);
  return (x, y) => [frame.left + (x - view[0]) * sx, frame.top + (view[3] - y) * sy];
}

// -- colours ------------------------------------------------------------------

// The scale ends half beyond the reach of the map's own cells: few landmarks have wide ones.
const LEVELS = 32, FARTHEST = Number((1.5 * report.reach).toPrecision(2));

// The part of viridis that stands out from the page's own colour.
function coverageTable(dark) {
  const table = palettes.viridis, part = new Uint8Array(3 * 256);
  const [from, to] = dark ? [70, 255] : [0, 205];
  for (let i = 0; i < 256; i++) {
    const entry = Math.round(from + ((to - from) * i) / 255);
    part.set(table.subarray(3 * entry, 3 * entry + 3), 3 * i);
  }
  return part;
}

// Colours by level of coverage, or by region with "none" first.
function trailColours(mode, colours) {
  if (mode === "coverage") {
    const table = coverageTable(document.documentElement.dataset.theme === "dark");
    return Array.from({ length: LEVELS }, (_, i) => {
      const c = 3 * Math.round((255 * i) / (LEVELS - 1));
      return `rgb(${table[c]} ${table[c + 1]} ${table[c + 2]})`;
    });
  }
  if (mode === "region") return [colours.muted, ...regions.map((region) => region.colour)];
  return [colours.accent];
}

function colourIndex(mode, distance, code) {
  if (mode === "coverage") return Math.max(0, Math.min(LEVELS - 1, Math.round((distance / FARTHEST) * (LEVELS - 1)) || 0));
  return mode === "region" ? code >> 1 : 0;
}

// Small pictures of a dot and a cross in every colour: copying them is much faster than drawing thousands of paths.
const SPRITE = 12;
function sprites(mode, colours, ratio) {
  const key = [mode, ratio, document.documentElement.dataset.theme].join();
  if (sprites.key === key) return sprites.made;
  const size = Math.ceil(SPRITE * ratio);
  const draw = (colour, cross) => {
    const canvas = element("canvas", { width: size, height: size });
    const pen = canvas.getContext("2d");
    pen.setTransform(size / SPRITE, 0, 0, size / SPRITE, 0, 0);
    if (cross) {
      for (const [wide, ink] of [[4.4, colours.card], [2.2, colour]]) {
        pen.lineWidth = wide;
        pen.strokeStyle = ink;
        line(pen, 2.5, 2.5, SPRITE - 2.5, SPRITE - 2.5);
        line(pen, 2.5, SPRITE - 2.5, SPRITE - 2.5, 2.5);
      }
      return canvas;
    }
    pen.beginPath();
    pen.arc(SPRITE / 2, SPRITE / 2, SPRITE / 2 - 1, 0, 2 * Math.PI);
    pen.fillStyle = colour;
    pen.fill();
    return canvas;
  };
  const inks = trailColours(mode, colours);
  // Outside the map: a cross, in a colour of its own unless colours tell regions.
  sprites.made = { dots: inks.map((ink) => draw(ink, false)), crosses: inks.map((ink) => draw(mode === "region" ? ink : colours.second, true)) };
  sprites.key = key;
  return sprites.made;
}

// -- drawing --------------------------------------------------------------------

// Returns how many points are in sight of their fading.
function drawTrail(context, trail, { xOf, yOf, now, length, since, mode, place, colours, ratio, faintest }) {
  const { dots, crosses } = sprites(mode, colours, ratio);
  const oldest = Math.max(0, trail.n - CAPACITY);
  const from = Math.max(now - length, since);
  let drawn = 0;
  for (let p = oldest; p < trail.n; p++) {
    const i = p % CAPACITY;
    const time = trail.time[i];
    if (time < from || time > now + 1000) continue;
    const [px, py] = place(xOf(trail, i), yOf(trail, i));
    if (!isFinite(px) || !isFinite(py)) continue;
    const youth = Math.max(0, Math.min(1, 1 - (now - time) / length));
    const code = trail.code[i], outside = code & 1;
    const size = (outside ? 9 : 4.6) * (0.62 + 0.38 * youth);
    context.globalAlpha = faintest + (0.8 - faintest) * youth * youth;
    const sprite = (outside ? crosses : dots)[colourIndex(mode, trail.distance[i], code)] || dots[0];
    context.drawImage(sprite, px - size / 2, py - size / 2, size, size);
    drawn++;
  }
  context.globalAlpha = 1;
  return drawn;
}

// A thin line through the last points tells where the stream came from.
function drawWake(context, trail, { xOf, yOf, now, since, place, colours, frame }) {
  const LAST = 24, SPAN = 4000, JUMP = 0.3 * frame.width; // a jump is no path
  context.lineWidth = 1.2;
  context.strokeStyle = colours.ink;
  let before = null;
  for (let p = Math.max(0, trail.n - CAPACITY, trail.n - LAST); p < trail.n; p++) {
    const i = p % CAPACITY;
    if (trail.time[i] < Math.max(now - SPAN, since)) continue;
    const at = place(xOf(trail, i), yOf(trail, i));
    if (before && Math.hypot(at[0] - before[0], at[1] - before[1]) < JUMP) {
      context.globalAlpha = 0.4 * (1 - (trail.n - p) / LAST);
      line(context, ...before, ...at);
    }
    before = at;
  }
  context.globalAlpha = 1;
}

// The last record: a ring that stands out anywhere, or an arrow at the edge it has left the view by.
function drawCurrent(context, px, py, frame, colour, outside, colours) {
  const x = Math.max(frame.left + 10, Math.min(frame.left + frame.width - 10, px));
  const y = Math.max(frame.top + 10, Math.min(frame.top + frame.height - 10, py));
  const away = px < frame.left || px > frame.left + frame.width || py < frame.top || py > frame.top + frame.height;
  context.beginPath();
  if (away) {
    const angle = Math.atan2(py - y, px - x);
    for (const [turn, reach] of [[0, 10], [2.5, 8], [-2.5, 8]]) {
      context.lineTo(x + reach * Math.cos(angle + turn), y + reach * Math.sin(angle + turn));
    }
    context.closePath();
  } else if (outside) context.rect(x - 6, y - 6, 12, 12);
  else context.arc(x, y, 7, 0, 2 * Math.PI);
  context.fillStyle = colour;
  context.fill();
  context.lineWidth = 5;
  context.strokeStyle = colours.card;
  context.stroke();
  context.lineWidth = 2.4;
  context.strokeStyle = colours.ink;
  context.stroke();
}
