// Regions of the map, as far as they show in the plane of two coordinates.
const regions = report.regions.map((region, i) => ({
  ...region,
  members: decode(region.members),
  colour: report.categories[i % report.categories.length],
}));
const offMap = regions.find((region) => region.off); // the alarm, or what lies outside
const outsideWords = regions.length && regions[0].off ? "in alarm" : "outside the map";
const coordinateOf = (name) => report.keys.indexOf(name);

// What a box or ball bounds along a coordinate; open ends reach beyond the view.
function boundsAlong(region, coordinate, low, high) {
  const name = report.keys[coordinate];
  const wide = high - low;
  if (region.kind === "box") {
    const pair = region.facts[name];
    return pair ? [pair[0] ?? low - wide, pair[1] ?? high + wide] : null;
  }
  const centre = region.facts.centre[name];
  return centre === undefined ? null : [centre - region.facts.radius, centre + region.facts.radius];
}

// Put a region's outline on a path; false if it has none in this plane.
function outline(context, region, x, y, view, place) {
  if (!region.facts) return false;
  if (region.kind === "polygon") {
    const [a, b] = region.facts.axes.map(coordinateOf);
    if (!((a === x && b === y) || (a === y && b === x))) return false;
    region.facts.vertices.forEach(([u, v], i) => {
      const at = a === x ? place(u, v) : place(v, u);
      if (i) context.lineTo(...at);
      else context.moveTo(...at);
    });
    context.closePath();
    return true;
  }
  const across = x < 0 ? null : boundsAlong(region, x, view[0], view[1]);
  const up = y < 0 ? null : boundsAlong(region, y, view[2], view[3]);
  if (!across && !up) return false;
  const wide = view[1] - view[0], high = view[3] - view[2];
  const [u0, u1] = across || [view[0] - wide, view[1] + wide];
  const [v0, v1] = up || [view[2] - high, view[3] + high];
  const [px, py] = place(u0, v1), [qx, qy] = place(u1, v0);
  if (region.kind === "ball" && across && up) {
    context.ellipse((px + qx) / 2, (py + qy) / 2, (qx - px) / 2, (qy - py) / 2, 0, 0, 2 * Math.PI);
  } else context.rect(px, py, qx - px, qy - py);
  return true;
}

// The other regions are told by their landmarks: discs around them run together to a shape.
function blob(context, region, x, y, frame, ratio, place) {
  if (x < 0 || y < 0 || !region.members) return null;
  const places = [];
  for (let i = 0; i < landmarks.n; i++) {
    if (region.members[i]) places.push(place(landmarks.coordinates[x][i], landmarks.coordinates[y][i]));
  }
  if (!places.length) return null;
  const sheet = element("canvas", { width: Math.round(frame.width * ratio), height: Math.round(frame.height * ratio) });
  const pen = sheet.getContext("2d");
  pen.setTransform(ratio, 0, 0, ratio, -frame.left * ratio, -frame.top * ratio);
  pen.fillStyle = region.colour;
  const radius = Math.max(7, Math.min(16, 0.5 * Math.sqrt((frame.width * frame.height) / landmarks.n)));
  const discs = (r) => {
    pen.beginPath();
    for (const [px, py] of places) {
      pen.moveTo(px + r, py);
      pen.arc(px, py, r, 0, 2 * Math.PI);
    }
    pen.fill();
  };
  discs(radius + 1.6);
  pen.globalCompositeOperation = "destination-out";
  discs(radius);
  pen.globalCompositeOperation = "source-over";
  pen.globalAlpha = 0.13;
  discs(radius);
  context.drawImage(sheet, frame.left, frame.top, frame.width, frame.height);
  // Its name goes to the member that is nearest to the middle, so that it lies in the region.
  const middle = [0, 1].map((c) => places.reduce((sum, at) => sum + at[c], 0) / places.length);
  const gap = (at) => (at[0] - middle[0]) ** 2 + (at[1] - middle[1]) ** 2;
  return places.reduce((best, at) => (gap(at) < gap(best) ? at : best));
}

// Where a region is in the picture: left, top, right, bottom.
function boxAround(region, x, y, view, place) {
  let corners;
  if (region.kind === "polygon") {
    const swapped = coordinateOf(region.facts.axes[0]) !== x;
    corners = region.facts.vertices.map(([u, v]) => (swapped ? place(v, u) : place(u, v)));
  } else {
    const [u0, u1] = (x >= 0 && boundsAlong(region, x, view[0], view[1])) || view.slice(0, 2);
    const [v0, v1] = (y >= 0 && boundsAlong(region, y, view[2], view[3])) || view.slice(2);
    corners = [place(u0, v0), place(u1, v1)];
  }
  const [xs, ys] = [0, 1].map((c) => corners.map((at) => at[c]));
  return [Math.min(...xs), Math.min(...ys), Math.max(...xs), Math.max(...ys)];
}

// Draws the regions and returns their names' places, which go on top of everything.
function drawRegions(context, x, y, view, frame, ratio, colours, here) {
  const place = placer(frame, view);
  const labels = [];
  const right = frame.left + frame.width, bottom = frame.top + frame.height;
  regions.forEach((region, i) => {
    context.beginPath();
    const strong = i === here;
    if (outline(context, region, x, y, view, place)) {
      context.fillStyle = region.colour;
      context.globalAlpha = strong ? 0.2 : 0.09;
      context.fill();
      context.globalAlpha = 1;
      context.strokeStyle = colours.card;
      context.lineWidth = 4;
      context.stroke();
      // Dashed where other coordinates bound it, too.
      const named = region.kind === "box" ? Object.keys(region.facts).filter((key) => !["kind", "margin"].includes(key)) : Object.keys(region.facts.centre || {});
      context.setLineDash(named.some((name) => ![x, y].includes(coordinateOf(name))) ? [7, 4] : []);
      context.strokeStyle = region.colour;
      context.lineWidth = strong ? 3 : 2;
      context.stroke();
      context.setLineDash([]);
      const around = boxAround(region, x, y, view, place);
      const inView = around[0] < right && around[2] > frame.left && around[1] < bottom && around[3] > frame.top;
      if (inView) labels.push({ region, x: around[0] + 1, y: around[1] - 6, centred: false });
    } else if (!region.off && !region.facts) {
      const at = blob(context, region, x, y, frame, ratio, place);
      if (at && at[0] > frame.left && at[0] < right && at[1] > frame.top && at[1] < bottom) {
        labels.push({ region, x: at[0], y: at[1] + 4, centred: true });
      }
    }
  });
  return labels;
}

function drawLabels(context, labels, frame, colours) {
  context.font = "600 " + FONT;
  context.textBaseline = "alphabetic";
  context.textAlign = "left";
  context.lineJoin = "round";
  for (const { region, x, y, centred } of labels) {
    const width = context.measureText(region.name).width;
    const left = Math.max(frame.left + 4, Math.min(frame.left + frame.width - width - 4, x - (centred ? width / 2 : 0)));
    const foot = Math.max(frame.top + 14, Math.min(frame.top + frame.height - 6, y));
    context.globalAlpha = 0.85;
    context.strokeStyle = colours.card;
    context.lineWidth = 5;
    context.strokeText(region.name, left, foot);
    context.globalAlpha = 1;
    context.fillStyle = mix(region.colour, colours.ink, 0.45);
    context.fillText(region.name, left, foot);
  }
}
