// Builds the page: one article per chapter, preceded by the comparison of all alternatives.
// showReport(place, json) draws the data of report_json() (results/report.hpp); the page of
// `lockstep report` and the explorer both call it.
let data = { parts: [], kinds: [], chapters: [] };

// ---- The head of a chapter: its answer as sentences and boxes.
const answerElements = ({ sentences, highlights }) => [
  element("section", { class: "answer", "aria-label": "The answer" }, sentences.map((sentence) => paragraph(sentence))),
  ...(highlights.length ? [element("dl", { class: "cards" }, highlights.map(({ title, value, detail }) => element("div", { class: "card" },
    element("dt", {}, title), element("dd", { class: "value" }, value), element("dd", { class: "detail" }, detail))))] : []),
];
const article = (id, title, subject, answer, panels) => element("article", { class: "chapter", id },
  element("h1", {}, title), element("p", { class: "subject" }, subject), answerElements(answer), element("div", { class: "grid" }, panels));

// ---- The panels of a chapter. A function returns [] if there is nothing to show.
const chartFigure = (name, chapter, number) => {
  const { title, caption, wide, shows, table } = charts[name];
  const said = (text) => (typeof text === "function" ? text(chapter) : text);
  if (shows && !shows(chapter)) return [];
  const figures = table(chapter);
  if (!figures || !figures.rows.length) return [];
  const id = `${name}-${number}`;
  return [element("figure", { class: wide ? "panel wide" : "panel", id },
    element("figcaption", {}, element("h2", { id: `${id}-title` }, said(title)), paragraph(said(caption), { id: `${id}-says` })),
    element("div", { class: "plot" }, element("canvas", {
      "data-chart": name, "data-chapter": number, role: "img", tabindex: 0, "aria-labelledby": `${id}-title`, "aria-describedby": `${id}-says` })),
    element("div", { class: "live", "aria-live": "polite" }),
    folded("The same as a table", tableElement(said(title), figures)))];
};
const peakPanel = ({ memory }) => {
  const curves = memory.filter((curve) => curve.at_peak.length);
  if (!curves.length) return [];
  const lists = curves.map((curve) => {
    const all = curve.at_peak.reduce((sum, tensors) => sum + tensors.bytes, 0);
    return folded(`${pointText(curve)}: ${bytes(all)} at ${curve.peak_moment}`, tableElement(`What lives at the peak of ${pointText(curve)}`, {
      columns: [left("name"), left("kind"), "tensors", "bytes", "of the peak"],
      rows: curve.at_peak.map((tensors) => [tensors.name, tensors.kind || "-", tensors.count, bytes(tensors.bytes), share(tensors.bytes / all)]),
    }));
  });
  lists[0].open = true;
  const peak = panel("What lives at the peak", paragraph("The largest tensors of one GPU when most is allocated, blocks rounded as the allocator rounds them; with the others they are the whole peak."), lists);
  peak.classList.add("peak");
  return [peak];
};
const measuredPanel = (chapter) => {
  const rows = chapter.measured.flatMap((row) => chapter.result.predictions.filter((p) => p.strategy === row.strategy && p.gpus === row.gpus).map((p) =>
    [row.strategy, row.gpus, seconds(p.step_seconds), seconds(row.step_seconds), change(p.step_seconds / row.step_seconds - 1), row.calibration ? "calibration" : "test", row.source]));
  if (!rows.length) return [];
  return [panel("Predicted and measured", tableElement("Steps that were measured", {
    columns: [left("strategy"), "GPUs", "predicted step", "measured step", "error", left("used for"), left("source")], rows }))];
};
const remarksPanel = ({ result, origins }) => {
  const remarks = result.predictions.flatMap((p) => [
    ...[p.bottleneck, ...p.notes].map((remark) => `${pointText(p)}: ${remark}`),
    ...(p.out_of_memory ? p.out_of_memory.would_fit : []).map((setting) => `${pointText(p)} would fit with: ${setting}`)]);
  const failures = result.failures.map((failure) => `${pointText(failure)}: no prediction: ${failure.reason}`);
  return panel("What limits each point, and remarks",
    element("ul", { class: "remarks" }, [...remarks, ...result.warnings, ...origins, ...failures].map((text) => element("li", {}, text))));
};

