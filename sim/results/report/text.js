// Numbers as text and elements as HTML, for charts, timelines, chapters and the explorer. All texts
// become text nodes, so the browser reads none as HTML.
"use strict";
const root = document.documentElement;
const colour = (name) => getComputedStyle(root).getPropertyValue("--" + name).trim();
const unique = (list) => [...new Set(list)];
const most = (list) => Math.max(...list, 0);
const narrow = () => window.innerWidth < 640;

// ---- Numbers, formatted as in core/units.hpp and results/cells.hpp.
const significant = (value, least = 0) => {
  if (!(Math.abs(value) > 0)) return "0";
  const digits = Math.min(8, Math.max(0, 2 - Math.floor(Math.log10(Math.abs(value)))));
  return value.toLocaleString("en-GB", { minimumFractionDigits: Math.min(least, digits), maximumFractionDigits: digits });
};
const unitOf = (most, units) => units.find(([factor]) => most >= factor) || units[units.length - 1];
const timeUnits = [[86400 * 2, "d", 86400], [7200, "h", 3600], [1, "s", 1], [1e-3, "ms", 1e-3], [1e-6, "µs", 1e-6], [0, "ns", 1e-9]];
const byteUnits = [[2 ** 40, "TiB", 2 ** 40], [2 ** 30, "GiB", 2 ** 30], [2 ** 20, "MiB", 2 ** 20], [2 ** 10, "KiB", 2 ** 10], [0, "B", 1]];
const plainUnits = [[0, "", 1]];
const withUnit = (value, units) => {
  if (!value) return "0";
  const [, unit, size] = unitOf(Math.abs(value), units);
  return significant(value / size, 8) + (unit && " " + unit);
};
const seconds = (value) => withUnit(value, timeUnits);
const bytes = (value) => withUnit(value, byteUnits);
const interval = ([low, high], text, between = "..") => `${text(low)} ${between} ${text(high)}`;
const percent = (share) => significant(100 * share) + " %";
const share = (value) => (100 * value).toFixed(1) + " %";
const change = (value) => (value < 0 ? "-" : "+") + share(Math.abs(value));
const dollars = (value) => "$" + (value < 0.1 ? value.toPrecision(3) : value.toLocaleString("en-GB", { minimumFractionDigits: 2, maximumFractionDigits: 2 }));
const rate = (value) => significant(value, 8);

const countText = (gpus) => gpus + (gpus === 1 ? " GPU" : " GPUs");
const nameOf = (p) => p.strategy + " · " + countText(p.gpus);
const pointText = (p) => `${p.strategy} on ${countText(p.gpus)}`;
const shorter = (text, length) => (text.length > length ? text.slice(0, length - 1) + "…" : text);
// The name of a bar. On a phone the GPU count has no unit.
const barName = (p) => (narrow() ? `${shorter(p.strategy, 12)} · ${p.gpus}` : shorter(nameOf(p), 34));

// ---- Elements.
const element = (tag, attributes = {}, ...children) => {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value || value === 0 || value === "") made.setAttribute(name, value === true ? "" : value);
  }
  made.append(...children.flat());
  return made;
};
const paragraph = (text, attributes) => element("p", attributes, text);
const panel = (title, ...content) => element("section", { class: "panel wide" }, element("h2", {}, title), ...content);
const folded = (title, ...content) => element("details", {}, element("summary", {}, title), ...content);

// ---- Tables: {columns, rows}. A column is its title, or {title, left} if its texts are aligned
// left.
const left = (title) => ({ title, left: true });
// A row for each point: its name, then columns of [title, cell(point), whether aligned left].
const pointTable = (points, ...columns) => ({
  columns: [left("strategy"), "GPUs", ...columns.map(([title, , side]) => (side ? left(title) : title))],
  rows: points.map((p) => [p.strategy, p.gpus, ...columns.map(([, cell]) => cell(p))]),
});
const tableElement = (caption, { columns, rows }) => {
  const side = (i) => columns[i].left && "l";
  const line = (cells) => element("tr", {}, cells.map((cell, i) => element(i ? "td" : "th", { scope: !i && "row", class: side(i) }, String(cell))));
  return element("div", { class: "scroll", tabindex: 0 }, element("table", {},
    element("caption", {}, caption),
    element("thead", {}, element("tr", {}, columns.map((column, i) => element("th", { scope: "col", class: side(i) }, column.title ?? column)))),
    element("tbody", {}, rows.map(line))));
};
