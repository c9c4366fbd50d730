// The controls make settings in the syntax of `lockstep run --set`. showReport() (report/page.js)
// draws the answer; text.js makes elements. Only one question runs at the same time: a newer one or
// the Cancel button cancels it, and the server stops a question whose connection is closed.
"use strict";
(() => {
  const $ = (id) => document.getElementById(id);
  const form = $("controls");
  const control = form.elements;
  let choices; // options of the controls
  let start; // values of the controls for the unchanged scenario
  let shown; // the last answer
  let kept; // the answer with which others are compared

  // ---- the controls
  const fill = (select, values, texts = values) => {
    select.replaceChildren(...values.map((value, i) => new Option(texts[i], value)));
  };
  const choose = (select, value) => {
    if (![...select.options].some((option) => option.value === value)) select.add(new Option(value, value), 0);
    select.value = value;
  };
  const strategyBoxes = () => [...$("strategies").querySelectorAll("input")];

  const offerStrategies = (own) => {
    const rows = own.map((one) => ({ entry: one.entry, name: one.label, says: one.entry === one.label ? "of the scenario" : one.entry, on: true }));
    for (const one of choices.strategies) {
      if (!own.some((mine) => mine.entry === one.entry)) rows.push({ ...one, name: (/label: ([^}]*)/.exec(one.entry) || [, one.entry])[1], on: false });
    }
    $("strategies").replaceChildren(...rows.map(({ entry, name, says, on }) => {
      const box = element("input", { type: "checkbox", value: entry, checked: on });
      return element("label", { title: entry }, box, " " + name, element("small", {}, says));
    }));
  };

  const showForm = (now) => {
    choose(control.model, now.model);
    choose(control.platform, now.platform);
    for (const name of ["precision", "optimizer", "batch"]) control[name].value = now[name];
    for (const name of ["samples", "accumulation"]) control[name].value = now[name];
    control.gpus.value = now.gpus.join(", ");
    control.activation_checkpointing.checked = now.activation_checkpointing;
    control.slow.value = "1";
    control.jitter.value = "0";
    control.more.value = "";
    control.counted.value = now.dataset.of;
    control.amount.value = now.dataset.amount ?? "";
    control.epochs.value = now.dataset.epochs;
    offerStrategies(now.strategies);
    showNetwork(now);
    showSample(now);
  };
  // The size of a sample and the price of a GPU hour, unless the user has changed them.
  const showSample = (now) => {
    $("sequence").hidden = now.sequence === undefined;
    $("image").hidden = now.image === undefined;
    if (now.sequence !== undefined && !touched.has("sequence")) control.sequence.value = now.sequence;
    if (now.image !== undefined && !touched.has("image")) control.image.value = now.image.join("x");
    if (!touched.has("price")) control.price.value = now.price || "";
    $("epochs").hidden = control.counted.value !== "samples";
  };
  const showNetwork = (now) => {
    $("network").disabled = $("network").hidden = !now.network;
    control.nics_per_node.value = now.network ? now.network.nics_per_node : "";
    control.gbit.value = now.network ? Number(now.network.gbit.toPrecision(6)) : "";
    const platform = choices.platforms.find((one) => one.name === now.platform);
    $("gpus-help").textContent = platform ? `${platform.title}: up to ${platform.most_gpus} GPUs` : "";
  };

  // ---- the question
  // sample() and settings() return only settings that differ from the file. Another platform has
  // another network. The file's profile and anchors were measured with its own model and platform,
  // so they are left out with others. Another model has as many tokens per sample as the file or
  // the user says, but images of its own.
  const sample = () => {
    const reads = choices.models.find((one) => one.name === control.model.value)?.reads;
    const image = `[${control.image.value.split(/[x,\s]+/).join(", ")}]`;
    if (control.model.value === start.model) {
      if (touched.has("sequence") && control.sequence.value) return [`input.sequence=${control.sequence.value}`];
      return touched.has("image") && control.image.value ? [`input.image=${image}`] : [];
    }
    const said = (name) => touched.has(name) || (start.has.includes("input") && start[name] !== undefined);
    if (reads === "tokens" && said("sequence") && control.sequence.value) return [`input={sequence: ${control.sequence.value}}`];
    if (reads === "images" && touched.has("image") && control.image.value) return [`input={image: ${image}}`];
    return start.has.includes("input") ? ["input={}"] : [];
  };
  const settings = () => {
    const list = [];
    const differs = (name) => String(control[name].value) !== String(start[name]);
    const elsewhere = differs("model") || differs("platform");
    const leave = (...fields) => {
      for (const [field, nothing] of fields) if (start.has.includes(field)) list.push(`${field}=${nothing}`);
    };
    if (differs("model")) {
      list.push(`model=${control.model.value}`);
      leave(["model_parameters", "{}"]);
    }
    list.push(...sample());
    if (differs("platform")) {
      list.push(`platform=${control.platform.value}`);
      leave(["fabric", "{}"]);
    }
    if (elsewhere) leave(["profile", '""'], ["anchor", "[]"]);
    if (control.gpus.value.trim() !== start.gpus.join(", ")) list.push(`gpus=${control.gpus.value.replace(/\s+/g, "")}`);
    if (differs("batch") || differs("samples") || differs("accumulation")) {
      const accumulation = Number(control.accumulation.value) ? `, accumulation: ${control.accumulation.value}` : "";
      list.push(`batch={${control.batch.value}: ${control.samples.value}${accumulation}}`);
    }
    if (differs("precision")) list.push(`precision=${control.precision.value}`);
    if (differs("optimizer")) list.push(`optimizer.name=${control.optimizer.value}`);
    if (control.activation_checkpointing.checked !== start.activation_checkpointing) {
      list.push(`activation_checkpointing=${control.activation_checkpointing.checked}`);
    }
    const { of, amount, epochs } = start.dataset;
    if (control.counted.value !== of || (of && (String(control.amount.value) !== String(amount) || Number(control.epochs.value) !== epochs))) {
      const passes = control.counted.value === "samples" && Number(control.epochs.value) ? `, epochs: ${control.epochs.value}` : "";
      if (!control.counted.value) list.push("dataset={}");
      else if (control.amount.value) list.push(`dataset={${control.counted.value}: ${control.amount.value}${control.counted.value === "seconds" && Number(control.amount.value) ? " s" : ""}${passes}}`);
    }
    if (touched.has("price") && control.price.value) list.push(`price_per_gpu_hour=${control.price.value} USD/h`);
    for (const [name, field, unit] of [["nics_per_node", "fabric.nics_per_node", ""], ["gbit", "fabric.nic_rate", " Gbit/s"]]) {
      if (touched.has(name) && control[name].value) list.push(`${field}=${control[name].value}${unit}`);
    }
    if (control.slow.value !== "1") list.push(`stragglers.slow_ranks=[{rank: 0, factor: ${control.slow.value}}]`);
    if (control.jitter.value !== "0") list.push(`stragglers.per_step.lognormal.sigma=${control.jitter.value}`);
    const entries = strategyBoxes().filter((box) => box.checked).map((box) => box.value);
    if (control.more.value.trim()) entries.push(control.more.value.trim());
    if (entries.join() !== start.strategies.map((one) => one.entry).join()) list.push(`strategies=[${entries.join(", ")}]`);
    return list;
  };
  // Controls that show values of the model or the platform until the user changes them.
  const touched = new Set();
  const own = { model: ["image"], platform: ["nics_per_node", "gbit", "price"] };

  // ---- the answer
  const changeCell = (now, before, lessIsBetter) => {
    if (!(before > 0) || !(now > 0)) return element("td", {}, "-");
    const percent = 100 * (now / before - 1);
    if (Math.abs(percent) < 0.05) return element("td", {}, "the same");
    return element("td", { class: (percent < 0) === lessIsBetter ? "better" : "worse" }, `${percent > 0 ? "+" : "−"}${Math.abs(percent).toFixed(1)} %`);
  };
  const predictionsOf = (answer) => (answer ? answer.data.chapters[0].result.predictions : []);
  const showChanges = () => {
    const panel = $("changes");
    const before = new Map(predictionsOf(kept).map((p) => [nameOf(p), p]));
    const rows = predictionsOf(shown).filter((p) => before.has(nameOf(p))).map((p) => {
      const then = before.get(nameOf(p));
      return element("tr", {}, element("th", { class: "l" }, nameOf(p)), changeCell(p.step_seconds, then.step_seconds, true),
        changeCell(p.samples_per_second, then.samples_per_second, false), changeCell(p.memory.device_bytes, then.memory.device_bytes, true),
        changeCell(p.dollars, then.dollars, true));
    });
    const same = rows.every((row) => [...row.querySelectorAll("td")].every((cell) => ["the same", "-"].includes(cell.textContent)));
    panel.hidden = !kept || kept === shown || same;
    if (panel.hidden) return;
    const titles = ["", "step", "samples/s", "memory", "price"].map((title) => element("th", { class: !title && "l" }, title));
    panel.replaceChildren(element("h2", {}, "Compared with what you kept"), element("table", {}, element("caption", {}, "Every point that both have"),
      element("thead", {}, element("tr", {}, titles)), element("tbody", {}, rows)));
  };
  const showErrors = (errors) => {
    $("errors").replaceChildren(...errors.map(({ field, message, hint }) =>
      element("p", {}, (field ? field + ": " : "") + message, hint ? element("span", { class: "hint" }, "; " + hint) : "")));
    $("answer").toggleAttribute("data-stale", errors.length > 0);
  };
  const show = (answer) => {
    const open = new Set([...$("answer").querySelectorAll("figure")].filter((one) => one.querySelector("details[open]")).map((one) => one.id));
    shown = answer;
    showReport($("answer"), answer.data);
    for (const id of open) {
      const details = document.querySelector(`#${CSS.escape(id)} details`);
      if (details) details.open = true;
    }
    $("command").textContent = answer.command;
    showChanges();
  };

  // ---- asking
  let asking = null; // {afresh, controller}
  let next = null;
  let questions = 0;
  const ask = async (scenario, list, signal) => {
    const name = `${Date.now()}-${++questions}`;
    const began = performance.now();
    const tell = async () => {
      $("cancel").hidden = false;
      const reply = await fetch(`/progress/${name}`).catch(() => null);
      const now = reply && await reply.json();
      if (signal.aborted || !now) return; // nothing is known yet, or the question has ended
      const { done, all, point, fraction } = now;
      const share = (done + fraction) / all, seconds = (performance.now() - began) / 1000;
      const left = share > 0 ? `, about ${Math.ceil(seconds / share - seconds)} s left` : "";
      $("status").textContent = done === all ? "Simulated; drawing…" : `Simulating ${done}/${all}${point ? `, ${point}: ${Math.round(100 * fraction)} %` : ""}${left}`;
    };
    const timer = setInterval(tell, 1000);
    try {
      const reply = await fetch("/answer", {
        method: "POST", headers: { "Content-Type": "application/json", "X-Question": name },
        body: JSON.stringify({ scenario, settings: list }), signal,
      });
      return await reply.json();
    } finally {
      clearInterval(timer);
      $("cancel").hidden = true;
    }
  };
  const update = async (afresh) => {
    if (asking) {
      next = { afresh: afresh || Boolean(next && next.afresh) };
      if (afresh || !asking.afresh) asking.controller.abort();
      return;
    }
    asking = { afresh, controller: new AbortController() };
    const { signal } = asking.controller;
    $("status").toggleAttribute("data-busy", true);
    $("status").textContent = "Simulating…";
    try {
      const answer = await ask(control.scenario.value, afresh ? [] : settings(), signal);
      if (answer.errors) {
        showErrors(answer.errors);
        $("status").textContent = "Not possible";
      } else {
        showErrors([]);
        if (afresh) {
          start = answer.form;
          touched.clear();
          kept = null;
          showForm(start);
        } else {
          if (!touched.has("gbit") && !touched.has("nics_per_node")) showNetwork(answer.form);
          showSample(answer.form);
        }
        show(answer);
        if (afresh) kept = answer;
        const points = predictionsOf(answer).length;
        $("status").textContent = `${points} point${points === 1 ? "" : "s"} in ${Math.round(1000 * answer.seconds)} ms`;
      }
    } catch {
      $("status").textContent = signal.aborted ? "Cancelled: the answer below is an earlier one" : "No answer: is lockstep serve still running?";
      $("answer").toggleAttribute("data-stale", true);
    }
    $("status").removeAttribute("data-busy");
    asking = null;
    if (next) { const { afresh: again } = next; next = null; update(again); }
  };
  let timer;
  const soon = () => { clearTimeout(timer); timer = setTimeout(() => update(false), 60); };

  form.addEventListener("submit", (event) => event.preventDefault());
  let said = ""; // name and value of the control that changed last
  const changed = (event) => {
    const { name, value, checked } = event.target;
    if (said === (said = `${name} ${value} ${checked}`)) return; // a change event after its input event
    if (name === "scenario") { update(true); return; }
    for (const one of own[name] || []) touched.delete(one);
    if (["sequence", ...own.model, ...own.platform].includes(name)) touched.add(name);
    $("epochs").hidden = control.counted.value !== "samples";
    soon();
  };
  form.addEventListener("input", changed);
  form.addEventListener("change", changed);
  $("keep").addEventListener("click", () => { kept = shown; showChanges(); $("status").textContent = "Kept: later answers are compared with this one"; });
  $("cancel").addEventListener("click", () => { next = null; if (asking) asking.controller.abort(); });
  $("reset").addEventListener("click", () => update(true));
  $("copy").addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(shown.command);
      $("status").textContent = "Copied";
    } catch {
      getSelection().selectAllChildren($("command"));
      $("status").textContent = "Press Ctrl-C to copy the marked command";
    }
  });
  $("save").addEventListener("click", () => {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([shown.yaml], { type: "text/yaml" }));
    link.download = "scenario.yaml";
    link.click();
    URL.revokeObjectURL(link.href);
  });

  const begin = async () => {
    choices = await (await fetch("/choices")).json();
    fill(control.scenario, choices.scenarios.map((one) => one.file), choices.scenarios.map((one) => one.name));
    control.scenario.value = choices.start;
    fill(control.model, choices.models.map((one) => one.name));
    fill(control.platform, choices.platforms.map((one) => one.name));
    fill(control.precision, choices.precisions);
    fill(control.optimizer, choices.optimizers);
    await update(true);
  };
  begin();
})();
