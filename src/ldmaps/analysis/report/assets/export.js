// The map and the free energy as pictures, and the points in view as a table that ldmaps frames takes as picks.
const EXPORT_RATIO = 3;

function save(name, blob) {
  const link = element("a", { href: URL.createObjectURL(blob), download: name });
  link.click();
  // Not at once: the browser reads it after this has returned.
  setTimeout(() => URL.revokeObjectURL(link.href), 60000);
}

function fileName(suffix) {
  return `${document.title.replace(/[^\p{L}\p{N}._-]+/gu, "-").replace(/^-+|-+$/g, "") || "map"}${suffix}`;
}

const LEGEND_FONT = "12px system-ui, sans-serif";

// Draw what a legend's node shows from x on, or only measure it; returns where it ends.
function drawLegendPart(context, colours, node, x, y, paint) {
  if (node.nodeType === Node.TEXT_NODE) {
    context.fillStyle = colours.ink;
    if (paint) context.fillText(node.textContent, x, y);
    return x + context.measureText(node.textContent).width;
  }
  const kind = node.tagName.toUpperCase(), font = context.font;
  if (kind === "CANVAS") {
    if (paint) context.drawImage(node, x, y - 5, 110, 10);
    return x + 110;
  }
  if (kind === "SVG") {
    const r = Number(node.querySelector("circle").getAttribute("r"));
    context.strokeStyle = colours.ink;
    context.lineWidth = 1;
    context.beginPath();
    context.arc(x + r + 1, y, r, 0, 2 * Math.PI);
    if (paint) context.stroke();
    return x + 2 * r + 2;
  }
  if (kind === "I" && !node.textContent) {
    context.fillStyle = node.style.background;
    if (paint) context.fillRect(x, y - 5, 10, 10);
    return x + 10;
  }
  if (kind === "SUB") [context.font, y] = [LEGEND_FONT.replace("12", "9"), y + 3];
  else if (kind === "I") context.font = `italic ${LEGEND_FONT}`;
  const apart = node.classList.contains("swatch") || node.classList.contains("scale") ? 6 : 0;
  node.childNodes.forEach((child, i) => (x = drawLegendPart(context, colours, child, i ? x + apart : x, y, paint)));
  context.font = font;
  return x;
}

// Draw a legend's entries from (14, top) on, each whole on a line; returns the height they take.
function drawLegend(context, colours, legend, top, width, paint) {
  let x = 14, y = top + 16;
  context.font = LEGEND_FONT;
  context.textBaseline = "middle";
  for (const entry of legend.children) {
    const wide = drawLegendPart(context, colours, entry, 0, y, false);
    if (!wide) continue;
    if (x > 14 && x + wide > width - 8) [x, y] = [14, y + 34];
    drawLegendPart(context, colours, entry, x, y, paint);
    x += wide + 20;
  }
  return y + 20 - top;
}

// A picture of a plot with its legend, in the colours of the light theme and fine enough for print.
function picture(canvas, legend) {
  const dark = isDark(), chosen = energyPlot.selected;
  if (dark) setTheme(false);
  fitted.ratio = EXPORT_RATIO;
  energyPlot.selected = -1; // the ring is about the structure beside it, which the picture does not show
  drawAll();
  const scale = EXPORT_RATIO, width = canvas.width / scale, top = canvas.height / scale, colours = theme();
  const measured = drawLegend(element("canvas").getContext("2d"), colours, legend, top, width, false);
  const made = element("canvas", { width: canvas.width, height: canvas.height + measured * scale });
  const context = made.getContext("2d");
  context.fillStyle = colours.card;
  context.fillRect(0, 0, made.width, made.height);
  context.drawImage(canvas, 0, 0);
  context.scale(scale, scale);
  drawLegend(context, colours, legend, top, width, true);
  fitted.ratio = 0;
  energyPlot.selected = chosen;
  if (dark) setTheme(true);
  drawAll();
  return made;
}

const quotedCell = (text) => (/[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);

// Points within the axes, of the files shown; time in ps as ldmaps embed writes it.
function tableInView() {
  const [x0, x1, y0, y1] = scatter.view, xs = scatter.axes[scatter.x].values, ys = scatter.axes[scatter.y].values;
  const frame = points.fields.find((field) => field.key === "frame"), time = points.fields.find((field) => field.key === "time");
  const own = points.fields.filter((field) => !["frame", "time", "file", "distance"].includes(field.key));
  const distance = points.fields.find((field) => field.key === "distance");
  const inside = own.some((field) => field.label === "inside") ? null : points.inside;
  const names = report.keys;
  const named = (field) => (field.key === "column" ? field.label : field.key);
  const lines = [["file", "frame", "time", ...names, ...(distance ? ["distance"] : []),
    ...(inside ? ["inside"] : []), ...(points.nearest ? ["nearest"] : []), ...own.map((field) => quotedCell(named(field)))].join(",")];
  const scale = time && time.unit === "ns" ? 1000 : 1;
  const number = (value) => (Number.isFinite(value) ? String(Number(value.toPrecision(9))) : "");
  for (let i = 0; i < points.n; i++) {
    if (!isShown(i) || !(xs[i] >= x0 && xs[i] <= x1 && ys[i] >= y0 && ys[i] <= y1)) continue;
    const file = report.files[points.fileOf ? points.fileOf[i] : 0] ?? "";
    lines.push(
      [
        quotedCell(file),
        frame ? number(frame.values[i]) : i,
        time ? number(time.values[i] * scale) : "",
        ...points.coordinates.map((values) => number(values[i])),
        ...(distance ? [number(distance.values[i])] : []),
        ...(inside ? [inside[i]] : []),
        ...(points.nearest ? [landmarks.number[points.nearest[i]] ?? ""] : []),
        ...own.map((field) => (field.texts?.length ? quotedCell(field.texts[field.values[i]] ?? "") : number(field.values[i]))),
      ].join(","),
    );
  }
  return lines.join("\n") + "\n";
}

function startExports() {
  byId("save-map").addEventListener("click", () => {
    picture(scatter.canvas, byId("scatter-legend")).toBlob((blob) => save(fileName("-map.png"), blob));
  });
  byId("save-energy").addEventListener("click", () => {
    picture(energyPlot.canvas, byId("energy-legend")).toBlob((blob) => save(fileName("-energy.png"), blob));
  });
  byId("save-table").addEventListener("click", () => {
    save(fileName(".csv"), new Blob([tableInView()], { type: "text/csv" }));
  });
}
