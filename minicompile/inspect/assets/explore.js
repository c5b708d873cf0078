// The explorer. All that it shows stands in the script element "data"; see explore_data.py for what is in it.
(() => {
  "use strict";
  const data = JSON.parse(document.getElementById("data").textContent);
  const main = document.getElementById("slots");

  // ---- small helpers ----

  const make = (tag, name = "", text = null) => {
    const element = document.createElement(tag);
    if (name) element.className = name;
    if (text !== null) element.textContent = text;
    return element;
  };
  const bytes = (count) => {
    if (count === null) return "?";
    for (const [unit, size] of [["GB", 1e9], ["MB", 1e6], ["KB", 1e3]]) {
      if (count >= size) return `${(count / size).toPrecision(3)} ${unit}`;
    }
    return `${count} B`;
  };
  const seconds = (spent) => spent >= 1 ? `${spent.toPrecision(3)} s` : spent >= 1e-3 ? `${(spent * 1e3).toPrecision(3)} ms`
    : `${(spent * 1e6).toPrecision(3)} µs`;

  // ---- lines and their counterparts ----

  let held = null;                                   // the line that a click holds
  const slots = [];
  const shownLines = () => slots.flatMap((slot) => slot.lines);

  class Line {
    constructor(element, keys, also) {
      Object.assign(this, { element, keys, also });
      element.addEventListener("mouseenter", () => { if (!held) light(this); });
      element.addEventListener("mouseleave", () => { if (!held) light(null); });
      element.addEventListener("click", () => hold(this));
    }
    isCounterpartOf(other) {
      return this.keys.some((key) => other.keys.includes(key) || other.also.includes(key))
        || other.keys.some((key) => this.also.includes(key));
    }
  }

  const light = (line) => {
    for (const other of shownLines()) {
      other.element.classList.toggle("lit", line !== null && (other === line || other.isCounterpartOf(line)));
      other.element.classList.toggle("here", other === line);
    }
  };
  const hold = (line) => {
    held = held === line ? null : line;
    light(held);
    if (held) reveal((other) => other !== line && other.isCounterpartOf(line), slotOf(line));
  };
  const slotOf = (line) => slots.find((slot) => slot.lines.includes(line));
  const reveal = (wanted, except) => {              // the first line of each other pane that is wanted
    for (const slot of slots) {
      if (slot === except) continue;
      const found = slot.lines.find(wanted);
      if (found) scrollTo(slot.body, found.element);
    }
  };
  const scrollTo = (body, element) => {
    const top = element.offsetTop - body.offsetTop, room = body.clientHeight;
    if (top < body.scrollTop || top > body.scrollTop + room - 24) body.scrollTop = top - room / 3;
  };

  const addLine = (slot, html, keys, also, number = null, kind = "") => {
    const element = make("div", `line text ${kind}`);
    if (number !== null) element.append(make("span", "at", String(number)));
    const content = make("span", "code");
    content.innerHTML = html || " ";
    element.append(content);
    slot.lines.push(new Line(element, keys, also));
    return element;
  };
  const addText = (slot, text, keys = [], also = []) => {
    const element = addLine(slot, "", keys, also, null, "wrap");
    element.lastChild.textContent = text;
    return element;
  };

  // ---- views: each fills a pane, and may offer several listings ----

  const listings = (name, empty) => ({
    choices: () => data.panes[name].map((listing) => listing.title),
    show(slot, index) {
      const listing = data.panes[name][index];
      if (!listing) return slot.body.append(make("p", "pad faint", empty));
      const fragment = document.createDocumentFragment();
      for (const [html, keys, also, number] of listing.lines) {
        fragment.append(addLine(slot, html, keys, also, number ?? null));
      }
      slot.body.append(fragment);
    },
  });

  const section = (slot, title, rows, none) => {
    const box = make("div", "pad");
    box.append(make("h3", "", title));
    if (!rows.length) box.append(make("p", "faint", none));
    slot.body.append(box);
    for (const [text, keys, also] of rows) slot.body.append(addText(slot, text, keys || [], also || []));
  };

  const summary = {
    choices: () => [],
    show(slot) {
      const facts = data.facts;
      section(slot, "Graph breaks", facts.breaks.map((row) => [
        `line ${row.line} in ${row.function}:  ${row.source}\n   ${row.why}\n   try: ${row.rewrite}`, [row.key],
      ]), "none: every graph is whole");
      section(slot, "Calls", facts.calls.map((call) => [
        `${call.number}. (${call.arguments})  ${call.outcome}, ${seconds(call.seconds)}`
          + call.failed.map((reason) => `\n   guard failed: ${reason}`).join(""),
      ]), "none");
      const moved = facts.kernels.reduce((sum, kernel) => sum + (kernel.bytes || 0), 0);
      section(slot, `Kernels: ${bytes(moved)} moved, inputs and results alone are ${bytes(facts.least_bytes)}`,
        facts.kernels.map((kernel) => [kernelText(kernel), kernel.keys, kernel.also]), "none");
      section(slot, "Kept apart by fusion", facts.refusals.map((row) => [`${row.first} + ${row.second}: ${row.reason}`]),
        "nothing");
      section(slot, "Side effects, repeated behind the graph", facts.effects.map((row) => [
        `line ${row.line}:  ${row.statement}   (glue of entry ${row.entry}, line ${row.glue_line})`, [row.key],
      ]), "none");
      section(slot, "Runs in eager mode", facts.eager.map((text) => [text]), "nothing");
    },
  };
  const kernelText = (kernel) => `${kernel.number}. ${kernel.name} (${kernel.language}, graph ${kernel.graph})  `
    + `${bytes(kernel.bytes)}\n   ${kernel.operations}`;

  const kernels = {
    choices: () => data.facts.kernels.map((kernel) => `${kernel.number}. ${kernel.name}`),
    show(slot, index) {
      const kernel = data.facts.kernels[index];
      if (!kernel) return slot.body.append(make("p", "pad faint", "no kernels"));
      slot.body.append(addText(slot, kernelText(kernel), kernel.keys, kernel.also));
      slot.body.append(make("div", "pad"));
      for (const text of kernel.ir.split("\n")) slot.body.append(addText(slot, text, kernel.keys, kernel.also));
    },
  };

  const timeline = {
    choices: () => [],
    show(slot) {
      const end = Math.max(...data.timeline.map(([, , start, spent]) => start + spent), 1e-9);
      let last = null;
      for (const [entry, stage, start, spent] of data.timeline) {
        if (entry !== last) slot.body.append(make("h3", "pad", `entry ${entry}: ${data.facts.entries[entry].name}`));
        last = entry;
        const row = make("div", "span"), track = make("div", "track"), bar = make("i");
        bar.style.left = `${100 * start / end}%`;
        bar.style.width = `${100 * spent / end}%`;
        track.append(bar);
        row.append(make("span", "", stage), track, make("span", "faint", seconds(spent)));
        slot.body.append(row);
      }
    },
  };

  const drawing = {
    choices: () => data.drawings.map(([title]) => title),
    show(slot, index) {
      if (!data.drawings[index]) return slot.body.append(make("p", "pad faint", "no drawing: the graph is too large, or no layout engine was found"));
      const holder = make("div", "drawing");
      holder.innerHTML = data.drawings[index][1];
      slot.holder.append(holder);
      panAndZoom(holder, slot);
    },
  };
  const panAndZoom = (holder, slot) => {
    const svg = holder.querySelector("svg");
    const natural = svg.viewBox.baseVal;
    svg.setAttribute("width", natural.width);
    svg.setAttribute("height", natural.height);
    let scale = 1, x = 0, y = 0;
    const apply = () => { svg.style.transform = `translate(${x}px, ${y}px) scale(${scale})`; holder.dataset.scale = scale; };
    const fit = () => {
      scale = Math.min(holder.clientWidth / natural.width, holder.clientHeight / natural.height, 1.5) || 1;
      x = (holder.clientWidth - natural.width * scale) / 2;
      y = 0;
      apply();
    };
    const zoom = (factor, cx, cy) => {
      x = cx - (cx - x) * factor;
      y = cy - (cy - y) * factor;
      scale *= factor;
      apply();
    };
    holder.addEventListener("wheel", (event) => {
      event.preventDefault();
      const box = holder.getBoundingClientRect();
      zoom(event.deltaY < 0 ? 1.15 : 1 / 1.15, event.clientX - box.left, event.clientY - box.top);
    }, { passive: false });
    holder.addEventListener("pointerdown", (event) => holder.setPointerCapture(event.pointerId));
    holder.addEventListener("pointermove", (event) => {
      if (!event.buttons) return;
      x += event.movementX;
      y += event.movementY;
      apply();
    });
    slot.onKey = (key) => {
      const factor = { "+": 1.25, "=": 1.25, "-": 0.8 }[key];
      if (key === "0") fit();
      else if (factor) zoom(factor, holder.clientWidth / 2, holder.clientHeight / 2);
      return key === "0" || factor !== undefined;
    };
    requestAnimationFrame(fit);
  };

  // ---- the symbolic interpreter, step by step ----

  const place = { recording: 0, step: 0 };           // where it stands, in every pane that shows it
  const text = (number) => data.texts[number];
  const stepListeners = [];
  const instruction = (code, offset) => {
    const listing = data.panes.bytecode[code];
    const line = listing && listing.lines.find((each) => each[1][0] === `B:${code}:${offset}`);
    return line ? line[0].replace(/^[\s\d»]*?(\d+ [A-Z])/, "$1").trim() : `byte ${offset} of a function of torch's`;
  };
  const goTo = (step) => {
    const recording = data.steps[place.recording];
    if (!recording) return;
    place.step = Math.max(0, Math.min(step, recording.steps.length - 1));
    stepListeners.forEach((listener) => listener());
    markNow();
  };
  const markNow = () => {
    const step = data.steps[place.recording]?.steps[place.step];
    if (!step) return;
    const now = step[0] < 0 ? [text(step[2])] : [`B:${step[0]}:${step[1]}`, text(step[2])];
    for (const slot of slots) {
      const isBytecode = slot.view === "bytecode";
      if (isBytecode && step[0] >= 0 && slot.index !== step[0]) slot.fill("bytecode", step[0]);
      if (!isBytecode && slot.view !== "source") continue;
      const wanted = isBytecode ? now[0] : now[now.length - 1];
      for (const line of slot.lines) {
        const is = line.keys.includes(wanted);
        line.element.classList.toggle("now", is);
        if (is) scrollTo(slot.body, line.element);
      }
    }
  };

  const steps = {
    choices: () => data.steps.map((recording, number) => `${number}. ${recording.name.replace(/\(.*\//, "(")}: ${recording.outcome}`),
    show(slot, index) {
      if (!data.steps[index]) return slot.body.append(make("p", "pad faint", "nothing was traced"));
      if (place.recording !== index) Object.assign(place, { recording: index, step: 0 });
      const head = make("div", "pad steps-head"), back = make("button", "", "◀"), on = make("button", "", "▶");
      const slider = make("input"), count = make("span", "faint"), content = make("div", "pad text");
      slider.type = "range";
      slider.min = 0;
      slider.max = Math.max(data.steps[index].steps.length - 1, 0);
      slider.setAttribute("aria-label", "step");
      back.setAttribute("aria-label", "step back");
      on.setAttribute("aria-label", "step on");
      back.addEventListener("click", () => goTo(place.step - 1));
      on.addEventListener("click", () => goTo(place.step + 1));
      slider.addEventListener("input", () => goTo(Number(slider.value)));
      head.append(back, slider, on, count);
      slot.body.append(head, content);
      const show = () => {
        slider.value = place.step;
        count.textContent = `${place.step + 1} of ${data.steps[place.recording].steps.length}`;
        slot.lines.length = 0;
        content.replaceChildren(...stepParts(slot));
      };
      slot.onStep = show;
      show();
    },
  };
  const stepParts = (slot) => {
    const recording = data.steps[place.recording];
    const step = recording.steps[place.step];
    if (!step) return [make("p", "faint", "no step")];
    const [code, offset, line, depth, stack, variables, journal, nodes] = step;
    const parts = [];
    const next = make("p", "op");
    next.innerHTML = `${"· ".repeat(depth)}next: ${instruction(code, offset)}`;
    parts.push(next, make("p", "faint", `${text(line).slice(2)}${depth ? `, inlined ${depth} deep` : ""}`));
    parts.push(make("h3", "", "stack (top first)"));
    const chips = make("div", "chips");
    stack.slice().reverse().forEach((value, at) => chips.append(make("span", at ? "chip" : "chip top", text(value))));
    parts.push(stack.length ? chips : make("p", "faint", "empty"));
    parts.push(make("h3", "", "variables"));
    const table = make("table", "vars");
    for (let i = 0; i < variables.length; i += 2) {
      const row = make("tr");
      row.append(make("td", "faint", text(variables[i])), make("td", "", text(variables[i + 1])));
      table.append(row);
    }
    parts.push(table);
    parts.push(make("h3", "", `journal: ${journal || "nothing to replay yet"}`));
    for (const [statement, key] of recording.journal.slice(0, journal)) parts.push(addText(slot, statement, key ? [key] : []));
    parts.push(make("h3", "", `graph so far: ${nodes} node(s)`));
    for (const [node, key] of recording.nodes.slice(0, nodes).reverse()) parts.push(addText(slot, node, key ? [key] : []));
    if (place.step === recording.steps.length - 1) {
      parts.push(make("p", "op", `then: ${recording.outcome}`));
      if (recording.left_out) parts.push(make("p", "faint", `${recording.left_out} more steps are not shown`));
    }
    return parts;
  };
  stepListeners.push(() => slots.forEach((slot) => { if (slot.onStep) slot.onStep(); }));

  const VIEWS = {
    summary: ["Summary", summary],
    source: ["Source", listings("source", "the source is not at hand")],
    bytecode: ["Bytecode", listings("bytecode", "no bytecode")],
    steps: ["Symbolic steps", steps],
    fx: ["FX graph", listings("fx", "no graph was captured")],
    ir: ["IR, pass by pass", listings("ir", "no graph was lowered")],
    kernels: ["Kernels", kernels],
    native: ["C++ / Triton", listings("native", "no kernel was generated")],
    wrapper: ["Wrapper", listings("wrapper", "no wrapper was generated")],
    glue: ["Glue", listings("glue", "no entry was made")],
    guards: ["Guards", listings("guards", "no entry was made")],
    timeline: ["Timeline", timeline],
    drawing: ["Drawing", drawing],
  };

  // ---- panes ----

  class Slot {
    constructor(number, view, index = 0) {
      this.pane = make("section", "pane");
      this.pane.dataset.slot = number;
      const head = make("div", "bar-head");
      this.viewSelect = make("select", "view");
      this.viewSelect.setAttribute("aria-label", `what pane ${number} shows`);
      for (const [name, [title]] of Object.entries(VIEWS)) this.viewSelect.append(new Option(title, name));
      this.indexSelect = make("select", "listing");
      this.indexSelect.setAttribute("aria-label", `which one, pane ${number}`);
      head.append(make("span", "number", String(number)), this.viewSelect, this.indexSelect);
      this.holder = make("div", "holder");
      this.pane.append(head, this.holder);
      main.append(this.pane);
      this.viewSelect.addEventListener("change", () => this.fill(this.viewSelect.value, 0));
      this.indexSelect.addEventListener("change", () => this.fill(this.view, Number(this.indexSelect.value)));
      this.fill(view, index);
    }
    fill(view, index) {
      Object.assign(this, { view, index, lines: [], onStep: null, onKey: null });
      this.pane.dataset.view = view;
      this.viewSelect.value = view;
      const choices = VIEWS[view][1].choices();
      this.indexSelect.replaceChildren(...choices.map((title, number) => new Option(title, number)));
      this.indexSelect.value = index;
      this.indexSelect.hidden = choices.length < 2;
      this.body = make("div", "body");
      this.body.tabIndex = 0;
      this.body.style.position = "absolute";
      this.body.style.inset = 0;
      this.body.addEventListener("keydown", (event) => this.walk(event));
      this.holder.replaceChildren(this.body);
      VIEWS[view][1].show(this, index);
      if (held) light(held);
      if (view === "source" || view === "steps") markNow();
    }
    walk(event) {
      const direction = { ArrowDown: 1, ArrowUp: -1 }[event.key];
      const at = this.lines.findIndex((line) => line.element.classList.contains("here"));
      if (direction !== undefined && this.lines.length) {
        event.preventDefault();
        const line = this.lines[Math.max(0, Math.min(at + direction, this.lines.length - 1))];
        held = null;
        light(line);
        scrollTo(this.body, line.element);
      } else if (event.key === "Enter" && at >= 0) {
        hold(this.lines[at]);
      }
    }
  }

  document.addEventListener("keydown", (event) => {
    if (event.target.matches("select, input") || event.ctrlKey || event.metaKey || event.altKey) return;
    if (document.getElementById("help").open) return;
    const slot = slots.find((each) => each.pane.contains(document.activeElement));
    const drawn = slot?.onKey ? slot : slots.find((each) => each.onKey);
    if (event.key >= "1" && event.key <= String(slots.length)) slots[Number(event.key) - 1].body.focus();
    else if (event.key === "ArrowRight") goTo(place.step + 1);
    else if (event.key === "ArrowLeft") goTo(place.step - 1);
    else if (event.key === "Escape") { held = null; light(null); }
    else if (event.key === "t") document.getElementById("theme").click();
    else if (event.key === "?") document.getElementById("help").showModal();
    else if (!drawn?.onKey(event.key)) return;
    event.preventDefault();
  });
  document.getElementById("help-button").addEventListener("click", () => document.getElementById("help").showModal());

  document.getElementById("title").textContent = data.title;
  document.getElementById("machine").textContent = data.machine;
  const last = Math.max(data.panes.ir.filter((listing) => listing.group === data.panes.ir[0].group).length - 1, 0);
  for (const [view, index] of [["source"], ["steps"], ["ir", last], ["bytecode"], ["summary"], ["native"]]) {
    slots.push(new Slot(slots.length + 1, view, index || 0));
  }
  goTo(0);
})();