const chapterArticle = (chapter, number) => {
  const { result, tables, description, file, inputs } = chapter;
  const points = result.predictions.length ? [panel("All points", tableElement("Every strategy and GPU count", tables.summary), paragraph(chapter.missing_price))] : [];
  const exposed = tables.exposed.rows.length ? [panel("Exposed communication by axis of the mesh", tableElement("Of a step", tables.exposed))] : [];
  const beside = { step: timelinesFigure, memory_over_step: peakPanel };
  const figures = result.predictions.length ? Object.keys(charts).filter((name) => name !== "alternatives").flatMap((name) => {
    const figure = chartFigure(name, chapter, number);
    return figure.length && beside[name] ? [...figure, ...beside[name](chapter, number)] : figure;
  }) : [];
  return article(`chapter-${number}`, result.scenario, [chapter.subject, ...(description ? [element("br"), description] : [])], chapter.answer, [
    ...points, ...figures, ...exposed, ...measuredPanel(chapter), remarksPanel(chapter),
    panel("Inputs", element("p", {}, element("code", {}, file), `, seed ${result.seed}.`), folded("The scenario file", element("pre", { tabindex: 0 }, inputs)))]);
};

// ---- The alternatives, joined to one chapter whose points are named by the chosen values.
const comparedChapter = ({ comparison, chapters }) => {
  const points = comparison.order.map(({ alternative, prediction }) => ({ alternative, prediction, ...chapters[alternative].result.predictions[prediction] }));
  const whole = points.every((p) => p.total_seconds > 0);
  const predictions = points.map((p) => {
    const { name, values } = comparison.alternatives[p.alternative];
    const time = whole ? p.total_seconds : 1 / p.samples_per_second;
    return { ...p, values, plain: p.strategy, strategy: `${name}, ${p.strategy}`, label: [p.strategy, ...values].join(", "), seconds: time,
      interval: p.step_interval_seconds.map((end) => (time * end) / p.step_seconds) };
  });
  return { whole, measured: [], result: { predictions } };
};
// One row for each prediction, each point without an answer, and each impossible alternative.
const alternativesTable = ({ comparison, chapters }, points) => {
  const runs = points.some((p) => p.total_seconds > 0), priced = points.some((p) => p.dollars > 0);
  const tokens = points.length > 0 && points.every((p) => p.tokens_per_second > 0);
  const figures = [["step", (p) => seconds(p.step_seconds)], ["90 % interval", (p) => interval(p.step_interval_seconds, seconds)],
    ...(runs ? [["total", (p) => (p.total_seconds > 0 ? seconds(p.total_seconds) : "-")]] : []),
    [tokens ? "tokens/s" : "samples/s", (p) => rate(tokens ? p.tokens_per_second : p.samples_per_second)],
    ...(priced ? [["cost", (p) => (p.dollars > 0 ? dollars(p.dollars) : "-")]] : []),
    ["memory", (p) => bytes(p.memory.device_bytes)]];
  const none = figures.map(() => "-");
  const rows = [
    ...points.map((p) => {
      // "yes", or "NO, 3 GiB short"
      const [fits, ...caveats] = chapters[p.alternative].fits[p.prediction].split(", ");
      return [...p.values, p.plain, p.gpus, fits, ...figures.map(([, cell]) => cell(p)), caveats.join(", ")];
    }),
    ...chapters.flatMap(({ result }, i) => result.failures.map((failure) => [...comparison.alternatives[i].values, failure.strategy, failure.gpus, "no answer", ...none, failure.reason])),
    ...comparison.refused.map(({ values, reason }) => [...values, "-", "-", "cannot be", ...none, reason]),
  ];
  return {
    columns: ["row", ...comparison.headings.map(left), left("strategy"), "GPUs", left("fits"), ...figures.map(([title]) => title), left("but")],
    rows: rows.map((row, i) => [i + 1, ...row]),
  };
};
const comparisonArticle = ({ comparison }) => {
  const chapter = data.compared;
  return article("comparison", `${comparison.alternatives.length + comparison.refused.length} alternatives compared`, comparison.order_text, comparison.answer, [
    panel("All alternatives", tableElement("Every alternative, strategy and GPU count", alternativesTable(data, chapter.result.predictions))),
    ...["alternatives", "cost"].flatMap((name) => chartFigure(name, chapter, "comparison"))]);
};

