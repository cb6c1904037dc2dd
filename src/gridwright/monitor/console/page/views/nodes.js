/* Nodes: all of them, or one with its disks, targets and jobs. */

import { element } from "../element.js";
import { courseChart, PictureTable, side, viewOf } from "./parts.js";

const BUSY = ["user", "nice", "system", "irq", "softirq"];

export function nodes(root, context) {
  const node = context.state().chosen.node;
  return node ? oneNode(root, context, node) : allNodes(root, context);
}

function allNodes(root, context) {
  const toNode = (name) => context.link({ chosen: { node: name } });
  const chart = (title, unit, query) => courseChart(context, { title, unit, query: { by: "node", ...query }, href: toNode });
  const table = new PictureTable("Nodes", { link: (row) => toNode(row.key) });
  return viewOf(root, context, {
    parts: [
      table,
      side(
        chart("CPUs that run", "cpus", { metric: "node_cpu_seconds_total", mode: BUSY }),
        chart("Tasks that wait for I/O, part of the time", "part", { metric: "node_pressure_io_waiting_seconds_total" }),
      ),
      side(
        chart("Received", "rate", { metric: "node_network_receive_bytes_total" }),
        chart("Sent", "rate", { metric: "node_network_transmit_bytes_total" }),
      ),
      chart("Memory that is available", "bytes", { metric: "node_memory_MemAvailable_bytes" }),
    ],
    tables: [table],
  });
}

function oneNode(root, context, node) {
  const away = element("p", { class: "bad", hidden: true });
  const heading = element("section", {}, element("h1", {}, `Node ${node}`), away);
  const chart = (title, unit, query, href = null) => courseChart(context, { title, unit, query: { node, ...query }, href });
  const ofNode = (row) => row.key.split(" ")[0] === node;
  const toTarget = (name) => context.link({ view: "storage", chosen: { target: name } });
  const tables = [
    new PictureTable("Jobs", {
      link: (row) => context.link({ view: "jobs", chosen: { job: row.key } }),
      only: (row, picture) => (picture.jobNodes[row.key] || []).includes(node),
      empty: "No job is seen on this node.",
      first: { title: "read MB/s", falling: true },
    }),
    new PictureTable("Nodes", { only: (row) => row.key === node }),
    new PictureTable("Disks", { only: ofNode }),
    new PictureTable("Mounts", { only: ofNode }),
    new PictureTable("Processes of no job", { only: ofNode, empty: "None that you may know: yours, or all as an administrator.", first: { title: "moved MB/s", falling: true } }),
  ];
  return viewOf(root, context, {
    parts: [
      heading,
      tables[0],
      side(
        chart("CPUs, by what they do", "cpus", { metric: "node_cpu_seconds_total", by: "mode", mode: [...BUSY, "iowait", "steal"] }),
        chart("Tasks that wait, part of the time", "part", {
          metric: ["node_pressure_io_waiting_seconds_total", "node_pressure_cpu_waiting_seconds_total", "node_pressure_memory_waiting_seconds_total"], by: "metric",
        }),
      ),
      side(
        chart("Read, by target", "rate", { metric: "gridwright_mount_read_bytes_total", by: "target" }, toTarget),
        chart("Written, by target", "rate", { metric: "gridwright_mount_written_bytes_total", by: "target" }, toTarget),
      ),
      side(
        chart("Disks: part of the time with a request in flight", "part", { metric: "node_disk_io_time_seconds_total", by: "device" }),
        chart("Network, received and sent", "rate", { metric: ["node_network_receive_bytes_total", "node_network_transmit_bytes_total"], by: "metric" }),
      ),
      ...tables.slice(1),
    ],
    tables,
    also: (picture) => {
      const why = picture.away[node];
      away.hidden = why === undefined;
      away.textContent = why === undefined ? "" : `It is away: ${why}.`;
    },
  });
}
