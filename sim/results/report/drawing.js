// Elements that several charts use: colours, axes, options, two kinds of charts (stacked bars,
// curves), and marks that Chart.js lacks.
const series = (i) => colour("series-" + (i % 12));
const faded = (hex, families) => hex + (families > 2 ? "1c" : "2e");

// Draws the intervals of a scatter chart's points: {low, high} in the unit of the y axis.
const uprightIntervals = (chart) => {
  const { ctx, scales } = chart;
  ctx.save();
  ctx.lineWidth = 1.5;
  chart.data.datasets.forEach((set, i) => {
    if (set.type !== "scatter" || !chart.isDatasetVisible(i)) return;
    ctx.strokeStyle = set.borderColor;
    for (const { x, low, high } of set.data) {
      const [at, from, to] = [scales.x.getPixelForValue(x), scales.y.getPixelForValue(low), scales.y.getPixelForValue(high)];
      ctx.beginPath();
      ctx.moveTo(at, from); ctx.lineTo(at, to);
      for (const end of [from, to]) { ctx.moveTo(at - 4, end); ctx.lineTo(at + 4, end); }
      ctx.stroke();
    }
  });
  ctx.restore();
};

// A plugin that draws 90 % intervals, diamonds for measurements, and lines for limits. Its options
// are `intervals`, `measured` and `limits` for horizontal bars, and `upright` for scatter charts.
const marks = {
  id: "marks",
  afterDatasetsDraw(chart, _, options) {
    const { ctx, chartArea: area, scales } = chart;
    if (scales.x && options.upright) uprightIntervals(chart);
    if (!scales.x || !(options.intervals || options.limits)) return;
    const bars = chart.getDatasetMeta(0).data;
    ctx.save();
    ctx.font = "600 12px system-ui, sans-serif";
    ctx.textBaseline = "middle";
    ctx.strokeStyle = colour("ink");
    ctx.lineWidth = 1.5;
    (options.intervals || []).forEach(([low, high], i) => {
      if (!bars[i] || !(high > 0)) return;
      const [from, to, y] = [scales.x.getPixelForValue(low), scales.x.getPixelForValue(high), bars[i].y];
      ctx.beginPath();
      ctx.moveTo(from, y); ctx.lineTo(to, y);
      for (const end of [from, to]) { ctx.moveTo(end, y - 4); ctx.lineTo(end, y + 4); }
      ctx.stroke();
    });
    (options.measured || []).forEach((values, i) => {
      for (const value of bars[i] ? values : []) {
        const [x, y] = [scales.x.getPixelForValue(value), bars[i].y];
        ctx.beginPath();
        ctx.moveTo(x, y - 7); ctx.lineTo(x + 6, y); ctx.lineTo(x, y + 7); ctx.lineTo(x - 6, y); ctx.closePath();
        ctx.fillStyle = colour("paper");
        ctx.fill();
        ctx.stroke();
      }
    });
    for (const { value, text } of options.limits || []) {
      const x = scales.x.getPixelForValue(value);
      ctx.setLineDash([6, 4]);
      ctx.strokeStyle = colour("bad");
      ctx.beginPath(); ctx.moveTo(x, area.top); ctx.lineTo(x, area.bottom); ctx.stroke();
      ctx.setLineDash([]);
      const width = ctx.measureText(text).width;
      const left = x > (area.left + area.right) / 2 ? x - 8 - width : x + 8;
      ctx.fillStyle = colour("paper");
      ctx.fillRect(left - 3, area.bottom - 17, width + 6, 16);
      ctx.fillStyle = colour("bad");
      ctx.fillText(text, left, area.bottom - 8);
    }
    ctx.restore();
  },
};