// ---- Drawing. walk() and rest() make the points of a chart accessible to keyboard and screen
// reader.
const drawn = [];
const chapterOf = ({ dataset }) => (dataset.chapter === "comparison" ? data.compared : data.chapters[dataset.chapter]);
const draw = () => {
  while (drawn.length) drawn.pop().destroy();
  Chart.defaults.font.family = "system-ui, -apple-system, 'Segoe UI', Roboto, sans-serif";
  Chart.defaults.font.size = narrow() ? 11 : 12;
  // Heights are set before any chart is drawn, because a chart is as high as its neighbour in the
  // grid.
  const plots = [...document.querySelectorAll("canvas[data-chart]")].map((canvas) => {
    const { rows, ...config } = charts[canvas.dataset.chart].draw(chapterOf(canvas));
    const legend = narrow() ? 22 * Math.ceil(config.data.datasets.length / 2) : 0;
    if (rows) canvas.parentElement.style.minHeight = `${Math.round(rows * 36 + 100 + legend)}px`;
    return [canvas, config];
  });
  for (const [canvas, config] of plots) drawn.push(new Chart(canvas, { ...config, plugins: [marks] }));
  drawTimelines();
};
const walk = (event) => {
  const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
  const chart = Chart.getChart(event.target);
  if (!step || !chart) return;
  event.preventDefault();
  const places = chart.data.datasets.flatMap((set, datasetIndex) =>
    set.quiet || !chart.isDatasetVisible(datasetIndex) ? [] : set.data.map((_, index) => ({ datasetIndex, index })));
  const now = ((Number(event.target.dataset.place ?? -1) + step) % places.length + places.length) % places.length;
  event.target.dataset.place = now;
  const mark = chart.getDatasetMeta(places[now].datasetIndex).data[places[now].index];
  chart.setActiveElements([places[now]]);
  chart.tooltip.setActiveElements([places[now]], mark.getCenterPoint());
  chart.update();
  const { title, body } = chart.tooltip;
  event.target.closest("figure").querySelector(".live").textContent =
    [...(title || []), ...(body || []).flatMap((part) => part.lines)].join(", ");
};
const rest = (event) => {
  const chart = Chart.getChart(event.target);
  if (!chart) return;
  chart.setActiveElements([]);
  chart.tooltip.setActiveElements([], { x: 0, y: 0 });
  chart.update();
};

const showReport = (place, json) => {
  data = json;
  if (data.comparison) data.compared = comparedChapter(data);
  place.replaceChildren(...(data.comparison ? [comparisonArticle(data)] : []), ...data.chapters.map(chapterArticle));
  for (const canvas of place.querySelectorAll("canvas[data-chart]")) {
    canvas.addEventListener("keydown", walk);
    canvas.addEventListener("blur", rest);
  }
  draw();
};
const navigation = ({ comparison, chapters }) => element("nav", { "aria-label": "Scenarios" }, element("ul", {},
  [...(comparison ? [["comparison", "All compared"]] : []), ...chapters.map(({ result }, i) => [`chapter-${i}`, result.scenario])]
    .map(([id, name]) => element("li", {}, element("a", { href: "#" + id }, name)))));
const own = document.getElementById("data");
if (own) {
  showReport(document.getElementById("main"), JSON.parse(own.textContent));
  if (data.comparison || data.chapters.length > 1) document.querySelector("header").append(navigation(data));
}
window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
window.matchMedia("(max-width: 639px)").addEventListener("change", draw);
// Folded details are opened for printing, because paper cannot unfold them.
let opened = [];
window.addEventListener("beforeprint", () => {
  root.dataset.print = "";
  opened = [...document.querySelectorAll(".peak details:not([open])")];
  for (const details of opened) details.open = true;
  draw();
});
window.addEventListener("afterprint", () => {
  delete root.dataset.print;
  for (const details of opened) details.open = false;
  draw();
});
