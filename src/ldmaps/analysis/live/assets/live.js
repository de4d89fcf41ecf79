// Controls, and what happens when a frame comes.
function press(id, on) {
  byId(id).setAttribute("aria-pressed", String(on));
}

function pause() {
  frozen = frozen ? null : { trail: copyOf(past), now: performance.now(), current: head && head.current };
  press("pause", frozen !== null);
  byId("pause").textContent = frozen ? "Resume" : "Pause";
  picture.needed = true;
  if (!frozen) drawBack();
  showStatus();
}

function follow() {
  picture.following = !picture.following;
  press("follow", picture.following);
  picture.view = picture.home;
  drawBack();
}

function clearTrail() {
  picture.since = performance.now();
  picture.needed = true;
}

function fillSelect(id, texts, chosen, change) {
  const select = byId(id);
  select.replaceChildren(...texts.map((text, i) => element("option", { value: i }, text)));
  select.value = String(chosen);
  select.addEventListener("change", () => {
    change(Number(select.value));
    legend();
    picture.needed = true;
  });
}

function startControls() {
  const labels = axes.map((axis) => axis.label);
  for (const which of ["x", "y"]) {
    fillSelect(`${which}-axis`, labels, picture[which], (chosen) => {
      picture[which] = chosen;
      setHome();
    });
  }
  const modes = MODES.filter(([key]) => key !== "region" || regions.length);
  fillSelect("colour", modes.map((entry) => entry[1]), 0, (chosen) => (picture.mode = modes[chosen][0]));
  fillSelect("trail-length", LENGTHS.map((entry) => entry[1]), 1, (chosen) => {
    picture.length = 1000 * LENGTHS[chosen][0];
    setHome();
  });
  byId("pause").addEventListener("click", pause);
  byId("follow").addEventListener("click", follow);
  byId("clear").addEventListener("click", clearTrail);
  byId("over").addEventListener("keydown", (event) => {
    const act = { " ": pause, f: follow, c: clearTrail }[event.key.toLowerCase()];
    if (!act || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    act();
  });
  document.addEventListener("visibilitychange", () => {
    if (document.hidden) return;
    seen.unread = 0;
    document.title = report.title;
  });
}

// -- frames ---------------------------------------------------------------------------

function take(newHead, rows) {
  const now = performance.now();
  const fresh = newHead.seconds !== undefined; // the first frame of a connection brings the past along
  head = newHead;
  if (fresh) {
    past.n = 0;
    // A server that began anew counts its events from 0.
    if (head.alarms <= seen.alarm) {
      seen.alarm = -1;
      byId("alarms").replaceChildren();
    }
  }
  addRows(past, rows, head.width, now);
  addSeconds();
  addAlarms(head.events);
  announce(now);
  showNumbers();
  showStatus();
  showRegions();
  if (!frozen) {
    showNow();
    if (picture.following) {
      const view = followedView();
      if (view.some((value, i) => value !== picture.view[i])) drawBack();
    }
  }
  picture.needed = true;
  document.documentElement.dataset.frames = ++taken;
  if (taken === 1) {
    drawOver(now);
    document.documentElement.dataset.firstDraw = now.toFixed(0);
  }
}

function redraw() {
  picture.base = null;
  legend();
  drawBack();
}

startRegions();
startAlarms();
startControls();
legend();
setHome();
let size = "";
new ResizeObserver(() => {
  const box = byId("live-plot").getBoundingClientRect();
  const now = `${Math.round(box.width)} ${Math.round(box.height)} ${window.devicePixelRatio}`;
  if (now !== size) {
    size = now;
    requestAnimationFrame(drawBack);
  }
}).observe(byId("live-plot"));
requestAnimationFrame(loop);
return { take, showStatus, redraw };
