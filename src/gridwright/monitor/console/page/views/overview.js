/* The first view: is all well, does each library give what is required, what binds, what did it cost. */

import { ask as askWhy } from "../ask.js";
import { Chart } from "../chart.js";
import { element, replace } from "../element.js";
import { moment, number, percent, span } from "../format.js";
import { SortedTable } from "../table.js";
import { courseChart, section, side, viewOf, cell, mountOf } from "./parts.js";

const DAY_S = 86400;
const STANDINGS = {
  met: ["met", "good"], below: ["below", "bad"], "not-asked": ["less is asked for", ""], "not-required": ["nothing is required", ""],
  idle: ["idle", ""], unknown: ["cannot tell", "doubt"],
};

export function overview(root, context) {
  const health = element("section", { class: "health unknown", "aria-live": "polite" }, element("h1", {}, "…"));
  const charts = context.about().libraries.length ? libraryParts(context) : machineParts(context);
  const findings = findingsPart();
  const why = context.about().explains ? [whyPart(context)] : [];
  const parts = [health, findings, ...charts, ...why, runsPart(context), costPart(context)];
  return viewOf(root, context, {
    parts,
    also: (picture) => {
      showHealth(health, picture, context);
      [findings, ...charts].forEach((each) => each.set?.(picture));
    },
  });
}

const WORDS = { well: "All is well", warning: "Something is slow or nearly full", wrong: "Something is wrong", unknown: "Nothing is known" };

function showHealth(root, picture, context) {
  const { state, text, parts } = picture.health;
  root.className = `health ${state}`;
  const link = (each) => context.link({
    view: each.view,
    chosen: each.view === "nodes" ? { node: each.only || null } : { mount: each.only ? mountOf(context, picture, each.only) : null },
  });
  replace(root, element("h1", {}, WORDS[state]),
    parts.length ? element("ul", {}, parts.map((each) => element("li", {}, element("a", { href: link(each) }, each.text)))) : element("p", {}, text),
    picture.notes.length ? element("p", { class: "note" }, picture.notes.join(". ")) : null);
}

function libraryParts(context) {
  let last = null;
  const table = new SortedTable({
    title: "Libraries: delivered against required",
    columns: [
      { title: "libraries", words: true }, { title: "on", words: true }, { title: "now", words: true }, { title: "MB/s/core" }, { title: "required" }, { title: "part" },
      { title: "binds now", words: true }, { title: "bound in the last day", words: true }, { title: "read MB/s" }, { title: "write MB/s" },
    ],
    link: (row) => context.link({ view: "storage", chosen: { mount: mountOf(context, last, row.key) } }),
  });
  const chart = courseOfLibraries(context);
  const bound = boundPart();
  let day = { at: null, filesystems: [] };
  return [
    {
      element: section(table.element),
      set(picture) {
        last = picture;
        table.set(picture.libraries.map((row) => libraryRow(row, day.filesystems.find((each) => each.filesystem === row.filesystem))));
      },
      async update() {
        const to = context.state().at ?? context.range().to;
        if (day.at === null || Math.abs(to - day.at) > 60) {
          day = { ...(await context.ask("libraries", { from: (to - DAY_S).toFixed(0), to: to.toFixed(0), points: 144 })), at: to };
          if (last !== null) {
            this.set(last);
          }
        }
      },
    },
    { ...chart, async update() { bound.set(await chart.update()); } },
    bound,
  ];
}

function libraryRow(row, day) {
  const [word, style] = STANDINGS[row.standing];
  const part = row.per_core !== null && row.required_per_core ? row.per_core / row.required_per_core : null;
  const causes = (day?.causes ?? []).slice(0, 3).map((each) => `${each.text} (${percent(each.part)} of the day)`);
  return {
    key: row.filesystem,
    cells: [
      cell(row.libraries.join(", ")), cell(row.filesystem), cell(word, null, style), cell(number(row.per_core, "core"), row.per_core),
      cell(number(row.required_per_core, "core"), row.required_per_core), cell(percent(part), part),
      cell(row.standing === "below" ? row.causes.join("; ") : "–"), cell(causes.join("; ") || "nothing held a library below"),
      cell(number(row.read_bytes_per_s, "rate"), row.read_bytes_per_s), cell(number(row.written_bytes_per_s, "rate"), row.written_bytes_per_s),
    ],
  };
}

function courseOfLibraries(context) {
  const chart = new Chart({
    title: "Delivered for each busy core, and required", unit: "core", context, tall: true,
    note: "A busy core runs or waits for I/O. Gaps: no core was busy, or a figure is missing.",
  });
  const part = {
    element: section(chart.element),
    async update() {
      const found = await context.ask("libraries", context.asked(200));
      const lines = found.filesystems.flatMap((each) => [
        { name: `${each.libraries.join(", ")} on ${each.filesystem}`, values: each.perCore, href: context.link({ view: "storage" }) },
        ...(each.required === null ? [] : [{ name: `required on ${each.filesystem}`, values: each.perCore.map(() => each.required), required: true }]),
      ]);
      chart.set({ ...found, lines });
      return found;
    },
    redraw: () => chart.data && chart.set(chart.data),
    close: () => chart.close(),
  };
  return part;
}

