// What keeps somebody from reading a page, one sentence each: text that overlaps, is cut or is too pale, boxes that are too
// narrow for what is in them, and marks outside of the frame of their plot.

const ROOM = 1; // pixels: places are rounded
const OVERLAP = 3; // letters of neighbouring lines may touch
const LEAST_CONTRAST = 4.5; // WCAG 2.2, 1.4.3
const IN_FRAME = 0.5; // units of a picture

function layout() {
  return [...narrow(), ...cut(), ...overlapping(), ...pale(), ...astray()];
}

function named(element, said) {
  return `${element.localName} "${(element.textContent || "").trim().slice(0, 40)}" ${said}`;
}

// Boxes whose contents are wider than they are, unless they scroll.
function* narrow() {
  for (const each of document.querySelectorAll("body, body *:not(svg *)")) {
    const style = getComputedStyle(each);
    if (style.display.startsWith("inline") || ["auto", "scroll"].includes(style.overflowX)) continue;
    if (each.scrollWidth > each.clientWidth + ROOM && each.clientWidth) yield named(each, "is wider than its box");
  }
}

// Text of a picture that its edge cuts.
function* cut() {
  for (const picture of document.querySelectorAll("svg")) {
    const whole = picture.getBoundingClientRect();
    for (const each of picture.querySelectorAll("text")) {
      const own = each.getBoundingClientRect();
      if (own.left < whole.left - ROOM || own.right > whole.right + ROOM) yield named(each, "is cut");
      else if (own.top < whole.top - ROOM || own.bottom > whole.bottom + ROOM) yield named(each, "is cut");
    }
  }
}

function* written() {
  const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walk.nextNode()) {
    const parent = walk.currentNode.parentElement;
    if (!walk.currentNode.data.trim() || !parent.checkVisibility() || parent.closest("title, desc, script")) continue;
    yield [walk.currentNode, parent];
  }
}

// Lines of text that lie on one another.
function* overlapping() {
  const lines = [];
  for (const [text, parent] of written()) {
    const range = document.createRange();
    range.selectNodeContents(text);
    const rects = parent.closest("svg") ? [parent.getBoundingClientRect()] : range.getClientRects();
    for (const rect of rects) if (rect.width && rect.height) lines.push([rect, parent, text]);
  }
  lines.sort((one, other) => one[0].top - other[0].top);
  for (let at = 0; at < lines.length; at++) {
    const [rect, parent, text] = lines[at];
    for (let next = at + 1; next < lines.length && lines[next][0].top < rect.bottom - OVERLAP; next++) {
      const [other, below, words] = lines[next];
      const across = Math.min(rect.right, other.right) - Math.max(rect.left, other.left);
      const high = Math.min(rect.bottom, other.bottom) - other.top;
      if (words !== text && across > OVERLAP && high > OVERLAP) yield named(parent, `lies on "${below.textContent.trim().slice(0, 40)}"`);
    }
  }
}

function rgba(colour) {
  const [red, green, blue, alpha = 1] = colour.match(/[\d.]+/g).map(Number);
  return [red, green, blue, alpha];
}

function over(colour, ground) {
  return [0, 1, 2].map((at) => colour[at] * colour[3] + ground[at] * (1 - colour[3]));
}

function luminance(colour) {
  const [red, green, blue] = colour.map((each) => (each /= 255) <= 0.04045 ? each / 12.92 : ((each + 0.055) / 1.055) ** 2.4);
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
}

// What is behind an element: grounds of those that it is in, and boxes of its picture that are drawn before it.
function behind(element) {
  const layers = [];
  for (let each = element; each; each = each.parentElement) layers.unshift(rgba(getComputedStyle(each).backgroundColor));
  const { left, right, top, bottom } = element.getBoundingClientRect();
  const [x, y] = [(left + right) / 2, (top + bottom) / 2];
  for (const each of element.closest("svg")?.querySelectorAll("rect") || []) {
    const box = each.getBoundingClientRect(), style = getComputedStyle(each);
    const within = box.left <= x && x <= box.right && box.top <= y && y <= box.bottom;
    if (within) layers.push([...rgba(style.fill).slice(0, 3), Number(style.fillOpacity)]);
  }
  return layers.reduce((ground, layer) => over(layer, ground), [255, 255, 255]);
}

// Text that hardly differs from its ground.
function* pale() {
  for (const [, element] of written()) {
    const ground = behind(element), style = getComputedStyle(element);
    const both = [ground, over(rgba(element.closest("svg") ? style.fill : style.color), ground)].map(luminance);
    const contrast = (Math.max(...both) + 0.05) / (Math.min(...both) + 0.05);
    if (contrast < LEAST_CONTRAST) yield named(element, `has a contrast of ${contrast.toFixed(2)}`);
  }
}

function ends(line) {
  return ["x1", "x2", "y1", "y2"].map((name) => Number(line.getAttribute(name)));
}

// Frames of a picture's plots, left, right, top and bottom: lines of a scale that are equally long and near one another.
function frames(picture) {
  const scales = {};
  for (const [x1, x2, y1, y2] of [...picture.querySelectorAll(".grid")].map(ends)) {
    const [key, at] = y1 === y2 ? [`across ${x1} ${x2}`, y1] : [`up ${y1} ${y2}`, x1];
    (scales[key] ||= []).push(at);
  }
  const found = [];
  for (const [key, places] of Object.entries(scales)) {
    const [kind, near, far] = key.split(" ");
    places.sort((one, other) => one - other);
    const least = Math.min(...places.slice(1).map((at, before) => at - places[before]));
    let first = places[0];
    places.forEach((at, number) => {
      if (places[number + 1] - at <= 2 * least) return;
      found.push(kind === "up" ? [first, at, +near, +far] : [+near, +far, first, at]);
      first = places[number + 1];
    });
  }
  return found;
}

// Dots and intervals outside of every frame of their picture.
function* astray() {
  for (const picture of document.querySelectorAll("svg")) {
    const every = frames(picture);
    for (const mark of picture.querySelectorAll(".point, .interval, .limit")) {
      const centre = ["cx", "cx", "cy", "cy"].map((name) => Number(mark.getAttribute(name)));
      const [x1, x2, y1, y2] = mark.localName === "circle" ? centre : ends(mark);
      const within = every.some(([left, right, top, bottom]) =>
        left <= Math.min(x1, x2) + IN_FRAME && Math.max(x1, x2) <= right + IN_FRAME &&
        top <= Math.min(y1, y2) + IN_FRAME && Math.max(y1, y2) <= bottom + IN_FRAME);
      if (!within) yield `${mark.localName} at ${x1}, ${y1} is outside of every frame of "${picture.querySelector("title").textContent}"`;
    }
  }
}
