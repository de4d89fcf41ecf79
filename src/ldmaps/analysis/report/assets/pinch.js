// Two fingers on a canvas. begin() is told nothing and returns a function of the fingers' change since:
// how much farther apart they are, where their middle was, and where it is now.
function watchPinch(canvas, begin) {
  const fingers = new Map();
  let change = null, first = null, waiting = false, busy = false;
  const place = (event) => {
    const box = canvas.getBoundingClientRect();
    return [event.clientX - box.left, event.clientY - box.top];
  };
  const both = () => {
    const [a, b] = [...fingers.values()];
    return { middle: [(a[0] + b[0]) / 2, (a[1] + b[1]) / 2], apart: Math.max(1, Math.hypot(a[0] - b[0], a[1] - b[1])) };
  };
  canvas.addEventListener("pointerdown", (event) => {
    if (event.pointerType !== "touch") return;
    if (!fingers.size) busy = false;
    fingers.set(event.pointerId, place(event));
    change = null;
    if (fingers.size !== 2) return;
    busy = true;
    first = both();
    change = begin();
  });
  canvas.addEventListener("pointermove", (event) => {
    if (!fingers.has(event.pointerId)) return;
    fingers.set(event.pointerId, place(event));
    if (!change || waiting) return;
    waiting = true;
    requestAnimationFrame(() => {
      waiting = false;
      if (!change) return;
      const now = both();
      change(now.apart / first.apart, first.middle, now.middle);
    });
  });
  for (const name of ["pointerup", "pointercancel"]) {
    canvas.addEventListener(name, (event) => {
      if (fingers.delete(event.pointerId)) change = null;
    });
  }
  // One finger scrolls the page, two are for the canvas.
  for (const name of ["touchstart", "touchmove"]) {
    canvas.addEventListener(name, (event) => {
      if (event.touches.length > 1 && event.cancelable) event.preventDefault();
    }, { passive: false });
  }
  // Until the last finger is up, what they do is no tap and no drag.
  return () => busy;
}
