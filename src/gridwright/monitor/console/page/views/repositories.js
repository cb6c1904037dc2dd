/* Repositories of the grid's spec. */

import { element } from "../element.js";
import { SortedTable } from "../table.js";
import { cell, section, viewOf } from "./parts.js";

export function repositories(root, context) {
  const table = new SortedTable({
    title: "Repositories",
    columns: [{ title: "repository", words: true }, { title: "library", words: true }, { title: "objects in", words: true }, { title: "carried by", words: true }],
    empty: "The grid spec names none.",
  });
  return viewOf(root, context, {
    withPicture: false,
    parts: [{
      element: section(table.element, element("p", { class: "note" }, "How files and objects stand takes a walk through both: gridwright repo status.")),
      async update() {
        const found = await context.ask("repositories");
        table.set(found.repositories.map((each) => ({ key: each.name, cells: [cell(each.name), cell(each.library), cell(each.place), cell(each.carried_by)] })));
      },
    }],
  });
}
