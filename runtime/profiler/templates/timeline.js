"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const canvas = document.querySelector("#timeline canvas");
  const tip = document.getElementById("tip");
  const context = canvas.getContext("2d");
  const NAMES = 56, TOP = 8, LANE = 34, STEP = 42, FIRST_CLASS = 4;
  const MIN_CYCLES = 16;
  let view = [0, data.cycles];

  const style = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const room = () => canvas.clientWidth - NAMES;
  const toX = (cycle) => NAMES + (cycle - view[0]) / (view[1] - view[0]) * room();
  const toCycle = (x) => view[0] + (x - NAMES) / room() * (view[1] - view[0]);
  const length = (row) => row.slice(FIRST_CLASS).reduce((sum, cycles) => sum + cycles, 0);

  for (const lane of data.lanes) lane.ends = lane.rows.map((row) => row[0] + length(row));

  // First row of a lane that ends behind a cycle.
  function firstBehind(ends, cycle) {
    let low = 0, high = ends.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (ends[middle] > cycle) high = middle; else low = middle + 1;
    }
    return low;
  }

  // Share of every pixel column that each class covers: right at any zoom.
  function coverage(lane, columns) {
    const kinds = data.kinds.length;
    const cover = new Float32Array(columns * kinds);
    const scale = columns / (view[1] - view[0]);
    for (let r = firstBehind(lane.ends, view[0]); r < lane.rows.length; r++) {
      let at = lane.rows[r][0];
      if (at >= view[1]) break;
      for (let kind = 0; kind < kinds; kind++) {
        const cycles = lane.rows[r][FIRST_CLASS + kind];
        const begin = Math.max(0, (at - view[0]) * scale);
        const end = Math.min(columns, (at + cycles - view[0]) * scale);
        for (let c = Math.floor(begin); c < end; c++) {
          cover[c * kinds + kind] += Math.min(end, c + 1) - Math.max(begin, c);
        }
        at += cycles;
      }
    }
    return cover;
  }

  function drawLane(lane, y, colours, ratio) {
    const columns = Math.max(1, Math.round(room() * ratio));
    const kinds = data.kinds.length;
    const cover = coverage(lane, columns);
    const width = room() / columns;
    for (let c = 0; c < columns; c++) {
      let top = y;
      for (let kind = kinds - 1; kind >= 0; kind--) {
        const height = cover[c * kinds + kind] * LANE;
        if (height > 0) {
          context.fillStyle = colours[kind];
          context.fillRect(NAMES + c * width, top, width + 0.05, height);
          top += height;
        }
      }
    }
    for (let r = firstBehind(lane.ends, view[0]); r < lane.rows.length; r++) {
      const begin = Math.max(NAMES, toX(lane.rows[r][0])), end = toX(lane.ends[r]);
      if (lane.rows[r][0] >= view[1]) break;
      if (end - begin < 24) continue;
      context.fillStyle = style("--ground");
      context.fillRect(end - 0.5, y, 1, LANE);
    }
  }

  function drawLayers(y) {
    data.layers.forEach(([name, begin, end], number) => {
      const left = Math.max(NAMES, toX(begin)), right = Math.min(NAMES + room(), toX(end));
      if (right <= left) return;
      context.fillStyle = style(number % 2 ? "--line" : "--excess");
      context.fillRect(left, y, right - left, LANE);
      context.save();
      context.beginPath();
      context.rect(left, y, right - left - 4, LANE);
      context.clip();
      context.fillStyle = style("--ink");
      context.fillText(name, left + 6, y + LANE / 2);
      context.restore();
    });
  }

  function drawAxis(y) {
    const span = view[1] - view[0];
    const rough = span / Math.max(2, room() / 110);
    const power = 10 ** Math.floor(Math.log10(rough));
    const step = Math.max(1, [1, 2, 5, 10].map((m) => m * power).find((s) => s >= rough));
    context.fillStyle = style("--soft");
    for (let at = Math.ceil(view[0] / step) * step; at <= view[1]; at += step) {
      context.fillRect(toX(at), y, 1, 5);
      context.fillText(at.toLocaleString("en"), Math.min(toX(at) + 4, NAMES + room() - 44), y + 10);
    }
  }

  function draw() {
    const ratio = window.devicePixelRatio || 1;
    canvas.width = canvas.clientWidth * ratio;
    canvas.height = canvas.clientHeight * ratio;
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.clearRect(0, 0, canvas.clientWidth, canvas.clientHeight);
    context.font = "12px system-ui, sans-serif";
    context.textBaseline = "middle";
    const colours = data.kinds.map((kind) => style("--" + kind.replace("_", "-")));
    drawLayers(TOP);
    data.lanes.forEach((lane, number) => drawLane(lane, TOP + STEP * (number + 1), colours, ratio));
    context.fillStyle = style("--ink");
    ["layer", ...data.lanes.map((lane) => lane.unit)].forEach((name, number) => {
      context.fillText(name, 6, TOP + STEP * number + LANE / 2);
    });
    drawAxis(TOP + STEP * (data.lanes.length + 1));
  }

  let waiting = false;
  function redraw() {
    if (waiting) return;
    waiting = true;
    requestAnimationFrame(() => { waiting = false; draw(); });
  }

  function show(begin, end) {
    const span = Math.min(data.cycles, Math.max(MIN_CYCLES, end - begin));
    const first = Math.min(Math.max(0, begin), data.cycles - span);
    view = [first, first + span];
    tip.style.display = "none";
    redraw();
  }

  function zoom(factor, about) {
    show(about - (about - view[0]) * factor, about + (view[1] - about) * factor);
  }

  const middle = () => (view[0] + view[1]) / 2;

  function found(x, y) {
    if (x < NAMES) return null;
    const number = Math.floor((y - TOP) / STEP);
    const cycle = toCycle(x);
    if (number === 0) {
      const layer = data.layers.find(([, begin, end]) => begin <= cycle && cycle < end);
      return layer ? `${layer[0]}\n${(layer[2] - layer[1]).toLocaleString("en")} cycles` : null;
    }
    const lane = data.lanes[number - 1];
    const row = lane && lane.rows[firstBehind(lane.ends, cycle)];
    if (!row || row[0] > cycle) return null;
    const spent = data.titles
      .map((title, k) => [title, row[FIRST_CLASS + k]])
      .filter(([, cycles]) => cycles)
      .map(([title, cycles]) => `${title}: ${cycles.toLocaleString("en")}`);
    return [`${data.labels[row[2]]} (instruction ${row[1]})`, row[3], ...spent].join("\n");
  }

  let held = null;
  canvas.addEventListener("pointerdown", (event) => {
    held = [event.offsetX, ...view];
    canvas.setPointerCapture(event.pointerId);
  });
  canvas.addEventListener("pointerup", () => { held = null; });
  canvas.addEventListener("pointercancel", () => { held = null; });
  canvas.addEventListener("pointerleave", () => { tip.style.display = "none"; });
  canvas.addEventListener("pointermove", (event) => {
    if (held) {
      const moved = (held[0] - event.offsetX) / room() * (held[2] - held[1]);
      show(held[1] + moved, held[2] + moved);
      return;
    }
    const text = found(event.offsetX, event.offsetY);
    tip.style.display = text ? "block" : "none";
    if (!text) return;
    tip.textContent = text;
    const left = Math.min(event.offsetX + 14, canvas.clientWidth - tip.offsetWidth - 4);
    tip.style.left = `${Math.max(0, left)}px`;
    tip.style.top = `${event.offsetY + 16}px`;
  });
  canvas.addEventListener("dblclick", (event) => {
    const cycle = toCycle(event.offsetX);
    const layer = data.layers.find(([, begin, end]) => begin <= cycle && cycle < end);
    if (layer) show(layer[1], layer[2]);
  });
  canvas.addEventListener("wheel", (event) => {
    if (!event.ctrlKey) return;
    event.preventDefault();
    zoom(Math.exp(event.deltaY / 300), toCycle(event.offsetX));
  }, { passive: false });
  canvas.addEventListener("keydown", (event) => {
    const step = (view[1] - view[0]) / 8;
    const keys = {
      ArrowLeft: () => show(view[0] - step, view[1] - step),
      ArrowRight: () => show(view[0] + step, view[1] + step),
      "+": () => zoom(0.5, middle()),
      "-": () => zoom(2, middle()),
      0: () => show(0, data.cycles),
    };
    if (!keys[event.key]) return;
    event.preventDefault();
    keys[event.key]();
  });
  document.getElementById("in").addEventListener("click", () => zoom(0.5, middle()));
  document.getElementById("out").addEventListener("click", () => zoom(2, middle()));
  document.getElementById("all").addEventListener("click", () => show(0, data.cycles));
  window.addEventListener("resize", redraw);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
  draw();
})();
