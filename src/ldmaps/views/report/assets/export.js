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

// A picture of a plot with its legend, in the colours of the light theme and fine enough for print.
function picture(canvas, legend) {
  const dark = isDark();
  if (dark) setTheme(false);
  fitted.ratio = EXPORT_RATIO;
  drawAll();
  const scale = EXPORT_RATIO, made = element("canvas", { width: canvas.width, height: canvas.height + 50 * scale });
  const context = made.getContext("2d"), colours = theme();
  context.fillStyle = colours.card;
  context.fillRect(0, 0, made.width, made.height);
  context.drawImage(canvas, 0, 0);
  context.scale(scale, scale);
  context.font = "12px system-ui, sans-serif";
  context.textBaseline = "middle";
  let x = 14, y = canvas.height / scale + 16;
  const draw = (node) => {
    if (node.nodeType === Node.TEXT_NODE) {
      const width = context.measureText(node.textContent).width;
      if (x > 14 && x + width > canvas.width / scale - 8) [x, y] = [14, y + 17];
      context.fillStyle = colours.ink;
      context.fillText(node.textContent, x, y);
      // Letters of one word, such as those of a unit, stand together.
      x += width + (node.textContent.length > 1 && !node.textContent.endsWith(" ") ? 6 : 0);
    } else if (node.tagName === "CANVAS") {
      context.drawImage(node, x + 4, y - 5, 110, 10);
      x += 120;
    } else if (node.tagName === "I" && !node.textContent) {
      context.fillStyle = node.style.background;
      context.fillRect(x, y - 5, 10, 10);
      x += 14;
    } else {
      node.childNodes.forEach(draw);
      if (node.classList?.contains("swatch")) x += 10;
    }
  };
  draw(legend);
  fitted.ratio = 0;
  if (dark) setTheme(true);
  drawAll();
  return made;
}

const quotedCell = (text) => (/[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);

// Points within the axes, of the files shown; time in ps as ldmaps embed writes it.
function tableInView() {
  const [x0, x1, y0, y1] = scatter.view, xs = scatter.axes[scatter.x].values, ys = scatter.axes[scatter.y].values;
  const frame = points.fields.find((field) => field.key === "frame"), time = points.fields.find((field) => field.key === "time");
  const own = points.fields.filter((field) => !["frame", "time", "file"].includes(field.key));
  const names = report.names.map((_, i) => `psi${i + 2}`);
  const named = (field) => (field.key === "column" ? field.label : field.key);
  const lines = [["file", "frame", "time", ...names, ...own.map((field) => quotedCell(named(field)))].join(",")];
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
