// Refreshes the figures of a page that says how often, and sorts tables by a click on a heading.
// The page works without it.
"use strict";

const every = Number(document.body.dataset.live || 0) * 1000;

async function refresh() {
  if (document.hidden || document.querySelector("main :focus-within input, details[open]")) return;
  try {
    const answer = await fetch(location.href, { credentials: "same-origin", redirect: "manual" });
    if (answer.type === "opaqueredirect") return location.reload(); // the session has ended: it leads to the login
    if (!answer.ok) throw new Error(answer.status);
    const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
    for (const old of document.querySelectorAll("[data-live][id]")) {
      const now = fresh.getElementById(old.id);
      if (now && now.innerHTML !== old.innerHTML) replace(old, now);
    }
    document.body.classList.remove("stale");
  } catch {
    document.body.classList.add("stale"); // the hub does not answer
  }
}

if (every > 0) setInterval(refresh, every);

// replace puts fresh figures in, and leaves the focus and the order of tables as they are.
function replace(old, now) {
  const focus = [...old.querySelectorAll(stops)].indexOf(document.activeElement);
  const sorted = [...old.querySelectorAll("th")].map((th) => th.getAttribute("aria-sort"));
  old.replaceChildren(...now.childNodes);
  prepare(old);
  old.querySelectorAll("th").forEach((th, i) => { if (sorted[i]) sort(th, sorted[i]); });
  if (focus >= 0) old.querySelectorAll(stops)[focus]?.focus({ preventScroll: true });
}

// stops is what one comes to with the tab key.
const stops = "a, table.sortable th, [tabindex]";

function prepare(root) {
  for (const heading of root.querySelectorAll("table.sortable th")) heading.tabIndex = 0;
}

function sort(heading, direction) {
  const table = heading.closest("table");
  const column = heading.cellIndex;
  const key = (row) => {
    const cell = row.cells[column];
    const time = cell.querySelector("time");
    return time ? time.dateTime : cell.textContent.trim();
  };
  const rows = [...table.tBodies[0].rows].sort((a, b) => key(a).localeCompare(key(b), undefined, { numeric: true }));
  if (direction === "descending") rows.reverse();
  for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
  heading.setAttribute("aria-sort", direction);
  table.tBodies[0].append(...rows);
}

function turn(heading) {
  sort(heading, heading.getAttribute("aria-sort") === "ascending" ? "descending" : "ascending");
}

document.addEventListener("click", (e) => {
  const heading = e.target.closest("table.sortable th");
  if (heading) turn(heading);
});
document.addEventListener("keydown", (e) => {
  if ((e.key === "Enter" || e.key === " ") && e.target.matches("table.sortable th")) {
    e.preventDefault();
    turn(e.target);
  }
});
prepare(document);