function boundPart() {
  const table = new SortedTable({
    title: "What held libraries below in this range",
    columns: [{ title: "what", words: true }, { title: "on", words: true }, { title: "part of the range" }, { title: "first", words: true }, { title: "last", words: true }],
    empty: "Nothing held a library below what is required.",
    first: { title: "part of the range", falling: true },
  });
  return {
    element: section(table.element),
    set(found) {
      if (found?.filesystems === undefined) {
        return;
      }
      table.set(found.filesystems.flatMap((each) => each.causes.map((cause) => ({
        key: `${each.filesystem} ${cause.text}`,
        cells: [cell(cause.text), cell(each.filesystem), cell(percent(cause.part), cause.part), cell(moment(cause.first, false), cause.first), cell(moment(cause.last, false), cause.last)],
      }))));
    },
  };
}

/* Without a spec nothing is required: what the machine does. */
function machineParts(context) {
  const byNode = (name) => context.link({ view: "nodes", chosen: { node: name } });
  const busy = { metric: "node_cpu_seconds_total", mode: ["user", "nice", "system", "irq", "softirq", "iowait"], by: "mode" };
  return [
    side(
      courseChart(context, { title: "CPUs, by what they do", unit: "cpus", query: busy }),
      courseChart(context, { title: "Tasks that wait for I/O", unit: "part", query: { metric: "node_pressure_io_waiting_seconds_total", by: "node" }, href: byNode }),
    ),
    side(
      courseChart(context, { title: "Read from disks", unit: "rate", query: { metric: "node_disk_read_bytes_total", by: "device" } }),
      courseChart(context, { title: "Written to disks", unit: "rate", query: { metric: "node_disk_written_bytes_total", by: "device" } }),
    ),
  ];
}

/* Why it is slow, in the words of gridwright explain-slow: looked for when somebody asks, as it takes a while. */
function whyPart(context) {
  const text = element("pre", { hidden: true, tabindex: "0", role: "region", "aria-label": "Why it is slow" });
  const status = element("span", { class: "note", role: "status" });
  const button = element("button", { type: "button" }, "Say why");
  button.addEventListener("click", async () => {
    button.disabled = true;
    status.textContent = "Histories are looked through …";
    try {
      text.textContent = (await askWhy("why", context.pictureAt())).text;
      text.hidden = false;
      status.textContent = "";
    } catch (error) {
      status.textContent = error.message;
    } finally {
      button.disabled = false;
    }
  });
  return { element: section(element("h2", {}, "Why it is slow, in words"), element("p", {}, button, " ", status), text) };
}

/* What gridwright watch has found wrong and nobody has mended; nothing is shown where no watch runs. */
function findingsPart() {
  const table = new SortedTable({
    title: "Open findings",
    columns: [{ title: "finding", words: true }, { title: "where", words: true }, { title: "what was found", words: true }, { title: "since", words: true }],
    first: { title: "since", falling: true },
  });
  const box = section(table.element, element("p", { class: "note" }, "gridwright help FINDING says why it matters and how to mend it."));
  box.hidden = true;
  return {
    element: box,
    set(picture) {
      box.hidden = picture.findings.length === 0;
      table.set(picture.findings.map((each) => ({
        key: `${each.name} ${each.where}`,
        cells: [
          cell(each.name, null, { error: "red", warning: "yellow" }[each.level] || ""), cell(each.where || "–"),
          cell(each.is_flapping ? `${each.found} (comes and goes)` : each.found), cell(moment(each.since_s), each.since_s),
        ],
      })));
    },
  };
}

function runsPart(context) {
  const list = element("ul", {});
  return {
    element: section(element("h2", {}, "Runs, proofs and findings in this range"), list),
    update() {
      const marks = context.marks().slice(-8).reverse();
      replace(list, marks.map((each) => element("li", {},
        element("span", { class: each.state === "good" ? "good" : each.state === "bad" ? "bad" : "note" }, `${moment(each.from, false)} `),
        element("a", { href: context.link({ range: null, from: Math.floor(each.from) - 60, to: Math.ceil(each.to ?? context.range().to) + 60, at: null }) }, each.text))),
      marks.length === 0 ? element("li", { class: "empty" }, "None.") : null);
    },
  };
}

function costPart(context) {
  const text = element("p", {});
  return {
    element: section(element("h2", {}, "Cost"), text),
    update() {
      const { usd_per_hour: hourly, basis } = context.about().cost;
      const { from, to } = context.range();
      const reach = context.about().reach;
      const begin = Math.max(from, reach ? reach[0] : from);
      const hours = Math.max(0, Math.min(to, context.now()) - begin) / 3600;
      text.textContent = hourly === null ? `Cannot tell: ${basis}.`
        : `${hourly.toFixed(2)} USD per hour with all nodes on, ${(hourly * hours).toFixed(2)} USD for ${span(hours * 3600)} of this range with a history (${basis}). This is no bill: nodes that were off cost less.`;
    },
  };
}
