/* Space: how full file systems are, when they will be full, and how evenly targets are used. */

import { Chart } from "../chart.js";
import { element } from "../element.js";
import { number, percent, tell } from "../format.js";
import { SortedTable } from "../table.js";
import { cell, section, viewOf } from "./parts.js";

const MOST_LINES = 8;

export function space(root, context) {
  const chosen = context.state().chosen.mount;
  const table = new SortedTable({
    title: "Space, and days until full",
    columns: [
      { title: "mount", words: true }, { title: "type", words: true }, { title: "nodes" }, { title: "size" }, { title: "used" },
      { title: "a day" }, { title: "days until full" }, { title: "outlook", words: true },
    ],
    link: (row) => context.link({ chosen: { mount: row.mount } }),
    isChosen: (row) => row.mount === chosen,
    first: { title: "used", falling: true },
  });
  const chart = new Chart({ title: chosen ? `Used of ${chosen}` : "Used, the fullest first", unit: "bytes", context, tall: true });
  const balance = new SortedTable({
    title: "Balance of targets in this range",
    columns: [{ title: "mount", words: true }, { title: "targets" }, { title: "mean MB/s" }, { title: "busiest" , words: true }, { title: "busiest to mean" }],
    empty: "No file system of several targets moved anything.",
  });
  const rooms = new SortedTable({
    title: "Space of targets",
    columns: [
      { title: "file system", words: true }, { title: "kind", words: true }, { title: "targets" }, { title: "fullest", words: true }, { title: "its used part" },
      { title: "emptiest", words: true }, { title: "used part" }, { title: "median" },
    ],
    empty: "No server of targets told its room.",
  });
  const words = element("p", { class: "note" },
    "A straight line through the range (the median of all slopes, Theil and Sen) says when a file system is full; the days in brackets are the ends of its 95 % interval. Take a range of days. Nothing is told beyond twenty times the history that was seen.");
  return viewOf(root, context, {
    withPicture: false,
    parts: [
      {
        element: section(table.element, words),
        async update() {
          const found = await context.ask("space", context.asked(200));
          table.set(found.mounts.map(spaceRow));
          balance.set(found.balance.map(balanceRow));
          rooms.set(found.rooms.map(roomRow));
          const shown = found.mounts.filter((each) => !chosen || each.mount === chosen).sort((a, b) => b.usedNow / b.size - a.usedNow / a.size).slice(0, MOST_LINES);
          const lines = shown.map((each) => ({ name: nameOf(each), values: each.used }));
          if (shown.length === 1) {
            lines.push({ name: "its size", values: shown[0].used.map(() => shown[0].size), required: true });
          }
          chart.set({ ...found, lines });
        },
        redraw: () => chart.data && chart.set(chart.data),
        close: () => chart.close(),
      },
      section(chart.element),
      section(rooms.element),
      section(balance.element, element("p", { class: "note" }, "As clients count what they move to and from each target. How files lie over targets, and how to mend that: gridwright layout check, gridwright layout rebalance.")),
    ],
  });
}

function nameOf(each) {
  return each.nodes.length > 1 ? `${each.mount} (${each.source})` : `${each.mount} of ${each.nodes[0]}`;
}

function spaceRow(each) {
  const days = each.days === null ? null : each.days;
  const between = days === null ? "" : ` (${each.soonest === null ? "–" : Math.floor(each.soonest)} to ${each.latest === null ? "never" : Math.ceil(each.latest)})`;
  const part = each.usedNow === null ? null : each.usedNow / each.size;
  const urgent = days !== null && days < 30 ? "bad" : each.outlook === "cannot tell" ? "" : "";
  return {
    key: `${each.mount} ${each.source} ${each.nodes[0]}`,
    mount: each.mount,
    cells: [
      cell(each.mount), cell(each.type), cell(each.nodes.length, each.nodes.length), cell(tell(each.size, "bytes"), each.size), cell(percent(part), part, part > 0.95 ? "bad" : ""),
      cell(each.bytes_per_day === null ? "–" : tell(each.bytes_per_day, "bytes"), each.bytes_per_day),
      cell(days === null ? "–" : `${days < 10 ? days.toFixed(1) : Math.round(days)}${between}`, days, urgent),
      cell(each.why ? `${each.outlook}: ${each.why}` : each.outlook),
    ],
  };
}

function roomRow(each) {
  const uneven = each.fullest_part - each.emptiest_part;
  return {
    key: `${each.filesystem} ${each.component}`,
    cells: [
      cell(each.filesystem), cell(`${each.component.toUpperCase()}s`), cell(each.targets, each.targets),
      cell(each.fullest), cell(percent(each.fullest_part), each.fullest_part, each.fullest_part > 0.9 || uneven > 0.2 ? "doubt" : ""),
      cell(each.emptiest), cell(percent(each.emptiest_part), each.emptiest_part), cell(percent(each.median_part), each.median_part),
    ],
  };
}

function balanceRow(each) {
  return {
    key: each.mount,
    cells: [
      cell(each.mount), cell(each.targets, each.targets), cell(number(each.mean, "rate"), each.mean), cell(each.busiest),
      cell(each.ratio === null ? "–" : each.ratio.toFixed(2), each.ratio, each.ratio > 2 ? "doubt" : ""),
    ],
  };
}
