// The timelines of a chapter. timelinesFigure() makes the figure of chapter N, with a <canvas
// data-timeline="I"> for each timeline. drawTimelines() draws one step in lanes (rows of bars); all
// lanes of a figure zoom and move together.
const timelinesFigure = (chapter, number) => {
  const { timelines } = chapter;
  if (!timelines.length) return [];
  const id = `timeline-${number}`;
  // A slice is five numbers (json_of() in step_timeline.hpp).
  const slicesOf = ({ lanes }) => lanes.flatMap(({ slices }) => slices.filter((_, i) => i % 5 === 0).map((kind, i) => ({ kind, merged: slices[5 * i + 4] })));
  const kinds = unique(timelines.flatMap(slicesOf).map((slice) => slice.kind)).sort((a, b) => a - b).map((kind) => data.kinds[kind]);
  const note = (timeline) => {
    const slices = slicesOf(timeline);
    return `Step ${timeline.step} of rank ${timeline.rank} lasts ${seconds(timeline.seconds)}.` +
      (timeline.merged_seconds > 0 ? ` Neighbours shorter than ${seconds(timeline.merged_seconds)} are drawn as one: ${slices.length} bars stand for ${slices.reduce((sum, slice) => sum + slice.merged, 0)} operations and waits.` : "") +
      (timeline.host_is_done ? " Its host had issued all of it before." : "") +
      (timeline.left_out > 0 ? ` ${timeline.left_out} more ways to servers, alike, are not drawn.` : "");
  };
  const button = (act, name, shown = name) => element("button", { type: "button", "data-do": act, "aria-label": name, title: name }, shown);
  const longest = (lane) => lane.longest.map(({ name, kind, seconds: lasts }) => `${name} (${data.kinds[kind].heading}) ${seconds(lasts)}`).join(", ");
  return [element("figure", { class: "panel wide timelines", id, "data-chapter": number },
    element("figcaption", {}, element("h2", {}, "One step as a timeline"),
      paragraph("A lane for each stream of one rank, while its device is in one step; narrow bars say why a stream stands still. The host runs ahead: what it issues may belong to the next step."),
      paragraph("Drag to move. Click, then the wheel zooms; double click shows one bar. Keys: arrows go from bar to bar and lane to lane, Shift and arrows move, + and − zoom, Enter shows the bar, Home the whole step.",
        { class: "keys", id: `${id}-keys` }),
      paragraph("Drag to move; two fingers zoom.", { class: "touch" })),
    element("div", { class: "tools", role: "toolbar", "aria-label": "What is shown of the step" }, button("in", "Zoom in", "+"), button("out", "Zoom out", "−"),
      button("earlier", "Earlier", "←"), button("later", "Later", "→"), button("whole", "Whole step"), element("span", { class: "range" })),
    element("ul", { class: "key" }, kinds.map((kind) => element("li", {}, element("i", { class: kind.waits && "wait", style: `background: var(--part-${kind.colour})` }), kind.heading))),
    timelines.map((timeline, i) => element("section", {}, element("h3", { id: `${id}-${i}` }, pointText(timeline)), paragraph(note(timeline), { id: `${id}-${i}-says` }),
      element("canvas", { "data-timeline": i, role: "img", tabindex: 0, "aria-labelledby": `${id}-${i}`, "aria-describedby": `${id}-${i}-says ${id}-keys` }))),
    element("div", { class: "live", "aria-live": "polite" }),
    element("div", { class: "tip", "aria-hidden": "true", hidden: true }),
    element("details", { class: "listing" }, element("summary", {}, "What is in view, bar by bar"), element("div", {})),
    folded("The lanes as a table", tableElement("One step as a timeline", {
      columns: [left("strategy"), "GPUs", left("lane"), "busy", "of the step", "operations", left("the longest")],
      rows: timelines.flatMap((timeline) => timeline.lanes.map((lane) =>
        [timeline.strategy, timeline.gpus, lane.name, seconds(lane.busy_seconds), share(lane.busy_seconds / timeline.seconds), lane.operations, longest(lane)])),
    })))];
};

