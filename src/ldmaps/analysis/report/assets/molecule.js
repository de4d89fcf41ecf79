// Balls and sticks on a plain canvas: shaded discs and bars, sorted by depth.
const structures = report.structures && {
  ...report.structures,
  coordinates: decode(report.structures.coordinates),
  bonds: decode(report.structures.bonds),
};

const ELEMENT_COLOURS = {
  H: "#eef1f4", C: "#59636f", N: "#2f6fd6", O: "#d23b2e", S: "#d9a514", P: "#e07b1a", F: "#3fa796", Cl: "#3fa353",
  Br: "#96472c", I: "#7a3fa0", Na: "#8a5cd0", K: "#8a5cd0", Mg: "#4d9a4a", Ca: "#4d9a4a", Zn: "#6f7fa8", Fe: "#c4692b", X: "#8592a0",
};
const BALL = { H: 0.027, C: 0.038, N: 0.038, O: 0.038, X: 0.036 };

const viewer = {
  canvas: document.getElementById("structure"),
  landmark: -1,
  zoom: 1,
  rotation: [1, 0, 0, 0, 1, 0, 0, 0, 1],
  sprites: new Map(),
};

function turned(matrix, axis, angle) {
  const [c, s] = [Math.cos(angle), Math.sin(angle)];
  const turn = axis === "x" ? [1, 0, 0, 0, c, -s, 0, s, c] : axis === "y" ? [c, 0, s, 0, 1, 0, -s, 0, c] : [c, -s, 0, s, c, 0, 0, 0, 1];
  const out = new Array(9).fill(0);
  for (let i = 0; i < 3; i++) for (let j = 0; j < 3; j++) for (let k = 0; k < 3; k++) out[3 * i + j] += turn[3 * i + k] * matrix[3 * k + j];
  return out;
}

function atomColour(a) {
  if (!structures.trace) {
    const symbol = structures.elements[a];
    if (symbol === "C" && document.documentElement.dataset.theme === "dark") return "#8b96a3";
    return ELEMENT_COLOURS[symbol] || ELEMENT_COLOURS.X;
  }
  const table = palettes.viridis, c = 3 * Math.round((230 * a) / Math.max(1, structures.atoms - 1));
  return "#" + [0, 1, 2].map((k) => table[c + k].toString(16).padStart(2, "0")).join("");
}

const FOG_LEVELS = 8;

// A shaded ball, made once for each colour and depth.
function ball(colour, fog, card) {
  const key = `${colour} ${fog} ${card}`;
  if (!viewer.sprites.has(key)) {
    const size = 96, sprite = element("canvas", { width: size, height: size });
    const context = sprite.getContext("2d");
    const shade = context.createRadialGradient(size * 0.36, size * 0.32, size * 0.04, size * 0.5, size * 0.5, size * 0.5);
    const far = (tone) => mixRgb(tone, card, (0.55 * fog) / FOG_LEVELS);
    shade.addColorStop(0, far(mix(colour, "#ffffff", 0.62)));
    shade.addColorStop(0.38, far(mix(colour, "#ffffff", 0.1)));
    shade.addColorStop(0.82, far(mix(colour, "#000000", 0.22)));
    shade.addColorStop(1, far(mix(colour, "#000000", 0.5)));
    context.fillStyle = shade;
    context.beginPath();
    context.arc(size / 2, size / 2, size / 2 - 1, 0, 2 * Math.PI);
    context.fill();
    viewer.sprites.set(key, sprite);
  }
  return viewer.sprites.get(key);
}

function mixRgb(text, hex, share) {
  const from = text.match(/\d+/g).map(Number), to = rgb(hex);
  return "rgb(" + from.slice(0, 3).map((value, i) => Math.round(value + (to[i] - value) * share)).join(" ") + ")";
}

