// Draws every <canvas data-chart="NAME" data-chapter="N"> from the data in the page, or from what
// showCharts() is given. A new chart is a function in `charts` and a row in report_figures.cpp.
"use strict";
(() => {
  let data = { parts: [], chapters: [] };
  const root = document.documentElement;
  const colour = (name) => getComputedStyle(root).getPropertyValue("--" + name).trim();
  const series = (i) => colour("series-" + (i % 12));
  const faded = (hex, families) => hex + (families > 2 ? "1c" : "2e");

  // ---- figures as text
  const significant = (value, least = 0) => {
    if (!(Math.abs(value) > 0)) return "0";
    const digits = Math.min(8, Math.max(0, 2 - Math.floor(Math.log10(Math.abs(value)))));
    return value.toLocaleString("en-GB", { minimumFractionDigits: Math.min(least, digits), maximumFractionDigits: digits });
  };
  const unitOf = (most, units) => units.find(([factor]) => most >= factor) || units[units.length - 1];
  const timeUnits = [[86400 * 2, "days", 86400], [7200, "h", 3600], [600, "min", 60], [1, "s", 1], [1e-3, "ms", 1e-3], [0, "µs", 1e-6]];
  const byteUnits = [[2 ** 40, "TiB", 2 ** 40], [2 ** 30, "GiB", 2 ** 30], [2 ** 20, "MiB", 2 ** 20], [2 ** 10, "KiB", 2 ** 10], [0, "B", 1]];
  const plainUnits = [[0, "", 1]];
  const withUnit = (value, units) => {
    const [, unit, size] = unitOf(Math.abs(value), units);
    return significant(value / size, 8) + (unit && " " + unit);
  };
  const seconds = (value) => withUnit(value, timeUnits);
  const bytes = (value) => withUnit(value, byteUnits);
  const percent = (share) => significant(100 * share) + " %";
  const dollars = (value) => "$" + (value < 1 ? value.toPrecision(3) : value.toLocaleString("en-GB", { minimumFractionDigits: 2, maximumFractionDigits: 2 }));

  const countText = (gpus) => gpus + (gpus === 1 ? " GPU" : " GPUs");
  const nameOf = (p) => p.strategy + " · " + countText(p.gpus);
  const unique = (list) => [...new Set(list)];
  const most = (list) => Math.max(...list, 0);
  const narrow = () => window.innerWidth < 640;
  const shorter = (text, length) => (text.length > length ? text.slice(0, length - 1) + "…" : text);
  // Of a bar; on a phone the figure alone says the GPUs.
  const barName = (p) => (narrow() ? `${shorter(p.strategy, 12)} · ${p.gpus}` : shorter(nameOf(p), 34));

  // Of the spots of a scatter chart, {low, high} in the y axis's unit.
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

  // ---- what Chart.js does not draw: intervals, measured marks and limits of horizontal bars
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

  // ---- axes and options that charts share
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

  // A bar per point, stacked from `parts`: [{label, colour, value(p)}], values in base units.
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

  // Curves over GPU counts or time: [{label, points: [{x, y, low, high}], measured: [{x, y}], ideal: [{x, y}]}].
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

  const isWide = (counts) => Math.max(...counts) / Math.min(...counts) >= 6;
  // Over such counts both axes are logarithmic: perfect scaling is a straight line.
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

  // Accuracy at the end of training against the seconds or the dollars until then.
  const frontier = (chapter, spent, title, front) => {
    const all = chapter.result.predictions;
    const value = (p) => chapter.training.spent[all.indexOf(p)][spent];
    const points = all.filter((p) => p.accuracy && p.fits && value(p) > 0);
    const money = spent === "dollars";
    const [, unit, size] = money ? [0, "", 1] : unitOf(most(points.map(value)), timeUnits);
    const spot = (p) => ({ x: value(p) / size, y: 100 * p.accuracy.mean, low: 100 * p.accuracy.interval[0], high: 100 * p.accuracy.interval[1], point: p });
    const best = chapter.training.fronts[spent].map((i) => all[i]).sort((a, b) => value(a) - value(b));
    const datasets = byStrategy(chapter).map(({ strategy }, i) => ({
      type: "scatter", label: strategy, data: points.filter((p) => p.strategy === strategy).map(spot), clip: false,
      backgroundColor: series(i), borderColor: series(i), pointRadius: 6, pointHoverRadius: 8,
    })).filter((set) => set.data.length);
    datasets.push({ type: "line", label: front, data: best.map(spot), clip: false, borderColor: colour("soft"), backgroundColor: "transparent", borderDash: [5, 4], borderWidth: 1.5,
      pointRadius: 11, pointStyle: "circle", pointHitRadius: 0, order: 9 });
    const ends = points.map(spot).flatMap((at) => [at.low, at.high]);
    const margin = Math.max(1, 0.08 * (most(ends) - Math.min(...ends)));
    return {
      type: "scatter",
      data: { datasets },
      options: options(
        { x: axis(title + (unit && ` (${unit})`), { beginAtZero: false, grace: "8%", ticks: money ? { callback: (dollar) => "$" + significant(dollar) } : {} }),
          y: axis("test accuracy (%)", { beginAtZero: false, min: Math.max(0, Math.floor(Math.min(...ends) - margin)), max: Math.min(104, Math.ceil(most(ends) + margin)),
            afterBuildTicks: (scale) => { scale.ticks = scale.ticks.filter((tick) => tick.value <= 100); } }) },
        { label: ({ raw }) => `${nameOf(raw.point)}: ${significant(raw.y)} % (${significant(raw.low)} to ${significant(raw.high)} %), ${money ? dollars(value(raw.point)) : seconds(value(raw.point))}` },
        { padding: { top: 12, right: 12 }, marks: { upright: true } }),
    };
  };

  const charts = {
    alternatives({ result, whole, most: shown }) {
      const rows = result.predictions.slice(0, shown);
      const title = whole ? "whole run" : "one sample";
      return stacked(
        rows.map((p, i) => ({ ...p, strategy: `${i + 1}. ${p.label}` })),
        [{ label: title, colour: colour("series-0"), value: (p) => (p.fits ? p.seconds : 0) }],
        timeUnits, title, seconds,
        {
          shares: false,
          totals: rows.map((p) => (p.fits ? seconds(p.seconds) + (p.dollars > 0 ? ", " + dollars(p.dollars) : "") : "does not fit")),
          intervals: rows.map((p) => (p.fits ? p.interval : [0, 0])),
        });
    },
    step(chapter) {
      const points = chapter.result.predictions;
      return stacked(
        points,
        data.parts.map((part) => ({ label: part.heading, colour: colour("part-" + part.name), value: (p) => p.split_seconds[part.name] })),
        timeUnits, "one step", seconds,
        {
          totals: points.map((p) => seconds(p.step_seconds)),
          intervals: points.map((p) => p.step_interval_seconds),
          measured: points.map((p) => measuredAt(chapter, p).map((row) => row.step_seconds)),
        });
    },
    throughput(chapter) {
      const tokens = chapter.result.predictions.some((p) => p.tokens_per_second);
      const rate = (p) => (tokens ? p.tokens_per_second || 0 : p.samples_per_second);
      const counts = countsOf(chapter);
      const families = byStrategy(chapter).map(({ strategy, points, measured }) => {
        const first = points.reduce((least, p) => (p.gpus < least.gpus ? p : least), points[0]);
        return {
          label: strategy,
          points: points.map((p) => ({ x: p.gpus, y: rate(p), low: (rate(p) * p.step_seconds) / p.step_interval_seconds[1], high: (rate(p) * p.step_seconds) / p.step_interval_seconds[0] })),
          ideal: counts.filter((gpus) => gpus >= first.gpus).map((gpus) => ({ x: gpus, y: (rate(first) * gpus) / first.gpus })),
          measured: measured.flatMap((row) => {
            const p = predictedAt(points, row);
            return p ? [{ x: row.gpus, y: (rate(p) * p.step_seconds) / row.step_seconds, source: row.source }] : [];
          }),
        };
      });
      const unit = tokens ? "tokens/s" : "samples/s";
      return curves(families, plainUnits, unit, gpuAxis(counts), (value) => `${significant(value)} ${unit}`, countText, { y: rateAxis(counts) });
    },
    time(chapter) {
      const whole = chapter.result.predictions.every((p) => p.total_seconds > 0);
      const counts = countsOf(chapter);
      const families = byStrategy(chapter).map(({ strategy, points, measured }) => {
        const factor = (p) => (whole ? p.total_seconds / p.step_seconds : 1);
        return {
          label: strategy,
          points: points.map((p) => ({ x: p.gpus, y: p.step_seconds * factor(p), low: p.step_interval_seconds[0] * factor(p), high: p.step_interval_seconds[1] * factor(p) })),
          measured: measured.flatMap((row) => {
            const p = predictedAt(points, row);
            return p ? [{ x: row.gpus, y: row.step_seconds * factor(p), source: row.source }] : [];
          }),
        };
      });
      return curves(families, timeUnits, whole ? "whole run" : "one step", gpuAxis(counts), seconds, countText, { y: rateAxis(counts) });
    },
    memory(chapter) {
      const points = chapter.result.predictions;
      const kinds = unique(points.flatMap((p) => Object.keys(p.memory.at_peak_bytes)));
      const size = (kind) => most(points.map((p) => p.memory.at_peak_bytes[kind] || 0));
      kinds.sort((a, b) => size(b) - size(a));
      const parts = kinds.map((kind, i) => ({ label: kind, colour: series(i), value: (p) => p.memory.at_peak_bytes[kind] || 0 }));
      const named = (p) => Object.values(p.memory.at_peak_bytes).reduce((sum, value) => sum + value, 0);
      parts.push({ label: "kept by the allocator", colour: colour("part-data_loading"), value: (p) => p.memory.reserved_bytes - named(p) });
      parts.push({ label: "context and communication", colour: colour("part-waiting"), value: (p) => p.memory.device_bytes - p.memory.reserved_bytes });
      const capacities = unique(points.map((p) => p.memory.usable_bytes)).filter((value) => value > 0);
      // A capacity far beyond the bars would flatten them; the table says it.
      const near = capacities.filter((value) => value < 4 * most(points.map((p) => p.memory.device_bytes)));
      return stacked(points, parts, byteUnits, "peak of one GPU", bytes, {
        totals: points.map((p) => bytes(p.memory.device_bytes) + (p.fits ? "" : narrow() ? " ✗" : ", does not fit") +
          (p.fits && p.memory.usable_bytes > 0 ? `, ${percent(p.memory.device_bytes / p.memory.usable_bytes)}` : "")),
        limits: near.map((value) => ({ value, text: bytes(value) + " usable" })),
      });
    },
    memory_over_step(chapter) {
      const [, unit, size] = unitOf(most(chapter.memory.flatMap((curve) => curve.bytes)), byteUnits);
      // Each curve has its own number of moments: all are drawn over the same width.
      const at = (curve, i) => (100 * i) / Math.max(1, curve.moments.length - 1);
      return {
        type: "line",
        data: {
          datasets: chapter.memory.map((curve, i) => ({
            label: `${curve.strategy} · ${countText(curve.gpus)}`, borderColor: series(i), backgroundColor: series(i), borderWidth: 1.5, pointStyle: "rect",
            data: curve.bytes.map((value, k) => ({ x: at(curve, k), y: value / size, moment: curve.moments[k] })),
            pointRadius: curve.bytes.map((value) => (value === most(curve.bytes) ? 4 : 0)), pointHitRadius: 6,
          })),
        },
        options: options(
          { x: axis("host's order (% of the step's moments)", { type: "linear", min: 0, max: 100 }), y: axis(`allocated (${unit})`) },
          { title: (items) => items[0].raw.moment, label: (item) => `${item.dataset.label}: ${bytes(item.raw.y * size)}` },
          { interaction: { mode: "nearest", axis: "x", intersect: false } }),
      };
    },
    exposed(chapter) {
      const counts = countsOf(chapter);
      const share = (p, part) => (100 * p.split_seconds[part]) / p.step_seconds;
      return {
        type: "bar",
        data: {
          labels: counts.map(countText),
          datasets: byStrategy(chapter).map(({ strategy, points }, i) => ({
            label: strategy, backgroundColor: series(i), pointStyle: "rect", maxBarThickness: 40,
            data: counts.map((gpus) => { const p = points.find((one) => one.gpus === gpus); return p ? share(p, "exposed_communication") : null; }),
          })),
        },
        options: options(
          { x: axis("", { grid: { display: false } }), y: axis("share of the step (%)", { suggestedMax: 1 }) },
          { label: (item) => `${item.dataset.label}: ${significant(item.parsed.y)} % of the step` },
          { interaction: { mode: "index", intersect: false } }),
      };
    },
    traffic(chapter) {
      const points = chapter.result.predictions.filter((p) => p.traffic.length);
      const classes = unique(points.flatMap((p) => p.traffic.map((t) => t.links)));
      const of = (p, links) => p.traffic.find((t) => t.links === links);
      const [, unit, size] = unitOf(most(points.flatMap((p) => p.traffic.map((t) => t.busiest_link_bytes))), byteUnits);
      return {
        type: "bar",
        rows: points.length * Math.max(1, classes.length * 0.7),
        data: {
          labels: points.map(barName),
          datasets: classes.map((links, i) => ({
            label: links, backgroundColor: series(i), pointStyle: "rect", maxBarThickness: 18,
            data: points.map((p) => (of(p, links) ? of(p, links).busiest_link_bytes / size : null)),
          })),
        },
        options: {
          ...options(
            { x: axis(`busiest link, per step (${unit})`), y: axis("", { grid: { display: false }, ticks: { color: colour("ink"), autoSkip: false } }) },
            {
              title: (items) => nameOf(points[items[0].dataIndex]),
              label: (item) => {
                const t = of(points[item.dataIndex], item.dataset.label);
                return t ? `${t.links}: ${bytes(t.busiest_link_bytes)}, busy ${percent(t.busy_fraction)} of the step; all links ${bytes(t.total_bytes)}` : "";
              },
            },
            { interaction: { mode: "index", axis: "y", intersect: false } }),
          indexAxis: "y",
        },
      };
    },
    staleness(chapter) {
      const points = chapter.result.predictions.filter((p) => p.staleness && p.staleness.max > 0);
      const shares = points.map((p) => {
        const pushes = Object.values(p.staleness.histogram).reduce((sum, count) => sum + count, 0);
        return new Map(Object.entries(p.staleness.histogram).map(([age, count]) => [Number(age), (100 * count) / pushes]));
      });
      const ages = shares.flatMap((share) => [...share.keys()]);
      const [first, last] = [Math.min(...ages), Math.max(...ages)];
      const every = Math.ceil((last - first + 1) / 40); // at most so many bars of one point
      const bins = Array.from({ length: Math.ceil((last - first + 1) / every) }, (_, i) => first + i * every);
      const inBin = (share, bin) => [...share].reduce((sum, [age, part]) => sum + (age >= bin && age < bin + every ? part : 0), 0);
      return {
        type: "bar",
        data: {
          labels: bins.map((bin) => (every === 1 ? String(bin) : `${bin}–${bin + every - 1}`)),
          datasets: points.map((p, i) => ({
            label: nameOf(p), backgroundColor: series(i), pointStyle: "rect", maxBarThickness: 40, data: bins.map((bin) => inBin(shares[i], bin)),
          })),
        },
        options: options(
          { x: axis("updates in between", { grid: { display: false }, ticks: { maxRotation: 0 } }), y: axis("share of the updates (%)") },
          { title: (items) => `${items[0].label} updates in between`, label: (item) => `${item.dataset.label}: ${significant(item.raw)} %` },
          { interaction: { mode: "index", intersect: false } }),
      };
    },
    accuracy(chapter) {
      const points = chapter.result.predictions.filter((p) => p.accuracy);
      const longest = most(points.flatMap((p) => p.accuracy.curve.map((moment) => moment.seconds)));
      const [, unit, size] = unitOf(longest, timeUnits);
      const families = points.map((p) => ({
        label: nameOf(p),
        points: p.accuracy.curve.map((m) => ({ x: m.seconds / size, y: 100 * m.mean, low: 100 * m.interval[0], high: 100 * m.interval[1] })),
      }));
      return curves(families, plainUnits, "test accuracy (%)", axis(`simulated time (${unit})`, { type: "linear" }),
        (value) => significant(value) + " %", (time) => `after ${significant(time)} ${unit}`, { y: { beginAtZero: false }, dots: { pointRadius: 2 } });
    },
    frontier: (chapter) => frontier(chapter, "seconds", "training time", "nothing is both faster and more accurate"),
    frontier_price: (chapter) => frontier(chapter, "dollars", "price of the training", "nothing is both cheaper and more accurate"),
    cost(chapter) {
      const priced = chapter.result.predictions.filter((p) => p.dollars > 0 && p.fits);
      const [, unit, size] = unitOf(most(priced.map((p) => p.total_seconds)), timeUnits);
      const front = priced.filter((p) => chapter.front.includes(chapter.result.predictions.indexOf(p))).sort((a, b) => a.total_seconds - b.total_seconds);
      const spot = (p) => ({ x: p.total_seconds / size, y: p.dollars, point: p });
      const datasets = byStrategy(chapter).map(({ strategy, points }, i) => ({
        type: "scatter", label: strategy, data: points.filter((p) => priced.includes(p)).map(spot), backgroundColor: series(i), borderColor: series(i), pointRadius: 6, pointHoverRadius: 8,
      })).filter((set) => set.data.length);
      datasets.push({ type: "line", label: "nothing is both faster and cheaper", data: front.map(spot), borderColor: colour("soft"), backgroundColor: "transparent", borderDash: [5, 4], borderWidth: 1.5, pointRadius: 11, pointStyle: "circle", pointHitRadius: 0, order: 9 });
      return {
        type: "scatter",
        data: { datasets },
        options: options(
          { x: axis(`whole run (${unit})`, { beginAtZero: false, grace: "8%" }), y: axis("price of the whole run", { beginAtZero: false, grace: "12%", ticks: { callback: (value) => "$" + significant(value) } }) },
          { label: (item) => { const p = item.raw.point; return `${nameOf(p)}: ${seconds(p.total_seconds)}, ${dollars(p.dollars)}`; } },
          { padding: { top: 12, right: 12 }, legend: datasets.length < 16 }),
      };
    },
    provenance(chapter) {
      const origins = [["measured", colour("good")], ["interpolated", colour("part-waiting")], ["modelled", colour("part-data_loading")]];
      return stacked(chapter.result.predictions, origins.map(([name, fill]) => ({ label: name, colour: fill, value: (p) => 100 * p.provenance[name] })),
        plainUnits, "share of the costs (%)", (value) => significant(value) + " %", { shares: false, max: 100 });
    },
  };

  // ---- drawing, and the same points by keyboard and for screen readers
  const drawn = [];
  const chapterOf = ({ dataset }) => (dataset.chapter === "comparison" ? data.comparison : data.chapters[dataset.chapter]);
  const draw = () => {
    while (drawn.length) drawn.pop().destroy();
    Chart.defaults.font.family = "system-ui, -apple-system, 'Segoe UI', Roboto, sans-serif";
    Chart.defaults.font.size = narrow() ? 11 : 12;
    // All heights first: a chart is as high as its neighbour.
    const plots = [...document.querySelectorAll("canvas[data-chart]")].map((canvas) => {
      const { rows, ...config } = charts[canvas.dataset.chart](chapterOf(canvas));
      const legend = narrow() ? 22 * Math.ceil(config.data.datasets.length / 2) : 0;
      if (rows) canvas.parentElement.style.minHeight = `${Math.round(rows * 36 + 100 + legend)}px`;
      return [canvas, config];
    });
    for (const [canvas, config] of plots) drawn.push(new Chart(canvas, { ...config, plugins: [marks] }));
    drawTimelines(data, { colour, seconds });
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
    const element = chart.getDatasetMeta(places[now].datasetIndex).data[places[now].index];
    chart.setActiveElements([places[now]]);
    chart.tooltip.setActiveElements([places[now]], element.getCenterPoint());
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
  window.showCharts = (given) => {
    data = given;
    for (const canvas of document.querySelectorAll("canvas[data-chart]")) {
      canvas.addEventListener("keydown", walk);
      canvas.addEventListener("blur", rest);
    }
    draw();
  };
  const own = document.getElementById("data");
  if (own) window.showCharts(JSON.parse(own.textContent));
  window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
  window.matchMedia("(max-width: 639px)").addEventListener("change", draw);
  let opened = []; // paper has no folds
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
})();
