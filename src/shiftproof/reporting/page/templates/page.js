"use strict";
(() => {
  const tip = document.getElementById("tip");
  const said = document.getElementById("said");

  // --- sorting: the headers of a table become buttons ---
  const number = (cell) => parseFloat(cell.textContent.replace("\u2212", "-").replace(/,/g, ""));

  const compare = (column, down) => (a, b) => {
    const [x, y] = [a.cells[column], b.cells[column]];
    const [m, n] = [number(x), number(y)];
    const order = x.tagName === "TH" || Number.isNaN(m) && Number.isNaN(n)
      ? x.textContent.localeCompare(y.textContent, undefined, { numeric: true })
      // What has no number comes last, whichever way.
      : Number.isNaN(m) ? (down ? -1 : 1) : Number.isNaN(n) ? (down ? 1 : -1) : m - n;
    return down ? -order : order;
  };

  const sort = (header) => {
    const table = header.closest("table");
    const body = table.tBodies[0];
    const before = header.getAttribute("aria-sort");
    const upFirst = header.cellIndex === 0 || "low" in header.dataset;
    const down = before ? before === "ascending" : !upFirst;
    table.querySelectorAll("[aria-sort]").forEach((other) => other.removeAttribute("aria-sort"));
    header.setAttribute("aria-sort", down ? "descending" : "ascending");
    body.append(...[...body.rows].sort(compare(header.cellIndex, down)));
    said.textContent = `Sorted by ${header.textContent}, ${down ? "descending" : "ascending"}`;
  };

  document.querySelectorAll("table[data-sort]").forEach((table) => {
    if (table.tBodies[0].rows.length < 2) return;
    table.querySelectorAll("thead th .h").forEach((words) => {
      const button = document.createElement("button");
      button.type = "button";
      button.className = "h";
      button.append(...words.childNodes);
      words.replaceWith(button);
      button.addEventListener("click", () => sort(button.closest("th")));
    });
  });

  // --- where a number comes from: on hover, focus and touch ---
  const words = (runs) => runs.split(";").map((run) => {
    const [trial, accuracy, draw, step] = run.split(",");
    if (step === undefined) return `trial ${trial}: ${accuracy}%`;
    if (draw === "") return `seed ${trial}: ${accuracy}% at step ${step}`;
    return `trial ${trial}: ${accuracy}% at step ${step}, hyper-parameter seed ${draw}`;
  }).join("\n");

  // A cell that says where its number comes from, or what its picture shows.
  const cells = "td[data-d], td[data-t]";
  let shown = null;
  let leaving = 0;

  const hide = () => {
    tip.hidden = true;
    if (shown) shown.removeAttribute("aria-describedby");
    shown = null;
  };

  const show = (cell) => {
    clearTimeout(leaving);
    if (cell === shown) return;
    hide();
    shown = cell;
    cell.setAttribute("aria-describedby", "tip");
    tip.textContent = cell.dataset.t ?? words(cell.dataset.d);
    place();
  };

  const place = () => {
    const at = shown.getBoundingClientRect();
    const frame = (shown.closest(".box") ?? document.body).getBoundingClientRect();
    // A cell that is being scrolled into view is not yet there.
    tip.hidden = at.right <= frame.left || at.left >= frame.right
      || at.bottom <= 0 || at.top >= innerHeight;
    const [width, height] = [tip.offsetWidth, tip.offsetHeight];
    const left = Math.min(Math.max(at.left + at.width / 2 - width / 2, 8), innerWidth - width - 8);
    tip.style.left = `${left}px`;
    tip.style.top = `${at.top >= height + 2 ? at.top - height - 2 : at.bottom + 2}px`;
  };

  const soon = () => {
    clearTimeout(leaving);
    leaving = setTimeout(hide, 120);
  };

  document.addEventListener("pointerover", (event) => {
    const cell = event.target.closest?.("td[data-d], [data-t]");
    if (cell) show(cell);
    else if (event.target === tip) clearTimeout(leaving);
    else if (shown && shown !== document.activeElement) soon();
  });
  document.addEventListener("focusin", (event) => {
    if (event.target.matches(cells)) show(event.target);
    else hide();
  });
  document.addEventListener("focusout", soon);
  document.addEventListener("scroll", () => shown && place(), { capture: true, passive: true });
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape") hide();
  });

  // --- cells by keyboard: one stop a table, arrows within it ---
  const moves = {
    ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0],
  };
  document.querySelectorAll("table").forEach((table) => {
    const first = table.querySelector(cells);
    if (!first) return;
    table.setAttribute("role", "grid");
    table.querySelectorAll(cells).forEach((cell) => { cell.tabIndex = -1; });
    first.tabIndex = 0;
    table.addEventListener("keydown", (event) => {
      const cell = event.target;
      if (!(event.key in moves) || !cell.matches(cells)) return;
      event.preventDefault();
      const [down, right] = moves[event.key];
      const rows = [...table.tBodies[0].rows, ...(table.tFoot?.rows ?? [])];
      let row = rows.indexOf(cell.parentElement) + down;
      let column = cell.cellIndex + right;
      while (rows[row]?.cells[column]) {
        const next = rows[row].cells[column];
        if (next.matches(cells)) {
          next.focus();
          return;
        }
        row += down;
        column += right;
      }
    });
    table.addEventListener("focusin", (event) => {
      if (!event.target.matches(cells)) return;
      table.querySelector("td[tabindex='0']").tabIndex = -1;
      event.target.tabIndex = 0;
    });
  });

  // --- boxes that scroll can be reached and fade where there is more; folds are printed too ---
  const reach = () => document.querySelectorAll(".box").forEach((box) => {
    const hidden = box.scrollWidth - box.clientWidth;
    if (hidden > 0) box.tabIndex = 0;
    else box.removeAttribute("tabindex");
    box.toggleAttribute("data-more", hidden - box.scrollLeft > 1);
  });
  addEventListener("resize", reach);
  document.addEventListener("scroll", reach, { capture: true, passive: true });
  document.addEventListener("toggle", reach, true);
  reach();
  let opened = [];
  addEventListener("beforeprint", () => {
    opened = [...document.querySelectorAll("details:not([open])")];
    opened.forEach((fold) => { fold.open = true; });
  });
  addEventListener("afterprint", () => opened.forEach((fold) => { fold.open = false; }));
})();