// ---- Axes and options that charts share.
const axis = (title, more = {}) => ({
  title: { display: Boolean(title), text: title, color: colour("soft") },
  grid: { color: colour("line"), drawBorder: false },
  ticks: { color: colour("soft"), ...(more.ticks || {}) },
  beginAtZero: true,
  ...Object.fromEntries(Object.entries(more).filter(([key]) => key !== "ticks")),
});
const options = (scales, tooltip, more = {}) => ({
  responsive: true,
  maintainAspectRatio: false,
  animation: false,
  scales,
  interaction: more.interaction || { mode: "nearest", intersect: true },
  layout: { padding: more.padding || 0 },
  plugins: {
    legend: {
      display: more.legend !== false,
      position: "top",
      align: "start",
      labels: {
        color: colour("ink"), usePointStyle: true, boxWidth: 8, boxHeight: 8, padding: 12,
        filter: (item, all) => !all.datasets[item.datasetIndex].quiet,
      },
      onClick(_, item, legend) {
        const { chart } = legend;
        const visible = !chart.isDatasetVisible(item.datasetIndex);
        const family = chart.data.datasets[item.datasetIndex].family;
        chart.data.datasets.forEach((set, i) => {
          if (i === item.datasetIndex || (family !== undefined && set.family === family)) chart.setDatasetVisibility(i, visible);
        });
        chart.update();
      },
    },
    tooltip: {
      filter: (item) => !item.dataset.quiet,
      backgroundColor: colour("ink"), titleColor: colour("paper"), bodyColor: colour("paper"), padding: 10,
      callbacks: tooltip,
    },
    marks: more.marks || {},
  },
});

// One bar per point, stacked from `parts`: [{label, colour, value(p)}], with values in base units.
const stacked = (points, parts, units, title, text, more = {}) => {
  const total = (p) => parts.reduce((sum, part) => sum + Math.max(0, part.value(p)), 0);
  const ends = points.map(total);
  const [, unit, size] = unitOf(most(ends), units);
  const shown = parts.filter((part) => points.some((p) => part.value(p) > 1e-9 * total(p)));
  const scale = (value) => value / size;
  const right = Math.max(most(ends), ...(more.intervals || []).map(([, high]) => high), ...(more.measured || []).flat(), ...(more.limits || []).map((limit) => limit.value));
  return {
    type: "bar",
    rows: points.length,
    data: {
      labels: points.map((p, i) => (more.totals ? [barName(p), more.totals[i]] : barName(p))),
      datasets: shown.map((part) => ({
        label: part.label, data: points.map((p) => scale(part.value(p))), backgroundColor: part.colour, borderColor: colour("paper"),
        borderWidth: { right: 1 }, borderSkipped: false, pointStyle: "rect", maxBarThickness: 24, categoryPercentage: 0.86,
      })),
    },
    options: {
      ...options(
        {
          x: axis(title + (unit && ` (${unit})`), { stacked: true, max: more.max, suggestedMax: scale(right) }),
          y: axis("", { stacked: true, grid: { display: false }, ticks: { color: colour("ink"), autoSkip: false } }),
        },
        {
          title: (items) => nameOf(points[items[0].dataIndex]),
          label: (item) => `${item.dataset.label}: ${text(item.raw * size)}` +
            (ends[item.dataIndex] > 0 && more.shares !== false ? ` (${percent((item.raw * size) / ends[item.dataIndex])})` : ""),
        },
        {
          interaction: { mode: "index", axis: "y", intersect: false },
          padding: { right: 8 },
          marks: {
            intervals: more.intervals && more.intervals.map((ends) => ends.map(scale)),
            measured: more.measured && more.measured.map((values) => values.map(scale)),
            limits: (more.limits || []).map((limit) => ({ ...limit, value: scale(limit.value) })),
          },
        }),
      indexAxis: "y",
    },
  };
};

