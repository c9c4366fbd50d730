// The charts of a chapter, in the order of the page. Each has a title, a caption, table(chapter),
// which gives the same numbers as text, and draw(chapter), which returns a configuration for
// Chart.js. A chart is left out if its table has no rows, or if shows(chapter) is false. `chapter`
// is one scenario's chapter, or all alternatives joined to one chapter.
const mostBars = 40; // largest number of bars in the chart of all alternatives
const diamonds = ({ measured }) => (measured.length ? " Diamonds were measured; see below by whom." : "");
const origins = [["measured", "good"], ["interpolated", "part-waiting"], ["modelled", "part-data_loading"]];

const scalingTable = (chapter) => {
  const measured = (p, text) => { const row = measuredAt(chapter, p)[0]; return row ? text(row.step_seconds) : "-"; };
  return pointTable(chapter.result.predictions,
    ["step", (p) => seconds(p.step_seconds)], ["90 % interval", (p) => interval(p.step_interval_seconds, seconds)],
    ["measured", (p) => measured(p, seconds)], ["error", (p) => measured(p, (step) => change(p.step_seconds / step - 1))],
    ["samples/s", (p) => rate(p.samples_per_second)], ["scaling", (p) => share(p.scaling_efficiency)]);
};

// The Pareto front: points that no other point beats in both values, in ascending order of the
// first value.
const front = (points, first, second) => points.filter((p) => !points.some((other) =>
  first(other) <= first(p) && second(other) <= second(p) && (first(other) < first(p) || second(other) < second(p)))).sort((a, b) => first(a) - first(b));
const pricedPoints = ({ result }) => result.predictions.filter((p) => p.dollars > 0 && p.total_seconds > 0 && p.fits);
const cheapest = (chapter) => front(pricedPoints(chapter), (p) => p.total_seconds, (p) => p.dollars);

// Simulated seconds of training until the last evaluation, and the share of the run's price for
// them.
const trainedSeconds = (p) => p.accuracy.curve[p.accuracy.curve.length - 1].seconds;
const trainedDollars = (p) => (p.total_seconds > 0 ? ((p.dollars || 0) * trainedSeconds(p)) / p.total_seconds : 0);
// A chart of the accuracy at the end of training against spent(point), the seconds or dollars that
// the training took.
const frontier = ({ title, caption, spent, spentText, units, axisTitle, column, best }) => {
  const trained = ({ result }) => result.predictions.filter((p) => p.accuracy && p.accuracy.curve.length && p.fits && spent(p) > 0);
  const choices = (chapter) => front(trained(chapter), spent, (p) => -p.accuracy.mean);
  return {
    title,
    caption,
    table(chapter) {
      const chosen = choices(chapter);
      return pointTable(trained(chapter),
        ["accuracy", (p) => share(p.accuracy.mean)], ["90 % interval", (p) => interval(p.accuracy.interval, share)],
        [column, (p) => spentText(spent(p))], ["", (p) => (chosen.includes(p) ? best : ""), true]);
    },
    draw(chapter) {
      const points = trained(chapter);
      const [, unit, size] = unitOf(most(points.map(spent)), units);
      const spot = (p) => ({ x: spent(p) / size, y: 100 * p.accuracy.mean, low: 100 * p.accuracy.interval[0], high: 100 * p.accuracy.interval[1], point: p });
      const datasets = byStrategy(chapter).map(({ strategy }, i) => ({
        type: "scatter", label: strategy, data: points.filter((p) => p.strategy === strategy).map(spot), clip: false,
        backgroundColor: series(i), borderColor: series(i), pointRadius: 6, pointHoverRadius: 8,
      })).filter((set) => set.data.length);
      datasets.push({ ...choiceLine, label: best, data: choices(chapter).map(spot), clip: false, borderColor: colour("soft") });
      const ends = points.map(spot).flatMap((at) => [at.low, at.high]);
      const margin = Math.max(1, 0.08 * (most(ends) - Math.min(...ends)));
      return {
        type: "scatter",
        data: { datasets },
        options: options(
          { x: axis(axisTitle + (unit && ` (${unit})`), { beginAtZero: false, grace: "8%", ticks: unit ? {} : { callback: (dollar) => "$" + significant(dollar) } }),
            y: axis("test accuracy (%)", { beginAtZero: false, min: Math.max(0, Math.floor(Math.min(...ends) - margin)), max: Math.min(104, Math.ceil(most(ends) + margin)),
              afterBuildTicks: (scale) => { scale.ticks = scale.ticks.filter((tick) => tick.value <= 100); } }) },
          { label: ({ raw }) => `${nameOf(raw.point)}: ${significant(raw.y)} % (${significant(raw.low)} to ${significant(raw.high)} %), ${spentText(spent(raw.point))}` },
          { padding: { top: 12, right: 12 }, marks: { upright: true } }),
      };
    },
  };
};
const choiceLine = { type: "line", backgroundColor: "transparent", borderDash: [5, 4], borderWidth: 1.5, pointRadius: 11, pointStyle: "circle", pointHitRadius: 0, order: 9 };