const drawTimelines = (() => {
  const axisHeight = 24, barHeight = 18, laneGap = 5, labelHeight = 14, touching = 4;
  const closest = 1e-6; // largest zoom: the smallest view, as a share of the step

  // Converts the slices of each lane, five numbers each (step_timeline.hpp), to objects with times
  // in seconds.
  const unpacked = (timeline) => timeline.lanes.map(({ name, slices }) => {
    const list = [];
    for (let i = 0, time = 0; i < slices.length; i += 5) {
      const start = time + slices[i + 2];
      time = start + slices[i + 3];
      list.push({ kind: slices[i], name: timeline.names[slices[i + 1]], start: start * 1e-9, end: time * 1e-9, merged: slices[i + 4] });
    }
    return { name, slices: list };
  });

  const figures = new Map(); // figure element -> its Figure

  // State and drawing of one figure: the view [from, to] in seconds, which all its timelines share,
  // and the chosen slice.
  class Figure {
    constructor(figure, chapter) {
      this.element = figure;
      this.kinds = data.kinds;
      this.strips = [...figure.querySelectorAll("canvas")].map((canvas) => {
        const timeline = chapter.timelines[canvas.dataset.timeline];
        return { canvas, timeline, lanes: unpacked(timeline) };
      });
      this.longest = Math.max(...this.strips.map((strip) => strip.timeline.seconds));
      this.view = [0, this.longest];
      this.chosen = null; // {strip, lane, slice}; null = no slice is chosen
      this.pointers = new Map();
      this.listen();
      new ResizeObserver(() => this.later()).observe(figure);
    }

    // ---- The view. show() limits it to the step and redraws with the next frame.
    show(from, to) {
      const span = Math.min(this.longest, Math.max(this.longest * closest, to - from));
      const start = Math.min(this.longest - span, Math.max(0, (from + to - span) / 2));
      this.view = [start, start + span];
      this.later();
    }
    zoom(factor, around = (this.view[0] + this.view[1]) / 2) {
      const [from, to] = this.view;
      this.show(around - (around - from) / factor, around + (to - around) / factor);
    }
    move(share) {
      const by = share * (this.view[1] - this.view[0]);
      const kept = Math.min(this.longest - this.view[1], Math.max(-this.view[0], by));
      this.show(this.view[0] + kept, this.view[1] + kept);
    }
    whole() { this.show(0, this.longest); }
    focusOn({ start, end }) {
      const margin = (end - start) * 0.6;
      this.show(start - margin, end + margin);
    }
    later() {
      if (this.waits) return;
      this.waits = requestAnimationFrame(() => { this.waits = 0; this.draw(); });
    }

    // ---- Drawing.
    layout(strip) {
      const width = strip.canvas.parentElement.clientWidth;
      const narrow = width < 560;
      const pen = strip.canvas.getContext("2d");
      pen.font = this.font();
      const names = this.strips.flatMap((one) => one.lanes.map((lane) => lane.name));
      const gutter = narrow ? 0 : 14 + Math.max(...names.map((name) => pen.measureText(name).width));
      const row = barHeight + laneGap + (narrow ? labelHeight : 0);
      return { width, narrow, gutter, row, height: axisHeight + strip.lanes.length * row + 2, right: width - 8 };
    }
    font(weight = "") { return `${weight} 12px system-ui, -apple-system, "Segoe UI", Roboto, sans-serif`; }
    x(place, time) { return place.gutter + ((time - this.view[0]) / (this.view[1] - this.view[0])) * (place.right - place.gutter); }
    time(place, x) { return this.view[0] + ((x - place.gutter) / (place.right - place.gutter)) * (this.view[1] - this.view[0]); }

    draw() {
      if (!this.element.isConnected) return;
      this.fills = this.kinds.map((kind) => colour("part-" + kind.colour));
      for (const strip of this.strips) this.drawStrip(strip);
      const [from, to] = this.view;
      this.element.querySelector(".range").textContent = `${seconds(from)} to ${seconds(to)}`;
      this.list();
    }
    drawStrip(strip) {
      const { canvas, lanes, timeline } = strip;
      const place = (strip.place = this.layout(strip));
      const dots = Math.max(window.devicePixelRatio || 1, document.documentElement.dataset.print === undefined ? 1 : 2);
      canvas.width = Math.round(place.width * dots);
      canvas.height = Math.round(place.height * dots);
      const pen = canvas.getContext("2d");
      pen.scale(dots, dots);
      pen.textBaseline = "middle";
      pen.font = this.font();
      this.drawAxis(pen, place);
      lanes.forEach((lane, i) => {
        const top = axisHeight + i * place.row + (place.narrow ? labelHeight : 0);
        pen.fillStyle = colour("soft");
        if (place.narrow) pen.fillText(lane.name, 0, top - labelHeight / 2);
        else pen.fillText(lane.name, 0, top + barHeight / 2);
        pen.fillStyle = colour("ground");
        pen.fillRect(place.gutter, top, place.right - place.gutter, barHeight);
        pen.save();
        pen.beginPath();
        pen.rect(place.gutter, top - 2, place.right - place.gutter, barHeight + 4);
        pen.clip();
        for (let k = this.first(lane); k < lane.slices.length && lane.slices[k].start < this.view[1]; ++k) this.drawSlice(pen, place, top, lane.slices[k]);
        const chosen = this.chosen;
        if (chosen && chosen.strip === strip && chosen.lane === i) {
          const slice = lane.slices[chosen.slice];
          const left = this.x(place, slice.start);
          pen.strokeStyle = colour("ink");
          pen.lineWidth = 2;
          pen.strokeRect(left, top, Math.max(2, this.x(place, slice.end) - left), barHeight);
        }
        pen.restore();
      });
      const end = this.x(place, timeline.seconds);
      if (timeline.seconds >= this.longest || end > place.right) return;
      pen.fillStyle = colour("paper");
      pen.fillRect(Math.max(place.gutter, end), axisHeight - 1, place.right - Math.max(place.gutter, end) + 1, place.height);
      pen.fillStyle = colour("soft");
      if (place.right - end > 90) pen.fillText("the step ends", Math.max(place.gutter, end) + 6, axisHeight + barHeight / 2);
    }
    drawSlice(pen, place, top, slice) {
      const left = Math.max(place.gutter - 2, this.x(place, slice.start));
      const right = Math.min(place.right + 2, this.x(place, slice.end));
      const width = Math.max(0.8, right - left);
      pen.fillStyle = this.fills[slice.kind];
      if (this.kinds[slice.kind].waits) return pen.fillRect(left, top + barHeight / 3, width, barHeight / 3);
      pen.fillRect(left, top, width > 3 ? width - 0.7 : width, barHeight);
      if (width < 34) return;
      const text = this.fitting(pen, this.title(slice), width - 8);
      if (!text) return;
      pen.fillStyle = this.onto(this.fills[slice.kind]);
      pen.fillText(text, left + 4, top + barHeight / 2 + 0.5);
    }
    fitting(pen, text, width) {
      if (pen.measureText(text).width <= width) return text;
      const letters = Math.floor((width / pen.measureText(text).width) * text.length) - 1;
      return letters < 3 ? "" : text.slice(0, letters) + "…";
    }
    onto(fill) {
      const [r, g, b] = [1, 3, 5].map((at) => parseInt(fill.slice(at, at + 2), 16));
      return 0.299 * r + 0.587 * g + 0.114 * b > 140 ? "#10161e" : "#ffffff";
    }
    drawAxis(pen, place) {
      const [from, to] = this.view;
      const rough = ((to - from) * (place.narrow ? 80 : 110)) / (place.right - place.gutter);
      const power = 10 ** Math.floor(Math.log10(rough));
      const step = power * [1, 2, 5, 10].find((factor) => factor * power >= rough);
      const [size, unit] = [[1, "s"], [1e-3, "ms"], [1e-6, "µs"], [1e-9, "ns"]].find(([factor]) => to >= factor) || [1e-9, "ns"];
      const digits = Math.min(9, Math.max(0, -Math.floor(Math.log10(step / size) + 1e-9)));
      pen.strokeStyle = colour("line");
      pen.lineWidth = 1;
      pen.fillStyle = colour("soft");
      for (let i = Math.ceil(from / step - 1e-9); i * step <= to * (1 + 1e-12); ++i) {
        const x = Math.round(this.x(place, i * step)) + 0.5;
        const text = i === 0 ? "0" : `${((i * step) / size).toFixed(digits)} ${unit}`;
        pen.beginPath();
        pen.moveTo(x, axisHeight - 5);
        pen.lineTo(x, place.height);
        pen.stroke();
        const width = pen.measureText(text).width;
        pen.fillText(text, Math.min(place.right - width, Math.max(place.gutter, x - width / 2)), 9);
      }
    }
    // Index of the lane's first slice that ends inside or after the view, by bisection.
    first(lane) {
      let [low, high] = [0, lane.slices.length];
      while (low < high) {
        const middle = (low + high) >> 1;
        if (lane.slices[middle].end <= this.view[0]) low = middle + 1;
        else high = middle;
      }
      return low;
    }

    // ---- Texts about slices.
    title(slice) { return slice.merged > 1 ? `${slice.merged} × ${slice.name}` : slice.name; }
    lines(strip, lane, slice) {
      const what = strip.lanes[lane].slices[slice];
      const heading = this.kinds[what.kind].heading;
      const name = this.kinds[what.kind].waits ? heading : what.merged > 1 ? `${what.merged} operations: ${what.name}` : what.name;
      return [name, `${strip.lanes[lane].name}${this.kinds[what.kind].waits ? "" : ", " + heading}`,
        `starts at ${seconds(what.start)}, lasts ${seconds(what.end - what.start)}`];
    }
    // Fills the table of all bars in view if it is open.
    list() {
      const details = this.element.querySelector("details.listing");
      if (!details.open) return;
      const most = 300;
      const rows = [];
      let more = 0;
      for (const strip of this.strips) {
        strip.lanes.forEach((lane) => {
          for (let k = this.first(lane); k < lane.slices.length && lane.slices[k].start < this.view[1]; ++k) {
            if (rows.length < most) rows.push([strip.timeline.strategy, lane.name, lane.slices[k]]);
            else ++more;
          }
        });
      }
      details.lastElementChild.replaceWith(tableElement(more ? `The first ${most} of ${most + more} bars; zoom in to see the others` : `${rows.length} bars`, {
        columns: ["strategy", "lane", "what", "kind"].map(left).concat("starts at", "lasts"),
        rows: rows.map(([strategy, lane, slice]) => [strategy, lane, this.title(slice), this.kinds[slice.kind].heading, seconds(slice.start), seconds(slice.end - slice.start)]),
      }));
    }
    say(text) { this.element.querySelector(".live").textContent = text; }
    sayView() { this.say(`${seconds(this.view[0])} to ${seconds(this.view[1])}`); }

    // ---- Pointer and keys. at() finds the slice under the pointer, or the nearest one within a
    // few pixels.
    at(strip, event) {
      const box = strip.canvas.getBoundingClientRect();
      const [x, y] = [event.clientX - box.left, event.clientY - box.top];
      const lane = Math.floor((y - axisHeight) / strip.place.row);
      if (y < axisHeight || !strip.lanes[lane]) return null;
      const near = ((this.view[1] - this.view[0]) * touching) / (strip.place.right - strip.place.gutter);
      const time = this.time(strip.place, x);
      let best = null;
      const { slices } = strip.lanes[lane];
      for (let k = this.first(strip.lanes[lane]); k < slices.length && slices[k].start < time + near; ++k) {
        const apart = Math.max(slices[k].start - time, time - slices[k].end, 0);
        if (apart <= near && (!best || apart < best.apart)) best = { strip, lane, slice: k, apart };
      }
      return best;
    }
    choose(found) {
      this.chosen = found;
      this.tell();
      this.later();
    }
    tell() {
      const tip = this.element.querySelector(".tip");
      tip.hidden = !this.chosen;
      if (!this.chosen) return;
      const { strip, lane, slice } = this.chosen;
      const [name, ...more] = this.lines(strip, lane, slice);
      const strong = document.createElement("strong");
      strong.textContent = name;
      tip.replaceChildren(strong, ...more.map((line) => {
        const part = document.createElement("div");
        part.textContent = line;
        return part;
      }));
      const { place, canvas, lanes } = strip;
      const middle = (lanes[lane].slices[slice].start + lanes[lane].slices[slice].end) / 2;
      const x = canvas.offsetLeft + Math.min(place.right, Math.max(place.gutter, this.x(place, middle)));
      const y = canvas.offsetTop + axisHeight + (lane + 1) * place.row + 4;
      tip.style.left = `${Math.max(4, Math.min(x - tip.offsetWidth / 2, this.element.clientWidth - tip.offsetWidth - 4))}px`;
      tip.style.top = `${y}px`;
    }

    listen() {
      for (const button of this.element.querySelectorAll("[data-do]")) {
        button.addEventListener("click", () => {
          ({ in: () => this.zoom(2), out: () => this.zoom(0.5), earlier: () => this.move(-0.5), later: () => this.move(0.5), whole: () => this.whole() })[button.dataset.do]();
          this.choose(null);
          this.sayView();
        });
      }
      this.element.querySelector("details.listing").addEventListener("toggle", () => this.list());
      for (const strip of this.strips) {
        const { canvas } = strip;
        canvas.addEventListener("keydown", (event) => this.key(strip, event));
        canvas.addEventListener("blur", () => this.choose(null));
        canvas.addEventListener("wheel", (event) => this.wheel(strip, event), { passive: false });
        canvas.addEventListener("dblclick", (event) => {
          const found = this.at(strip, event);
          if (found) this.focusOn(strip.lanes[found.lane].slices[found.slice]);
          else this.whole();
        });
        canvas.addEventListener("pointerdown", (event) => {
          canvas.setPointerCapture(event.pointerId);
          this.pointers.set(event.pointerId, event.clientX);
        });
        canvas.addEventListener("pointermove", (event) => this.drag(strip, event));
        for (const end of ["pointerup", "pointercancel"]) canvas.addEventListener(end, (event) => this.pointers.delete(event.pointerId));
        canvas.addEventListener("pointerleave", () => { if (!this.pointers.size && document.activeElement !== canvas) this.choose(null); });
      }
    }
    drag(strip, event) {
      const before = this.pointers.get(event.pointerId);
      if (before === undefined) return this.choose(this.at(strip, event));
      const all = this.pointers;
      const spread = () => Math.max(...all.values()) - Math.min(...all.values());
      const was = spread();
      const centre = [...all.values()].reduce((sum, x) => sum + x, 0) / all.size;
      all.set(event.pointerId, event.clientX);
      const perPixel = (this.view[1] - this.view[0]) / (strip.place.right - strip.place.gutter);
      const by = ((before - event.clientX) * perPixel) / all.size;
      const kept = Math.min(this.longest - this.view[1], Math.max(-this.view[0], by));
      this.show(this.view[0] + kept, this.view[1] + kept);
      if (all.size > 1 && was > 0 && spread() > 0) this.zoom(spread() / was, this.time(strip.place, centre - strip.canvas.getBoundingClientRect().left));
      this.choose(null);
    }
    // The wheel scrolls the page until the timeline has the focus; with Ctrl it always zooms.
    wheel(strip, event) {
      const mine = document.activeElement === strip.canvas;
      const sideways = Math.abs(event.deltaX) > Math.abs(event.deltaY);
      if (!mine && !event.ctrlKey && !sideways) return;
      event.preventDefault();
      const pixels = event.deltaMode === 1 ? 20 : 1;
      if (sideways) return this.move((event.deltaX * pixels) / (strip.place.right - strip.place.gutter));
      this.zoom(Math.exp(-event.deltaY * pixels * 0.002), this.time(strip.place, event.clientX - strip.canvas.getBoundingClientRect().left));
    }
    key(strip, event) {
      if (event.altKey || event.metaKey) return;
      const act = {
        "+": () => this.zoom(2, this.centre()), "=": () => this.zoom(2, this.centre()), "-": () => this.zoom(0.5, this.centre()), "−": () => this.zoom(0.5, this.centre()),
        PageUp: () => this.move(-0.5), PageDown: () => this.move(0.5), Home: () => this.whole(),
      }[event.key] || (event.shiftKey && { ArrowLeft: () => this.move(-0.25), ArrowRight: () => this.move(0.25) }[event.key]);
      if (act && !event.ctrlKey) {
        event.preventDefault();
        act();
        this.tell();
        return this.sayView();
      }
      if (event.key === "Escape") return this.choose(null);
      const mine = this.chosen && this.chosen.strip === strip ? this.chosen : null;
      if (event.key === "Enter" && mine) {
        this.focusOn(strip.lanes[mine.lane].slices[mine.slice]);
        this.choose(mine);
        return this.sayView();
      }
      const [along, across] = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[event.key] || [0, 0];
      if (!along && !across) return;
      event.preventDefault();
      this.walk(strip, mine, along, across);
    }
    centre() {
      if (!this.chosen) return undefined;
      const slice = this.chosen.strip.lanes[this.chosen.lane].slices[this.chosen.slice];
      return (slice.start + slice.end) / 2;
    }
    walk(strip, mine, along, across) {
      const lane = mine ? (mine.lane + across + strip.lanes.length) % strip.lanes.length : 0;
      const { slices } = strip.lanes[lane];
      let slice = mine ? mine.slice + along : Math.min(this.first(strip.lanes[lane]), slices.length - 1);
      if (mine && across) {
        const time = this.centre();
        slice = slices.reduce((best, one, k) => (Math.abs((one.start + one.end) / 2 - time) < Math.abs((slices[best].start + slices[best].end) / 2 - time) ? k : best), 0);
      }
      slice = Math.min(slices.length - 1, Math.max(0, slice));
      const { start, end } = slices[slice];
      if (start < this.view[0] || end > this.view[1]) {
        const span = Math.max(this.view[1] - this.view[0], (end - start) * 1.2);
        this.show((start + end - span) / 2, (start + end + span) / 2);
      }
      this.choose({ strip, lane, slice });
      this.say(this.lines(strip, lane, slice).join(", "));
    }
  }

  return () => {
    for (const element of figures.keys()) if (!element.isConnected) figures.delete(element);
    for (const element of document.querySelectorAll("figure.timelines")) {
      if (!figures.has(element)) figures.set(element, new Figure(element, data.chapters[element.dataset.chapter]));
      figures.get(element).draw();
    }
  };
})();
