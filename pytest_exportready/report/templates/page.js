(() => {
  "use strict";
  const root = document.documentElement;
  if (typeof DecompressionStream === "undefined") return;
  const list = document.getElementById("list");
  if (!list) return;
  const search = document.getElementById("search");
  const more = document.getElementById("more");
  const STEP = 300;
  const rows = [], bodies = new Map(), elements = new Map();
  let meta, matched = [], shown = 0, view = "";

  const made = (name, kind, text) => {
    const one = document.createElement(name);
    if (kind) one.className = kind;
    if (text) one.textContent = text;
    return one;
  };

  async function unpack() {
    const bytes = Uint8Array.from(atob(document.getElementById("data").textContent), (c) => c.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
    for (const line of (await new Response(stream).text()).split("\n")) {
      if (!line) continue;
      const value = JSON.parse(line);
      if (value.rows) {
        for (const [id, label, nodeid, cells, seconds, outcome, attention, reason] of value.rows)
          rows.push({ id, label, nodeid, cells, seconds, outcome, attention, reason });
      } else if (value.body) bodies.set(value.id, value.body);
      else meta = value;
    }
    for (const row of rows) row.text = `${row.label} ${row.nodeid} ${row.reason} ${stagesOf(row)}`.toLowerCase();
    for (const one of list.children) elements.set(one.dataset.id, one);
  }

  const stagesOf = (row) => meta.stages.filter((_, at) => "fi".includes(row.cells[at])).join(" ");

  function element(row) {
    let one = elements.get(row.id);
    if (one) return one;
    const packed = bodies.has("case-" + row.id);
    one = made(packed ? "details" : "div", "case " + row.outcome);
    one.dataset.id = row.id;
    one.id = "case-" + row.id;
    const line = one.appendChild(made(packed ? "summary" : "div", "row"));
    line.title = row.nodeid;
    const label = line.appendChild(made("span", "label"));
    const at = row.label.indexOf(" [");
    label.append(made("b", "", at < 0 ? row.label : row.label.slice(0, at)));
    if (at >= 0) label.append(" ", made("em", "", row.label.slice(at + 2).replace(/\]$/, "")));
    const words = { p: "passed", f: "failed", i: "infra", s: "skipped" };
    const failed = stagesOf(row);
    line.append(made("span", "sr", row.outcome + (failed ? " at " + failed : "")));
    const cells = line.appendChild(made("span", "cells"));
    cells.setAttribute("aria-hidden", "true");
    meta.stages.forEach((stage, number) => {
      const state = row.cells[number].trim();
      const cell = cells.appendChild(made("b", state, state && meta.marks[words[state]]));
      if ("fi".includes(state) && state) cell.title = stage;
    });
    line.append(made("span", "time", row.seconds + " s"));
    if (row.reason) line.append(made("span", "why", row.reason));
    elements.set(row.id, one);
    return one;
  }

  function fill(one) {
    if (one.tagName !== "DETAILS" || one.querySelector(".body")) return;
    const body = bodies.get("case-" + one.dataset.id);
    one.removeAttribute("id");
    if (body) one.insertAdjacentHTML("beforeend", body);
    else one.append(made("p", "body", "The details do not fit into this page. They are in the JUnit file."));
  }

  function model(row) {
    return row.nodeid.split("[")[0];
  }

  function show(upTo) {
    const part = document.createDocumentFragment();
    for (const row of matched.slice(shown, upTo)) {
      const one = element(row);
      const before = matched[shown - 1];
      one.querySelector(".label").classList.toggle("again", shown > 0 && model(before) === model(row));
      part.append(one);
      shown += 1;
    }
    list.append(part);
    showCount();
  }

  function showCount() {
    const left = matched.length - shown;
    more.parentElement.hidden = left <= 0;
    more.textContent = `Show ${Math.min(left, STEP).toLocaleString("en")} more of ${left.toLocaleString("en")}`;
    const count = matched.length.toLocaleString("en");
    document.querySelector(".found").textContent =
      matched.length === meta.total ? "" : `${count} of ${meta.total.toLocaleString("en")} cases`;
  }

  const asked = () => {
    const hash = location.hash.slice(1);
    return hash.includes("=") ? new URLSearchParams(hash) : new URLSearchParams();
  };

  function filter(state, text) {
    const terms = text.toLowerCase().split(/\s+/).filter(Boolean);
    const fits = (row) =>
      (state === "all" || (state === "attention" ? row.attention : row.outcome === state)) &&
      terms.every((term) => row.text.includes(term));
    const key = JSON.stringify([state, terms]);
    if (key === view) return;
    const untouched = view === "" && state === meta.first && !terms.length;
    view = key;
    matched = rows.filter(fits);
    if (untouched) {
      shown = list.children.length;
      showCount();
      return;
    }
    list.replaceChildren();
    shown = 0;
    show(STEP);
  }

  function goTo(id) {
    let one = elements.get(id);
    if (!one || !one.isConnected) {
      matched = rows.filter((row) => row.id === id);
      if (!matched.length) return;
      view = "one";
      list.replaceChildren();
      shown = 0;
      show(1);
      one = elements.get(id);
    }
    if (one.tagName === "DETAILS") one.open = true;
    fill(one);
    one.scrollIntoView({ block: "start" });
    one.querySelector("summary")?.focus({ preventScroll: true });
  }

  const current = (link, is) => (is ? link.setAttribute("aria-current", "true") : link.removeAttribute("aria-current"));

  function panel(id) {
    for (const one of document.querySelectorAll(".panel")) one.hidden = one.id !== id;
    for (const link of document.querySelectorAll(".tabs a"))
      current(link, link.hash === "#" + id);
  }

  function follow() {
    const hash = decodeURIComponent(location.hash.slice(1));
    const tab = document.getElementById(hash);
    panel(tab?.classList.contains("panel") ? hash : "cases");
    const given = asked();
    const state = given.get("state") || meta.first;
    if (document.activeElement !== search) search.value = given.get("q") || "";
    for (const link of document.querySelectorAll(".counts a"))
      current(link, link.hash === "#state=" + state);
    if (hash.startsWith("case-")) {
      if (!view) filter(meta.first, "");
      goTo(hash.slice(5));
    } else filter(state, given.get("q") || "");
  }

  function address(state, text) {
    const given = new URLSearchParams();
    if (text) given.set("q", text);
    if (state) given.set("state", state);
    return "#" + given;
  }

  function listen() {
    addEventListener("hashchange", follow);
    search.addEventListener("input", () => {
      history.replaceState(null, "", address(asked().get("state"), search.value));
      follow();
    });
    document.querySelector(".counts").addEventListener("click", (event) => {
      const link = event.target.closest("a");
      if (!link) return;
      event.preventDefault();
      location.hash = address(link.hash.split("=")[1], search.value);
    });
    more.addEventListener("click", () => show(shown + STEP));
    list.addEventListener("toggle", (event) => event.target.open && event.target.dataset.id && fill(event.target), true);
    addEventListener("keydown", (event) => {
      const typing = /^(INPUT|TEXTAREA)$/.test(document.activeElement.tagName);
      if (event.key === "/" && !typing && !event.ctrlKey && !event.metaKey) {
        event.preventDefault();
        panel("cases");
        search.focus();
        search.select();
      } else if (event.key === "Escape" && typing) search.blur();
    });
    addEventListener("beforeprint", () => {
      for (const one of list.querySelectorAll("details.failed, details.infra")) {
        fill(one);
        one.open = true;
      }
    });
  }

  unpack().then(() => {
    root.classList.add("js");
    listen();
    follow();
  });
})();