const charts = {
  alternatives: {
    title: ({ whole }) => (whole ? "Time of the whole run" : "Time of one sample"),
    caption: ({ whole, result: { predictions } }) => (whole ? "The whole run of each row" : "Time of one sample, of each row") +
      (predictions.length > mostBars ? ` (the first ${mostBars})` : "") + "; lines are 90 % intervals. What does not fit has no bar.",
    wide: true,
    table: ({ result, whole }) => ({
      columns: ["row", left("alternative"), "GPUs", whole ? "whole run" : "one sample", "90 % interval"],
      rows: result.predictions.map((p, i) => [i + 1, p.strategy, p.gpus, p.fits ? seconds(p.seconds) : "does not fit", p.fits ? interval(p.interval, seconds) : "-"]),
    }),
    draw({ result, whole }) {
      const rows = result.predictions.slice(0, mostBars);
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
  },
  step: {
    title: "Where one step goes",
    caption: (chapter) => "Mean of the ranks, one part after the other; the line is the 90 % interval of the step." + diamonds(chapter),
    wide: true,
    table: (chapter) => chapter.tables.step,
    draw(chapter) {
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
  },
  throughput: {
    title: "Throughput",
    caption: (chapter) => "Bands are 90 % intervals, dashed lines perfect scaling." + diamonds(chapter),
    shows: (chapter) => countsOf(chapter).length > 1,
    table: scalingTable,
    draw(chapter) {
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
  },
  time: {
    title: "Time",
    caption: (chapter) => "Bands are 90 % intervals." + diamonds(chapter),
    shows: (chapter) => countsOf(chapter).length > 1,
    table: scalingTable,
    draw(chapter) {
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
  },
  memory: {
    title: "Memory of one GPU at its peak",
    caption: "What is allocated at the peak by kind, what the allocator keeps beyond it, and what the device needs for itself; the percentage is of what the device offers.",
    wide: true,
    table({ result }) {
      const kinds = unique(result.predictions.flatMap((p) => Object.keys(p.memory.at_peak_bytes))).sort();
      return pointTable(result.predictions,
        ...kinds.map((kind) => [kind, (p) => (kind in p.memory.at_peak_bytes ? bytes(p.memory.at_peak_bytes[kind]) : "-")]),
        ...["allocated", "reserved", "device", "usable"].map((sum) => [sum, (p) => bytes(p.memory[sum + "_bytes"])]),
        ["peak at", (p) => p.memory.peak_at, true]);
    },
    draw(chapter) {
      const points = chapter.result.predictions;
      const kinds = unique(points.flatMap((p) => Object.keys(p.memory.at_peak_bytes)));
      const size = (kind) => most(points.map((p) => p.memory.at_peak_bytes[kind] || 0));
      kinds.sort((a, b) => size(b) - size(a));
      const parts = kinds.map((kind, i) => ({ label: kind, colour: series(i), value: (p) => p.memory.at_peak_bytes[kind] || 0 }));
      const named = (p) => Object.values(p.memory.at_peak_bytes).reduce((sum, value) => sum + value, 0);
      parts.push({ label: "kept by the allocator", colour: colour("part-data_loading"), value: (p) => p.memory.reserved_bytes - named(p) });
      parts.push({ label: "context and communication", colour: colour("part-waiting"), value: (p) => p.memory.device_bytes - p.memory.reserved_bytes });
      const capacities = unique(points.map((p) => p.memory.usable_bytes)).filter((value) => value > 0);
      // A capacity far beyond the bars would flatten them, so only the table shows it.
      const near = capacities.filter((value) => value < 4 * most(points.map((p) => p.memory.device_bytes)));
      return stacked(points, parts, byteUnits, "peak of one GPU", bytes, {
        totals: points.map((p) => bytes(p.memory.device_bytes) + (p.fits ? "" : narrow() ? " ✗" : ", does not fit") +
          (p.fits && p.memory.usable_bytes > 0 ? `, ${percent(p.memory.device_bytes / p.memory.usable_bytes)}` : "")),
        limits: near.map((value) => ({ value, text: bytes(value) + " usable" })),
      });
    },
  },
  memory_over_step: {
    title: "Memory over one step",
    caption: "The most that lived on one GPU while each layer was issued, in the host's order: forward and backward (of many micro-batches the first, the second and the last), update.",
    wide: true,
    // Four moments of each curve: the start of the step, the end of forward, the peak, the update.
    table({ memory }) {
      const end = ({ bytes, moments }) => bytes[Math.max(0, moments.findIndex((moment) => /^(backward|recomputation)/.test(moment)) - 1)];
      return pointTable(memory.filter((curve) => curve.moments.length),
        ["step begins", (curve) => bytes(curve.bytes[0])], ["end of forward", (curve) => bytes(end(curve))], ["peak", (curve) => bytes(most(curve.bytes))],
        ["peak at", (curve) => curve.moments[curve.bytes.indexOf(most(curve.bytes))], true], ["update", (curve) => bytes(curve.bytes[curve.bytes.length - 1])]);
    },
    draw(chapter) {
      const [, unit, size] = unitOf(most(chapter.memory.flatMap((curve) => curve.bytes)), byteUnits);
      // Curves have different numbers of moments, but all are drawn with the same width.
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
  },
  exposed: {
    title: "Exposed communication",
    caption: "Share of the step that the GPU waits for a running transfer.",
    shows: ({ result }) => result.predictions.some((p) => p.split_seconds.exposed_communication > 0),
    table: ({ result }) => pointTable(result.predictions,
      ["exposed", (p) => seconds(p.split_seconds.exposed_communication)], ["share of the step", (p) => share(p.split_seconds.exposed_communication / p.step_seconds)]),
    draw(chapter) {
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
  },
  traffic: {
    title: "Traffic",
    caption: "Bytes per step on the busiest link of each class, one way.",
    table: (chapter) => chapter.tables.traffic,
    draw(chapter) {
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
  },
  staleness: {
    title: "Staleness",
    caption: "Updates that the server applied between a worker's pull and its push.",
    shows: ({ result }) => result.predictions.some((p) => p.staleness && p.staleness.max > 0),
    table: (chapter) => chapter.tables.staleness,
    draw(chapter) {
      const points = chapter.result.predictions.filter((p) => p.staleness && p.staleness.max > 0);
      const shares = points.map((p) => {
        const pushes = Object.values(p.staleness.histogram).reduce((sum, count) => sum + count, 0);
        return new Map(Object.entries(p.staleness.histogram).map(([age, count]) => [Number(age), (100 * count) / pushes]));
      });
      const ages = shares.flatMap((share) => [...share.keys()]);
      const [first, last] = [Math.min(...ages), Math.max(...ages)];
      // width of a bin, such that a point has at most 40 bars
      const every = Math.ceil((last - first + 1) / 40);
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
  },
  accuracy: {
    title: "Accuracy",
    caption: "Really trained in the simulated order; bands are 90 % intervals of the mean of the seeds.",
    table: (chapter) => chapter.tables.accuracy,
    draw(chapter) {
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
  },
  frontier: frontier({
    title: "Accuracy against time",
    caption: "At the end of training; lines are 90 % intervals of the mean of the seeds. Points on the dashed line are the choices: no other one is both faster and more accurate.",
    spent: trainedSeconds, spentText: seconds, units: timeUnits, axisTitle: "training time", column: "time", best: "nothing is both faster and more accurate",
  }),
  frontier_price: frontier({
    title: "Accuracy against price",
    caption: "The same for what the training costs.",
    spent: trainedDollars, spentText: dollars, units: plainUnits, axisTitle: "price of the training", column: "price", best: "nothing is both cheaper and more accurate",
  }),
  cost: {
    title: "Price against time",
    caption: "Points on the dashed line are the choices: no other one is both faster and cheaper.",
    table(chapter) {
      const best = cheapest(chapter);
      return pointTable(chapter.result.predictions.filter((p) => p.dollars > 0),
        ["whole run", (p) => seconds(p.total_seconds)], ["price", (p) => dollars(p.dollars)], ["", (p) => (best.includes(p) ? "nothing is both faster and cheaper" : ""), true]);
    },
    draw(chapter) {
      const priced = pricedPoints(chapter);
      const [, unit, size] = unitOf(most(priced.map((p) => p.total_seconds)), timeUnits);
      const spot = (p) => ({ x: p.total_seconds / size, y: p.dollars, point: p });
      const datasets = byStrategy(chapter).map(({ strategy, points }, i) => ({
        type: "scatter", label: strategy, data: points.filter((p) => priced.includes(p)).map(spot), backgroundColor: series(i), borderColor: series(i), pointRadius: 6, pointHoverRadius: 8,
      })).filter((set) => set.data.length);
      datasets.push({ ...choiceLine, label: "nothing is both faster and cheaper", data: cheapest(chapter).map(spot), borderColor: colour("soft") });
      return {
        type: "scatter",
        data: { datasets },
        options: options(
          { x: axis(`whole run (${unit})`, { beginAtZero: false, grace: "8%" }), y: axis("price of the whole run", { beginAtZero: false, grace: "12%", ticks: { callback: (value) => "$" + significant(value) } }) },
          { label: (item) => { const p = item.raw.point; return `${nameOf(p)}: ${seconds(p.total_seconds)}, ${dollars(p.dollars)}`; } },
          { padding: { top: 12, right: 12 }, legend: datasets.length < 16 }),
      };
    },
  },
  provenance: {
    title: "Where the costs come from",
    caption: "Share of the device's and the network's seconds that were measured, interpolated between measurements, or modelled.",
    shows: ({ result: { predictions: [{ provenance: first }, ...others] } }) =>
      others.some(({ provenance: other }) => Math.abs(other.measured - first.measured) + Math.abs(other.modelled - first.modelled) > 0.01),
    table: ({ result }) => pointTable(result.predictions, ...origins.map(([name]) => [name, (p) => share(p.provenance[name])])),
    draw(chapter) {
      return stacked(chapter.result.predictions, origins.map(([name, fill]) => ({ label: name, colour: colour(fill), value: (p) => 100 * p.provenance[name] })),
        plainUnits, "share of the costs (%)", (value) => significant(value) + " %", { shares: false, max: 100 });
    },
  },
};