function drawStructure() {
  if (!structures) return;
  const colours = theme();
  const { context, width, height } = fitted(viewer.canvas);
  const place = viewer.landmark;
  if (place < 0 || place >= structures.n) {
    context.fillStyle = colours.muted;
    context.font = FONT;
    context.textAlign = "center";
    context.fillText("The structure of this landmark is not on the page.", width / 2, height / 2);
    return;
  }
  const n = structures.atoms, R = viewer.rotation;
  const first = 3 * n * place, scale = structures.scale;
  const x = new Float64Array(n), y = new Float64Array(n), z = new Float64Array(n);
  for (let a = 0; a < n; a++) {
    const p = structures.coordinates[first + 3 * a] * scale;
    const q = structures.coordinates[first + 3 * a + 1] * scale;
    const r = structures.coordinates[first + 3 * a + 2] * scale;
    x[a] = R[0] * p + R[1] * q + R[2] * r;
    y[a] = R[3] * p + R[4] * q + R[5] * r;
    z[a] = R[6] * p + R[7] * q + R[8] * r;
  }
  // One scale for all landmarks, so that compact and stretched ones look it.
  const { across, up, reach } = viewer.size;
  const pixels = viewer.zoom * Math.min((0.5 * width - 12) / across, (0.5 * height - 12) / up);
  const eye = 5 * reach;
  const grow = (a) => eye / (eye - z[a]);
  const px = (a) => width / 2 + pixels * x[a] * grow(a), py = (a) => height / 2 - pixels * y[a] * grow(a);
  const fogOf = (depth) => Math.max(0, Math.min(FOG_LEVELS, Math.round(FOG_LEVELS * (0.5 - depth / (2 * reach)))));
  const thin = 0.016;

  if (structures.trace) {
    drawTube({ context, n, x, y, z, pixels, eye, width, height, fogOf, colours });
    return;
  }
  const items = [];
  for (let a = 0; a < n; a++) items.push({ depth: z[a], atom: a });
  for (let b = 0; b < structures.bonds.length; b += 2) {
    const [p, q] = [structures.bonds[b], structures.bonds[b + 1]];
    items.push({ depth: (3 * z[p] + z[q]) / 4 - 1e-4, bond: [p, q] }, { depth: (z[p] + 3 * z[q]) / 4 - 1e-4, bond: [q, p] });
  }
  items.sort((s, t) => s.depth - t.depth);
  context.lineCap = "round";
  for (const item of items) {
    const fog = fogOf(item.depth);
    if (item.bond) {
      const [p, q] = item.bond;
      const [x0, y0] = [px(p), py(p)];
      const [x1, y1] = [(x0 + px(q)) / 2, (y0 + py(q)) / 2];
      const wide = Math.max(1.5, 2 * thin * pixels * grow(p));
      const tone = atomColour(p);
      const far = (shade) => mixRgb(shade, colours.card, (0.55 * fog) / FOG_LEVELS);
      for (const [share, shade] of [[1, far(mix(tone, "#000000", 0.42))], [0.72, far(mix(tone, "#000000", 0.08))], [0.26, far(mix(tone, "#ffffff", 0.4))]]) {
        context.lineWidth = wide * share;
        context.strokeStyle = shade;
        line(context, x0, y0, x1, y1);
      }
    } else {
      const a = item.atom;
      const size = (BALL[structures.elements[a]] || BALL.C) * pixels * grow(a);
      const radius = Math.max(2, size);
      context.drawImage(ball(atomColour(a), fog, colours.card), px(a) - radius, py(a) - radius, 2 * radius, 2 * radius);
    }
  }
}

const TUBE_STEPS = 7, TUBE_RADIUS = 0.075;

// A smooth tube through a backbone (Catmull-Rom), in the order of its atoms, pieces sorted by depth.
function drawTube({ context, n, x, y, z, pixels, eye, width, height, fogOf, colours }) {
  const joined = new Uint8Array(n);
  for (let b = 0; b < structures.bonds.length; b += 2) joined[structures.bonds[b]] = 1;
  const pieces = [];
  const along = (v, a, t) => {
    const before = a > 0 && joined[a - 1] ? v[a - 1] : 2 * v[a] - v[a + 1];
    const after = a + 2 < n && joined[a + 1] ? v[a + 2] : 2 * v[a + 1] - v[a];
    const [p, q] = [v[a], v[a + 1]];
    return 0.5 * (2 * p + (q - before) * t + (2 * before - 5 * p + 4 * q - after) * t * t + (3 * p - before - 3 * q + after) * t * t * t);
  };
  for (let a = 0; a + 1 < n; a++) {
    if (!joined[a]) continue;
    let last = null;
    for (let s = 0; s <= TUBE_STEPS; s++) {
      const t = s / TUBE_STEPS, depth = along(z, a, t), grow = eye / (eye - depth);
      const here = [width / 2 + pixels * along(x, a, t) * grow, height / 2 - pixels * along(y, a, t) * grow];
      if (last) pieces.push({ depth, from: last, to: here, wide: Math.max(2, 2 * TUBE_RADIUS * pixels * grow), atom: t < 0.5 ? a : a + 1 });
      last = here;
    }
  }
  pieces.sort((s, t) => s.depth - t.depth);
  context.lineCap = "round";
  for (const piece of pieces) {
    const tone = atomColour(piece.atom), share = (0.5 * fogOf(piece.depth)) / FOG_LEVELS;
    const shades = [[1, mix(tone, "#000000", 0.5)], [0.8, mix(tone, "#ffffff", 0.06)], [0.28, mix(tone, "#ffffff", 0.38)]];
    for (const [part, shade] of shades) {
      // A round end of the dark edge would cut into the piece before.
      context.lineCap = part === 1 ? "butt" : "round";
      context.lineWidth = piece.wide * part;
      context.strokeStyle = mixRgb(shade, colours.card, share);
      line(context, ...piece.from, ...piece.to);
    }
  }
}

