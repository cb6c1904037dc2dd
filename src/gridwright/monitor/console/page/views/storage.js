/* File systems: mounts, disks, targets and servers; and of one target, which nodes and jobs use it. */

import { element, replace } from "../element.js";
import { courseChart, PictureTable, side, viewOf } from "./parts.js";

const OTHER_VIEWS = ["Libraries", "Nodes", "Jobs", "Users", "Beside jobs", "Processes of no job", "Jobs, as servers count"];
const READ = "gridwright_mount_read_bytes_total";
const WRITTEN = "gridwright_mount_written_bytes_total";

export function storage(root, context) {
  const { target, node, mount } = context.state().chosen;
  if (target) {
    return oneTarget(root, context, target);
  }
  const only = { node: node || null, mountpoint: mount || null, most: 20 };
  const toTarget = (name) => context.link({ chosen: { target: name } });
  const read = courseChart(context, { title: "Read, by target", unit: "rate", query: { metric: READ, by: "target", ...only }, href: toTarget });
  /* The targets of the mount that is chosen, once they are known. */
  const isOfMount = (row) => {
    const lines = read.chart.data?.lines ?? [];
    return lines.length === 0 || read.chart.data.others > 0 || lines.some((line) => line.name === row.cells[0].text);
  };
  const charts = [
    side(
      read,
      courseChart(context, { title: "Written, by target", unit: "rate", query: { metric: WRITTEN, by: "target", ...only }, href: toTarget }),
    ),
    side(
      courseChart(context, { title: "Disks: part of the time with a request in flight", unit: "part", query: { metric: "node_disk_io_time_seconds_total", by: "device", node: node || null } }),
      courseChart(context, { title: "Disks: read and written", unit: "rate", query: { metric: ["node_disk_read_bytes_total", "node_disk_written_bytes_total"], by: "device", node: node || null } }),
    ),
  ];
  const targets = element("div", { class: "tables" });
  const tables = element("div", { class: "tables" });
  const known = new Map();
  return viewOf(root, context, {
    parts: [targets, ...charts, tables],
    also: (picture) => {
      // Tables of servers come with their answers, and go without them.
      known.forEach((table) => table.set(picture));
      for (const each of picture.tables.filter((table) => !OTHER_VIEWS.includes(table.title))) {
        if (!known.has(each.title)) {
          const isTargets = ["target", "OST", "MDT"].includes(each.words[0]);
          const table = new PictureTable(each.title, {
            link: isTargets ? (row) => toTarget(row.cells[0].text) : (row) => nodeOfRow(row, context),
            first: isTargets ? { title: "read MB/s", falling: true } : null,
            only: isTargets ? (mount ? isOfMount : null) : node ? (row) => row.key.split(" ")[0] === node : null,
          });
          known.set(each.title, table);
          // Where the figures are that a viewer comes for.
          (isTargets ? targets : tables).append(table.element);
        }
        known.get(each.title).set(picture);
      }
    },
  });
}

/* Rows of disks and mounts have the node first in their key. */
function nodeOfRow(row, context) {
  const name = row.key.split(" ")[0];
  return context.about().nodes.includes(name) ? context.link({ view: "nodes", chosen: { node: name } }) : null;
}

function oneTarget(root, context, target) {
  const toNode = (name) => context.link({ view: "nodes", chosen: { node: name } });
  const words = element("p", { class: "note" },
    "Clients count what each node moves to and from a target, not for which job. Jobs below run on nodes that use it; where one job is alone on a node, the node's figures are its.");
  const jobs = new PictureTable("Jobs", {
    link: (row) => context.link({ view: "jobs", chosen: { job: row.key } }),
    only: (row, picture) => (picture.jobNodes[row.key] || []).some((each) => users.has(each)),
    empty: "No job is seen on the nodes that use it.",
    first: { title: "read MB/s", falling: true },
  });
  const users = new Set();
  const heading = element("section", {}, element("h1", {}, `Target ${target}`), words);
  const read = courseChart(context, { title: "Read, by node", unit: "rate", query: { metric: READ, by: "node", target }, href: toNode });
  const written = courseChart(context, { title: "Written, by node", unit: "rate", query: { metric: WRITTEN, by: "node", target }, href: toNode });
  // What servers count by job has the names that Lustre gives jobs: programs and users, mostly.
  const served = context.about().isAdministrator
    ? side(...[["Read", "read"], ["Written", "write"]].map(([word, way]) => courseChart(context, {
      title: `${word}, by job as servers count`, unit: "rate", query: { metric: `lustre_job_${way}_bytes_total`, by: "jobid", target },
    })))
    : element("div");
  const charts = {
    ...side(read, written),
    async update() {
      await Promise.all([read.update(), written.update()]);
      users.clear();
      for (const each of [read, written]) {
        each.chart.data.lines.filter((line) => line.values.some((value) => value > 0)).forEach((line) => users.add(line.name));
      }
    },
  };
  let last = null;
  const view = viewOf(root, context, { parts: [heading, charts, served, jobs], also: (picture) => { last = picture; } });
  return {
    ...view,
    async update() {
      await view.update();
      // Which nodes use it is known only now.
      jobs.set(last);
      replace(words, words.textContent);
    },
  };
}