// Curves over GPU counts or time. `families`: [{label, points: [{x, y, low, high}], measured: [{x,
// y}], ideal: [{x, y}]}]. Datasets with `quiet` appear neither in the legend nor in tooltips.
const curves = (families, units, yTitle, xAxis, text, xText, more = {}) => {
  const all = families.flatMap((family) => family.points.concat(family.measured || []));
  const [, unit, size] = unitOf(most(all.map((point) => point.y)), units);
  const at = (list, key) => list.map((point) => ({ x: point.x, y: point[key] / size }));
  const datasets = [];
  families.forEach((family, i) => {
    const line = series(i);
    const common = { family: i, borderColor: line, backgroundColor: line, borderWidth: 2, pointRadius: 3.5, tension: 0 };
    const sorted = [...family.points].sort((a, b) => a.x - b.x);
    datasets.push({ ...common, label: family.label, data: at(sorted, "y"), pointStyle: "circle", ...(more.dots || {}) });
    if (sorted.length && sorted[0].low !== undefined) {
      datasets.push({ ...common, quiet: true, label: family.label + " low", data: at(sorted, "low"), borderWidth: 0, pointRadius: 0, pointHitRadius: 0 });
      datasets.push({ ...common, quiet: true, label: family.label + " high", data: at(sorted, "high"), borderWidth: 0, pointRadius: 0, pointHitRadius: 0,
        backgroundColor: faded(line, families.length), fill: "-1" });
    }
    if (family.ideal) {
      datasets.push({ ...common, quiet: true, label: family.label + " ideal", data: at(family.ideal, "y"), borderDash: [4, 5], borderWidth: 1.2, pointRadius: 0, pointHitRadius: 0 });
    }
    if (family.measured && family.measured.length) {
      datasets.push({ ...common, label: family.label + ", measured", data: at(family.measured, "y"), showLine: false, pointStyle: "rectRot",
        pointRadius: 6, borderWidth: 2, backgroundColor: colour("paper"), source: family.measured });
    }
  });
  return {
    type: "line",
    data: { datasets },
    options: options(
      { x: xAxis, y: axis(yTitle + (unit && ` (${unit})`), more.y || {}) },
      {
        title: (items) => (items.length ? xText(items[0].parsed.x) : ""),
        label: (item) => {
          const point = item.dataset.source && item.dataset.source[item.dataIndex];
          return `${item.dataset.label}: ${text(item.parsed.y * size)}` + (point && point.source ? ` (${point.source})` : "");
        },
      },
      { interaction: { mode: "nearest", axis: "x", intersect: false } }),
  };
};

// Whether the range of GPU counts is so large that both axes are logarithmic; perfect scaling is
// then a straight line.
const isWide = (counts) => Math.max(...counts) / Math.min(...counts) >= 6;
const rateAxis = (counts) => !isWide(counts) ? {} : {
  type: "logarithmic", beginAtZero: false,
  ticks: { callback: (value) => (/^[125](\.0*)?e/.test(Number(value).toExponential()) ? significant(value) : "") },
};
const gpuAxis = (counts) => {
  const wide = isWide(counts);
  return axis("GPUs", {
    type: wide ? "logarithmic" : "linear",
    beginAtZero: false,
    min: wide ? Math.min(...counts) / 1.15 : Math.min(...counts) - 0.15,
    max: wide ? Math.max(...counts) * 1.15 : Math.max(...counts) + 0.15,
    afterBuildTicks: (scale) => { scale.ticks = counts.map((value) => ({ value })); },
    ticks: { callback: (value) => String(value), autoSkip: true, maxRotation: 0 },
  });
};
const byStrategy = (chapter) => unique(chapter.result.predictions.map((p) => p.strategy)).map((strategy) => ({
  strategy,
  points: chapter.result.predictions.filter((p) => p.strategy === strategy),
  measured: chapter.measured.filter((row) => row.strategy === strategy && row.step_seconds > 0),
}));
const countsOf = (chapter) => unique(chapter.result.predictions.map((p) => p.gpus)).sort((a, b) => a - b);
const measuredAt = (chapter, p) => chapter.measured.filter((row) => row.strategy === p.strategy && row.gpus === p.gpus && row.step_seconds > 0);
const predictedAt = (points, row) => points.find((p) => p.gpus === row.gpus);
