"use strict";
(async () => {
  const PAGE = 100;
  const SIGNS = {
    pass: ["✓", "passed"], skip: ["·", "skipped"], note: ["i", "passed, with a note"], fail: ["✗", "failed"], error: ["!", "error"],
    hang: ["H", "hung"], memory: ["M", "too much memory"], crash: ["C", "crashed"],
  };
  const $ = (id) => document.getElementById(id);
  const make = (tag, attributes = {}, ...children) => {
    const element = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) {
      if (value !== null && value !== false) element.setAttribute(name, value === true ? "" : value);
    }
    element.append(...children.filter((child) => child !== null));
    return element;
  };

  const packed = Uint8Array.from(atob($("data").textContent), (char) => char.charCodeAt(0));
  const plain = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
  const { peers, facets, outcomes, cases, results } = JSON.parse(await new Response(plain).text());
  const chapter = (clause) => clause.split(".").slice(0, 2).join(".");
  const outcomeOf = (peer, at) => (results[peer][at] ? outcomes[results[peer][at][0]] : null);
  const inOrder = (texts) => [...new Set(texts)].sort((a, b) => a.localeCompare(b, "en", { numeric: true }));

  // The table of chapters and peers.
  const chapters = inOrder(cases.map((one) => chapter(one.clause)));
  function matrix() {
    const place = facets.indexOf($("facet").value);
    const head = make("tr", {}, make("th", { scope: "col" }, "chapter"));
    for (const peer of peers) head.append(make("th", { scope: "col", class: "n", title: peer.name }, peer.peer));
    const rows = chapters.map((name) => {
      const row = make("tr", {}, make("th", { scope: "row" }, name));
      peers.forEach((_, peer) => {
        let held = 0;
        let asked = 0;
        cases.forEach((one, at) => {
          const result = results[peer][at];
          if (!result || chapter(one.clause) !== name) return;
          if (place < 0) {
            if (outcomes[result[0]] === "skip") return;
            asked += 1;
            held += ["pass", "note"].includes(outcomes[result[0]]) ? 1 : 0;
          } else {
            asked += (result[1] >> place) & 1;
            held += (result[2] >> place) & 1;
          }
        });
        const short = held < asked;
        row.append(make("td", { class: short ? "n short" : "n" }, asked ? `${held}/${asked}` : ""));
      });
      return row;
    });
    document.querySelector(".matrix thead").replaceChildren(head);
    document.querySelector(".matrix tbody").replaceChildren(...rows);
  }

  // The cases that pass the filters.
  const fields = ["text", "clause", "kind", "peer", "outcome"].map($);
  let shown = [];
  let visible = PAGE;
  function matches(one, at) {
    const [text, clause, kind, peer, outcome] = fields.map((field) => field.value);
    if (clause && one.clause !== clause && chapter(one.clause) !== clause) return false;
    if (kind && one.kind !== kind) return false;
    const words = `${one.id} ${one.note || ""} ${one.clause} ${one.hex || ""}`.toLowerCase();
    if (text && !text.toLowerCase().split(/\s+/).every((word) => words.includes(word))) return false;
    const asked = peer === "" ? peers.keys() : [Number(peer)];
    if (!outcome && peer === "") return true;
    return [...asked].some((number) => {
      const found = outcomeOf(number, at);
      if (found === null) return false;
      if (!outcome) return found !== "skip";
      return outcome === "wrong" ? !["pass", "note", "skip"].includes(found) : found === outcome;
    });
  }

  function signs(at) {
    const around = make("span", { class: "signs" });
    peers.forEach((peer, number) => {
      const outcome = outcomeOf(number, at);
      const [sign, word] = SIGNS[outcome] || [" ", "not asked"];
      const label = `${peer.name}: ${word}`;
      around.append(make("span", { class: `sign ${outcome}`, title: label, role: "img", "aria-label": label }, sign));
    });
    return around;
  }

  function entry(at) {
    const one = cases[at];
    const button = make(
      "button", { type: "button", "aria-expanded": "false" },
      make("span", { class: "name" }, one.id), make("span", { class: "where" }, one.latitude ? `${one.clause}, may be read or refused` : one.clause),
      signs(at),
    );
    const element = make("div", { class: "case", role: "listitem", id: `case=${one.id}` }, button);
    button.addEventListener("click", () => toggle(element, at));
    return element;
  }

  function list() {
    shown = [...cases.keys()].filter((at) => matches(cases[at], at));
    draw();
  }

  function draw() {
    $("list").replaceChildren(...shown.slice(0, visible).map(entry));
    const left = shown.length - Math.min(visible, shown.length);
    $("count").textContent = `${shown.length.toLocaleString("en")} of ${cases.length.toLocaleString("en")} cases`;
    $("more").hidden = left === 0;
    $("more").textContent = `Show more of ${left.toLocaleString("en")}`;
  }

  function goTo(address) {
    if (location.protocol !== "about:") history.replaceState(null, "", address);
  }

  function close(element) {
    element.querySelector(".detail")?.remove();
    delete element.dataset.open;
    element.firstChild.setAttribute("aria-expanded", "false");
  }

  function toggle(element, at) {
    if (element.dataset.open !== undefined) {
      close(element);
      goTo(location.pathname + location.search);
      return;
    }
    element.dataset.open = "";
    element.firstChild.setAttribute("aria-expanded", "true");
    element.append(detail(at));
    goTo(`#case=${cases[at].id}`);
  }

  // One case: its bytes and fields, the expected result, and the result of each peer.
  function octets(one) {
    const bytes = (one.hex || "").match(/../g) || [];
    const kinds = Array(bytes.length).fill(["s7", -1]);
    one.rows.forEach(([from, to, , , , , kind], number) => {
      for (let at = from; at < to && at < bytes.length; at++) kinds[at] = [kind, number];
    });
    const pane = make("div", { class: "octets", tabindex: "0", role: "group", "aria-label": "Bytes in hex" });
    for (let start = 0; start < bytes.length; start += 16) {
      const hex = make("span", { class: "hex" });
      bytes.slice(start, start + 16).forEach((byte, i) => {
        const [kind, number] = kinds[start + i];
        const last = hex.lastChild;
        const wrong = one.error && one.error[1] === start + i ? " bad" : "";
        const classes = kind + wrong;
        if (i === 8) hex.append(make("i", { class: "gap" }));
        const piece = last && last.className === classes && i !== 8 ? last : make("span", { class: classes });
        piece.append(make("b", { "data-at": number }, byte));
        if (piece !== last) hex.append(piece);
      });
      pane.append(make("div", { class: "line" }, make("span", { class: "at" }, String(start)), hex));
    }
    if (one.size > bytes.length) pane.append(make("div", { class: "cut" }, `… ${one.size - bytes.length} bytes more`));
    if (!bytes.length) pane.append(make("div", { class: "cut" }, "no bytes"));
    return pane;
  }

  function tree(one) {
    const body = make("tbody");
    one.rows.forEach(([from, , level, name, type, value, kind, problems], number) => {
      const [section, group] = kind.split(" ");
      body.append(make(
        "tr", { class: `l${Math.min(level, 1)} ${section}`, "data-row": number },
        make("td", { class: "at" }, String(from)),
        make("td", { class: "name" }, "\u00a0".repeat(2 * Math.min(level, 40)) + (name || "·")),
        make("td", { class: "type" }, type), make("td", { class: `value ${group || ""}` }, value),
      ));
      for (const problem of problems) {
        body.append(make("tr", { class: "problem error" }, make("td"), make("td", { colspan: "3" }, problem)));
      }
    });
    const head = make("tr", {}, ...["byte", "field", "type", "value"].map((name) => make("th", { scope: "col" }, name)));
    return make("div", { class: "tree", tabindex: "0", role: "group", "aria-label": "Fields" },
      make("table", {}, make("thead", {}, head), body));
  }

  function light(panes) {
    const clear = () => panes.querySelectorAll(".lit").forEach((element) => element.classList.remove("lit"));
    panes.addEventListener("mouseover", (event) => {
      const byte = event.target.closest("b[data-at]");
      const row = event.target.closest("tr[data-row]");
      clear();
      const number = byte ? byte.dataset.at : row && row.dataset.row;
      if (number === null || number === undefined || number === "-1") return;
      panes.querySelectorAll(`b[data-at="${number}"], tr[data-row="${number}"]`)
        .forEach((element) => element.classList.add("lit"));
    });
    panes.addEventListener("mouseleave", clear);
  }

  function verdict(peer, at) {
    const result = results[peer][at];
    if (!result) return null;
    const [outcome, asked, held, reason, said, wrote] = result;
    const [sign, word] = SIGNS[outcomes[outcome]];
    const cell = make("td");
    const marks = facets.map((name, place) => [name, (asked >> place) & 1, (held >> place) & 1]);
    cell.append(make("p", {}, ...marks.filter(([, one]) => one).map(([name, , holds]) =>
      make("span", { class: holds ? "facet" : "facet no" }, `${holds ? "✓" : "✗"} ${name}`))));
    if (reason) cell.append(make("p", {}, reason));
    if (said) cell.append(make("pre", {}, said));
    if (wrote) cell.append(make("pre", {}, `wrote ${wrote}`));
    return make("tr", {}, make("th", { scope: "row" },
      make("span", { class: `sign ${outcomes[outcome]}`, "aria-hidden": "true" }, sign),
      ` ${peers[peer].name}: ${word}`), cell);
  }

  function detail(at) {
    const one = cases[at];
    const panes = make("div", { class: "panes" }, make("div", { class: "side" }, octets(one)), tree(one));
    light(panes);
    const say = (name, text) => (text ? make("p", {}, make("b", {}, `${name} `), text) : null);
    const lines = [
      say("About", one.note),
      say("Origin", one.origin),
      say("Must be refused", one.error && !one.latitude ? `${one.error[0]}, at byte ${one.error[1]}` : null),
      say("More than one result is right", one.latitude),
      say("No clause requires it", one.preference),
      say("Breaks", one.violations && one.violations.join(", ")),
      say("Limits", one.limits),
      say("Given", one.given),
      one.expected ? make("p", {}, make("b", {}, one.latitude ? "Expected if it is read" : "Expected")) : null,
      one.expected ? make("pre", {}, one.expected) : null,
      say("Smallest encoding", one.compact),
    ];
    const said = make("table", { class: "said" }, make("tbody", {}, ...peers.map((_, peer) => verdict(peer, at))));
    return make("div", { class: "detail" }, panes, ...lines, said);
  }

  // Address, filters, keys.
  function follow() {
    const id = decodeURIComponent(location.hash).replace(/^#case=/, "");
    const at = cases.findIndex((one) => one.id === id);
    if (at < 0) return;
    if (!shown.includes(at)) {
      document.querySelector(".filters").reset();
      list();
    }
    if (shown.indexOf(at) >= visible) {
      visible = shown.indexOf(at) + 1;
      draw();
    }
    const element = $(`case=${id}`);
    if (element.dataset.open === undefined) toggle(element, at);
    element.scrollIntoView();
    element.firstChild.focus();
  }

  const option = (select, value, text) => select.append(make("option", { value }, text));
  option($("facet"), "", "passed");
  for (const name of facets) option($("facet"), name, name);
  for (const name of chapters) option($("clause"), name, name);
  for (const name of inOrder(cases.map((one) => one.kind))) option($("kind"), name, name);
  peers.forEach((peer, number) => option($("peer"), number, peer.name));
  for (const name of outcomes) option($("outcome"), name, SIGNS[name][1]);
  $("signs").replaceChildren("In the order of the tables: ", ...outcomes.map((name) =>
    make("span", {}, make("span", { class: `sign ${name}` }, SIGNS[name][0]), ` ${SIGNS[name][1]}`)));
  $("facet").addEventListener("change", matrix);
  const again = () => {
    visible = PAGE;
    list();
  };
  for (const field of fields) field.addEventListener("input", again);
  const form = document.querySelector(".filters");
  form.addEventListener("reset", () => setTimeout(again));
  form.addEventListener("submit", (event) => event.preventDefault());
  $("more").addEventListener("click", () => {
    visible += 5 * PAGE;
    draw();
  });
  document.addEventListener("keydown", (event) => {
    const element = event.target.closest(".case");
    if (event.key === "/" && event.target.tagName !== "INPUT") {
      event.preventDefault();
      $("text").focus();
    }
    if (!element) return;
    const next = { ArrowDown: element.nextElementSibling, ArrowUp: element.previousElementSibling }[event.key];
    if (next && event.target === element.firstChild) {
      event.preventDefault();
      next.firstChild.focus();
    }
    if (event.key === "Escape" && element.dataset.open !== undefined) {
      close(element);
      element.firstChild.focus();
      goTo(location.pathname + location.search);
    }
  });
  addEventListener("hashchange", follow);
  matrix();
  list();
  $("chapters").hidden = $("cases").hidden = false;
  follow();
  document.body.dataset.ready = "";
})();
