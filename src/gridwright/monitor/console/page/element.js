/* Makes elements out of names and texts. Texts are set as text: nothing that a job, a mount or a user is called
   is ever read as HTML. */

export function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (value === false || value === null || value === undefined) {
      continue;
    }
    if (key === "class") {
      made.className = value;
    } else if (key.startsWith("on")) {
      made.addEventListener(key.slice(2), value);
    } else {
      made.setAttribute(key, value === true ? "" : String(value));
    }
  }
  append(made, children);
  return made;
}

function append(parent, children) {
  for (const child of children.flat()) {
    if (child !== null && child !== undefined && child !== false) {
      parent.append(child);
    }
  }
}

export function replace(parent, ...children) {
  parent.replaceChildren();
  append(parent, children);
}
