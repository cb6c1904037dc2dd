/* Runs, proofs and findings of the range, as they are marked on the charts. */

import { element } from "../element.js";
import { moment, span } from "../format.js";
import { SortedTable } from "../table.js";
import { cell, courseChart, section, side, viewOf } from "./parts.js";

export function runs(root, context) {
  const table = new SortedTable({
    title: "Runs, proofs and findings in this range",
    columns: [{ title: "run or finding", words: true }, { title: "began", words: true }, { title: "took" }, { title: "what came out", words: true }],
    link: (row) => context.link({ range: null, from: row.from, to: row.to, at: null }),
    empty: "Nothing happened in this range that left a mark.",
    first: { title: "began", falling: true },
  });
  const chart = (title, unit, query) => courseChart(context, { title, unit, query });
  return viewOf(root, context, {
    withPicture: false,
    parts: [
      {
        element: section(table.element, element("p", { class: "note" }, "A name shows that time. gridwright report RUN writes the report of a run, gridwright help FINDING what causes a finding; findings are those of gridwright watch.")),
        update() {
          table.set(context.marks().map((each) => row(each, context.range().to)));
        },
      },
      side(
        chart("CPUs that run, all nodes", "cpus", { metric: "node_cpu_seconds_total", mode: ["user", "nice", "system", "irq", "softirq"], by: "all" }),
        chart("Disks: read and written, all nodes", "rate", { metric: ["node_disk_read_bytes_total", "node_disk_written_bytes_total"], by: "metric" }),
      ),
    ],
  });
}

function row(mark, end) {
  const to = mark.to ?? end;
  const margin = Math.max(30, (to - mark.from) * 0.1);
  return {
    key: `${mark.name} ${mark.from}`,
    from: Math.floor(mark.from - margin),
    to: Math.ceil(to + margin),
    cells: [
      cell(mark.name), cell(moment(mark.from), mark.from), cell(mark.to === null ? "goes on" : mark.kind === "finding" ? "–" : span(to - mark.from), to - mark.from),
      cell(mark.text, null, { good: "green", bad: "red", doubt: "yellow" }[mark.state] || ""),
    ],
  };
}
