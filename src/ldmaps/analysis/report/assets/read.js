// The page's data, as typed arrays.
const report = JSON.parse(document.getElementById("report-data").textContent);

const ARRAY_TYPES = { f4: Float32Array, f8: Float64Array, u1: Uint8Array, u2: Uint16Array, u4: Uint32Array, i2: Int16Array };

function decode(entry) {
  if (!entry) return null;
  if (entry.type === "linear") {
    const values = new Float64Array(entry.n);
    for (let i = 0; i < entry.n; i++) values[i] = entry.start + entry.step * i;
    return values;
  }
  const text = atob(entry.data);
  const bytes = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i++) bytes[i] = text.charCodeAt(i);
  return new ARRAY_TYPES[entry.type](bytes.buffer);
}

const points = {
  n: report.n,
  coordinates: report.coordinates.map(decode),
  fields: report.fields.map((field) => ({ ...field, values: decode(field.values) })),
  nearest: decode(report.nearest),
  inside: decode(report.inside),
  fileOf: decode(report.fileOf),
};

const landmarks = {
  n: report.landmarks.n,
  all: report.landmarks.all,
  number: decode(report.landmarks.number),
  coordinates: report.landmarks.coordinates.map(decode),
  multiplicity: decode(report.landmarks.multiplicity),
  point: decode(report.landmarks.point),
  frame: decode(report.landmarks.frame),
  time: decode(report.landmarks.time),
  features: report.landmarks.features.map((field) => ({ ...field, values: decode(field.values) })),
};
landmarks.largest = landmarks.multiplicity.reduce((a, b) => Math.max(a, b), 0);

const palettes = {};
for (const name of Object.keys(report.palettes)) palettes[name] = decode(report.palettes[name]);

const energies = report.energies.map((entry) => {
  const coded = decode(entry.values);
  const values = new Float32Array(coded.length);
  for (let i = 0; i < coded.length; i++) values[i] = coded[i] === 65535 ? NaN : (coded[i] / 65534) * entry.highest;
  return { ...entry, values };
});

function energyOf(x, y) {
  for (const entry of energies) {
    if (entry.pair[0] === x && entry.pair[1] === y) return { ...entry, swapped: false };
    if (entry.pair[0] === y && entry.pair[1] === x) return { ...entry, swapped: true };
  }
  return null;
}

// Free energy at a place of the surface, NaN where there is none; a and b are the surface's own axes.
function energyAt(surface, a, b) {
  const n = surface.cells;
  const i = ((a - surface.low[0]) / (surface.high[0] - surface.low[0])) * n - 0.5;
  const j = ((b - surface.low[1]) / (surface.high[1] - surface.low[1])) * n - 0.5;
  const i0 = Math.floor(i), j0 = Math.floor(j);
  let sum = 0, weight = 0;
  for (let di = 0; di < 2; di++) {
    for (let dj = 0; dj < 2; dj++) {
      const p = i0 + di, q = j0 + dj;
      if (p < 0 || q < 0 || p >= n || q >= n) continue;
      const value = surface.values[p * n + q];
      if (value !== value) continue;
      const share = (di ? i - i0 : 1 - i + i0) * (dj ? j - j0 : 1 - j + j0);
      sum += share * value;
      weight += share;
    }
  }
  return weight >= 0.5 ? sum / weight : NaN;
}
