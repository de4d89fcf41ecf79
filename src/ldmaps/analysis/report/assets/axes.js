// Colours of the theme, round numbers, and axes on a canvas.
const MINUS = "\u2212";
const PLOT = { left: 58, right: 14, top: 12, bottom: 46 };

function theme() {
  const style = getComputedStyle(document.documentElement);
  const colours = {};
  for (const name of ["page", "card", "ink", "muted", "line", "grid", "accent", "second", "missing"]) {
    colours[name] = style.getPropertyValue("--" + name).trim();
  }
  return colours;
}

function rgb(hex) {
  let text = hex.replace("#", "");
  if (text.length === 3) text = [...text].map((c) => c + c).join("");
  const value = parseInt(text, 16);
  return [(value >> 16) & 255, (value >> 8) & 255, value & 255];
}

function mix(a, b, share) {
  const [p, q] = [rgb(a), rgb(b)];
  return "rgb(" + p.map((value, i) => Math.round(value + (q[i] - value) * share)).join(" ") + ")";
}

function ticksBetween(low, high, most) {
  if (!(high > low)) return [low];
  let step = Math.pow(10, Math.floor(Math.log10((high - low) / most)));
  for (const factor of [1, 2, 5, 10]) {
    if ((high - low) / (step * factor) <= most) {
      step *= factor;
      break;
    }
  }
  const ticks = [];
  for (let i = Math.ceil(low / step - 1e-9); i <= Math.floor(high / step + 1e-9); i++) ticks.push(i * step);
  return ticks;
}

const SUPER = { "-": "⁻", 0: "⁰", 1: "¹", 2: "²", 3: "³", 4: "⁴", 5: "⁵", 6: "⁶", 7: "⁷", 8: "⁸", 9: "⁹" };
const superscript = (n) => [...String(n)].map((c) => SUPER[c]).join("");

function formatNumber(value, digits = 4) {
  if (value === null || value === undefined || !isFinite(value)) return "–";
  if (value === 0) return "0";
  const size = Math.abs(value);
  let text;
  if (Number.isInteger(value) && size < 1e12) text = size.toLocaleString("en-US");
  else if (size >= 1e6 || size < 1e-3) {
    const [mantissa, exponent] = size.toExponential(digits - 1).split("e");
    text = `${+mantissa}×10${superscript(+exponent)}`;
  } else if (size >= 1000) text = (+size.toFixed(Math.max(0, digits - 3))).toLocaleString("en-US");
  else text = String(+size.toPrecision(digits));
  return (value < 0 ? MINUS : "") + text;
}

// Ticks share one power of ten, told in the axis' label, so that their texts stay short.
function axisScale(low, high, most) {
  let ticks = ticksBetween(low, high, most);
  while (ticks.length < 3 && most < 8) ticks = ticksBetween(low, high, ++most);
  const largest = Math.max(...ticks.map(Math.abs));
  let power = largest > 0 ? Math.floor(Math.log10(largest) + 1e-9) : 0;
  power = power >= -1 && power < 5 ? 0 : 3 * Math.floor(power / 3);
  const step = ticks.length > 1 ? (ticks[1] - ticks[0]) / Math.pow(10, power) : 1;
  const decimals = Math.max(0, Math.min(8, -Math.floor(Math.log10(step) + 1e-9)));
  const texts = ticks.map((tick) => {
    const value = tick / Math.pow(10, power);
    const text = Math.abs(value).toLocaleString("en-US", { minimumFractionDigits: decimals, maximumFractionDigits: decimals });
    return (value < -1e-12 ? MINUS : "") + text;
  });
  return { ticks, texts, suffix: power ? `×10${superscript(power)}` : "" };
}

// Fit a canvas' pixels to its place on the page; returns its size in CSS pixels.
function fitted(canvas) {
  const paper = fitted.paper && fitted.paper[canvas.id];
  const box = paper || canvas.parentElement.getBoundingClientRect();
  const width = Math.max(160, Math.round(box.width)), height = Math.max(120, Math.round(box.height));
  const ratio = fitted.ratio || Math.min(3, window.devicePixelRatio || 1);
  const [w, h] = [Math.round(width * ratio), Math.round(height * ratio)];
  if (canvas.width !== w || canvas.height !== h) {
    canvas.width = w;
    canvas.height = h;
  }
  const context = canvas.getContext("2d");
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.clearRect(0, 0, width, height);
  return { context, width, height, ratio };
}

const FONT = '12px system-ui, -apple-system, "Segoe UI", Roboto, "DejaVu Sans", sans-serif';

function drawAxes(context, frame, view, labels, colours) {
  const { left, top, width, height } = frame;
  context.font = FONT;
  context.lineWidth = 1;
  context.strokeStyle = colours.line;
  context.strokeRect(left - 0.5, top - 0.5, width + 1, height + 1);
  context.fillStyle = colours.muted;
  context.strokeStyle = colours.muted;
  const x = axisScale(view[0], view[1], Math.max(2, Math.round(width / 80)));
  const y = axisScale(view[2], view[3], Math.max(2, Math.round(height / 55)));
  context.textBaseline = "top";
  context.textAlign = "center";
  x.ticks.forEach((tick, i) => {
    const px = left + ((tick - view[0]) / (view[1] - view[0])) * width;
    line(context, px, top + height, px, top + height + 5);
    context.fillText(x.texts[i], px, top + height + 8);
  });
  context.textBaseline = "middle";
  context.textAlign = "right";
  y.ticks.forEach((tick, i) => {
    const py = top + height - ((tick - view[2]) / (view[3] - view[2])) * height;
    line(context, left - 5, py, left, py);
    context.fillText(y.texts[i], left - 8, py);
  });
  context.fillStyle = colours.ink;
  context.textAlign = "center";
  context.textBaseline = "alphabetic";
  context.fillText(x.suffix ? `${labels[0]} (${x.suffix})` : labels[0], left + width / 2, top + height + 40);
  context.save();
  context.translate(13, top + height / 2);
  context.rotate(-Math.PI / 2);
  context.fillText(y.suffix ? `${labels[1]} (${y.suffix})` : labels[1], 0, 0);
  context.restore();
}

function line(context, x0, y0, x1, y1) {
  context.beginPath();
  context.moveTo(x0, y0);
  context.lineTo(x1, y1);
  context.stroke();
}

function element(name, attributes = {}, text = null) {
  const made = document.createElement(name);
  for (const key of Object.keys(attributes)) made.setAttribute(key, attributes[key]);
  if (text !== null) made.textContent = text;
  return made;
}

// A colour bar with its ends named.
function colourBar(table, low, high, label, reverse = false) {
  const scale = element("span", { class: "scale" });
  const canvas = element("canvas", { width: 256, height: 1, "aria-hidden": "true" });
  const context = canvas.getContext("2d");
  const image = context.createImageData(256, 1);
  for (let i = 0; i < 256; i++) {
    const entry = reverse ? 255 - i : i;
    for (let c = 0; c < 3; c++) image.data[4 * i + c] = table[3 * entry + c];
    image.data[4 * i + 3] = 255;
  }
  context.putImageData(image, 0, 0);
  scale.append(element("span", {}, low), canvas, element("span", {}, high));
  const whole = element("span", { class: "swatch" });
  whole.append(element("span", {}, label), scale);
  return whole;
}
