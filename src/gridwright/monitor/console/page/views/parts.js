/* What views are made of: sections, charts that ask for themselves, and tables of the server. */

import { link } from "../ask.js";
import { Chart } from "../chart.js";
import { element } from "../element.js";
import { columnsOf, SortedTable } from "../table.js";

const POINTS = 300;
/* What lines that are told apart by their metric are called. */
const METRICS = {
  node_pressure_io_waiting_seconds_total: "for I/O",
  node_pressure_cpu_waiting_seconds_total: "for a CPU",
  node_pressure_memory_waiting_seconds_total: "for memory",
  node_network_receive_bytes_total: "received",
  node_network_transmit_bytes_total: "sent",
  node_disk_read_bytes_total: "read",
  node_disk_written_bytes_total: "written",
};

export function section(...content) {
  return element("section", {}, ...content);
}

export function pair(...sections) {
  return element("div", { class: "pair" }, ...sections);
}

/* A chart of the metrics that `query` names; `href(name)` is where a line's name leads to. */
export function courseChart(context, { title, unit, query, href = null, note = "", tall = false }) {
  const asked = () => ({ ...query, ...context.asked(POINTS) });
  const chart = new Chart({ title, unit, context, note, tall, csv: () => link("series", { ...asked(), format: "csv" }) });
  return {
    chart,
    element: section(chart.element),
    async update() {
      const found = await context.ask("series", asked());
      for (const line of found.lines) {
        line.name = METRICS[line.name] ?? line.name;
        line.href = href && !/^\d+ others$/.test(line.name) ? href(line.name) : null;
      }
      chart.set(found);
    },
    redraw() {
      if (chart.data !== null) {
        chart.set(chart.data);
      }
    },
    close: () => chart.close(),
  };
}

/* A table of a picture, by its title; it is made when the first picture tells its columns. */
export class PictureTable {
  constructor(title, { link: address = null, isChosen = null, empty = "Nothing to show.", only = null, more = null, first = null } = {}) {
    Object.assign(this, { title, address, isChosen, only, more, empty, first });
    this.element = element("section", {});
    this.table = null;
  }

  set(picture) {
    const found = picture.tables.find((each) => each.title === this.title);
    if (found === undefined) {
      this.element.hidden = true;
      return;
    }
    this.element.hidden = false;
    if (this.table === null) {
      const columns = [...columnsOf(found), ...(this.more ? this.more.columns : [])];
      this.table = new SortedTable({ title: found.title, columns, link: this.address, isChosen: this.isChosen, empty: this.empty, first: this.first });
      this.element.append(this.table.element);
    }
    let rows = found.rows;
    if (this.only !== null) {
      rows = rows.filter((row) => this.only(row, picture));
    }
    if (this.more !== null) {
      rows = rows.map((row) => ({ ...row, cells: [...row.cells, ...this.more.cells(row, picture)] }));
    }
    this.table.set(rows, found.leftOut);
  }
}

/* A view of parts that are updated together; `begin(picture)` may do more with the picture. */
export function viewOf(root, context, { parts, tables = [], withPicture = true, also = null }) {
  let age = null;
  root.replaceChildren(...parts.map((each) => each.element ?? each));
  return {
    age: () => age,
    async update() {
      const asking = parts.filter((each) => each.update).map((each) => each.update());
      if (withPicture) {
        asking.push(context.ask("picture", context.pictureAt()).then((picture) => {
          age = picture.age;
          tables.forEach((table) => table.set(picture));
          return also ? also(picture) : null;
        }));
      }
      await Promise.all(asking);
    },
    redraw() {
      parts.forEach((each) => each.redraw?.());
    },
    close() {
      parts.forEach((each) => each.close?.());
    },
  };
}

/* Several parts side by side. */
export function side(...parts) {
  return {
    element: pair(...parts.map((each) => each.element)),
    update: () => Promise.all(parts.map((each) => each.update?.())),
    redraw: () => parts.forEach((each) => each.redraw?.()),
    close: () => parts.forEach((each) => each.close?.()),
  };
}

/* The mount that libraries of a file system lie on, of those that nodes have; null where none is known. */
export function mountOf(context, picture, filesystem) {
  const mounts = picture.tables.find((each) => each.title === "Mounts")?.rows ?? [];
  const points = mounts.map((row) => row.cells[0].text).sort((a, b) => b.length - a.length);
  const directories = context.about().libraries.filter((each) => each.filesystem === filesystem).map((each) => each.directory);
  return points.find((point) => point !== "/" && directories.some((each) => `${each}/`.startsWith(`${point}/`))) ?? null;
}

export function cell(text, value = null, style = "", node = null) {
  return { text: String(text), value, style, node };
}