function measureStructures() {
  let across = 0, up = 0, reach = 0;
  const values = structures.coordinates;
  for (let i = 0; i < values.length; i += 3) {
    const flat = Math.hypot(values[i], 0), rise = Math.hypot(values[i + 1], values[i + 2]);
    across = Math.max(across, flat);
    up = Math.max(up, rise);
    reach = Math.max(reach, Math.hypot(flat, rise));
  }
  viewer.size = { across: across * structures.scale + 0.05, up: up * structures.scale + 0.05, reach: reach * structures.scale + 0.05 };
}

function structureLegend() {
  const legend = document.getElementById("structure-legend");
  if (structures.trace) {
    legend.append(colourBar(palettes.viridis, "first", "last atom", ""));
    return;
  }
  for (const symbol of [...new Set(structures.elements)].sort()) {
    const swatch = element("span", { class: "swatch" });
    const dot = element("i");
    dot.style.background = ELEMENT_COLOURS[symbol] || ELEMENT_COLOURS.X;
    swatch.append(dot, element("span", {}, symbol === "X" ? "atom" : symbol));
    legend.append(swatch);
  }
}

function startViewer() {
  if (!structures) return;
  measureStructures();
  structureLegend();
  const canvas = viewer.canvas;
  let last = null, waiting = false;
  const redraw = () => {
    if (waiting) return;
    waiting = true;
    requestAnimationFrame(() => {
      waiting = false;
      drawStructure();
    });
  };
  const pinched = watchPinch(canvas, () => {
    const before = viewer.zoom;
    return (scale) => {
      viewer.zoom = Math.max(0.4, Math.min(8, before * scale));
      redraw();
    };
  });
  canvas.addEventListener("pointerdown", (event) => {
    last = [event.clientX, event.clientY];
    canvas.setPointerCapture(event.pointerId);
  });
  canvas.addEventListener("pointermove", (event) => {
    if (!last || (event.pointerType === "touch" && pinched())) return;
    viewer.rotation = turned(viewer.rotation, "y", (event.clientX - last[0]) * 0.011);
    viewer.rotation = turned(viewer.rotation, "x", (event.clientY - last[1]) * 0.011);
    last = [event.clientX, event.clientY];
    redraw();
  });
  for (const name of ["pointerup", "pointercancel"]) canvas.addEventListener(name, () => (last = null));
  canvas.addEventListener("wheel", (event) => {
    // Only once the viewer has been touched: the wheel is for scrolling the page.
    if (document.activeElement !== canvas) return;
    event.preventDefault();
    viewer.zoom = Math.max(0.4, Math.min(8, viewer.zoom * Math.exp(-event.deltaY * 0.0015)));
    redraw();
  }, { passive: false });
  canvas.addEventListener("keydown", (event) => {
    const turns = { ArrowLeft: ["y", -0.15], ArrowRight: ["y", 0.15], ArrowUp: ["x", -0.15], ArrowDown: ["x", 0.15] };
    if (turns[event.key]) viewer.rotation = turned(viewer.rotation, ...turns[event.key]);
    else if (event.key === "+" || event.key === "=") viewer.zoom = Math.min(8, viewer.zoom * 1.15);
    else if (event.key === "-") viewer.zoom = Math.max(0.4, viewer.zoom / 1.15);
    else return;
    event.preventDefault();
    drawStructure();
  });
}
