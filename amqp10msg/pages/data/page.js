"use strict";
(() => {
  const status = document.querySelector(".status");
  const hint = status.innerHTML;
  const messages = [];
  let pinned = null;

  // The position in a message is the last part of the URL fragment, after other parameters.
  const PLACE = /(?:^#|&)((?:message-(\d+)-)?byte-(\d+))$/;

  // In the frame of a notebook, the page has no URL.
  const goTo = (place) => {
    if (location.protocol === "about:") return;
    const before = location.hash.replace(PLACE, "");
    const hash = place ? `${before ? `${before}&` : "#"}${place}` : before;
    history.replaceState(null, "", hash || location.pathname + location.search);
  };

  class Message {
    constructor(article, number) {
      this.number = number;
      this.folded = article.querySelector(":scope > details");
      this.octets = article.querySelector(".octets");
      this.tree = article.querySelector(".tree");
      this.bytes = new Map();
      this.rows = [];
      this.marked = [];
      for (const line of this.octets.querySelectorAll(".line")) {
        const start = Number(line.dataset.o);
        const chars = line.querySelectorAll(".chars b");
        line.querySelectorAll(".hex b").forEach((hex, i) => {
          this.bytes.set(start + i, [hex, chars[i]]);
          for (const element of [hex, chars[i]]) element.octet = start + i;
        });
      }
      const open = [];
      for (const element of this.tree.querySelectorAll("tr[data-a]")) {
        const { a, b, e, l, p } = element.dataset;
        const row = {
          element,
          start: Number(a),
          stop: Number(b),
          end: Number(e),
          parts: p ? p.split("|").map((part) => [parseInt(part, 10), part.replace(/^\d+ /, "")]) : [],
        };
        open.length = Number(l);
        row.parents = open.slice();
        open.push(row);
        element.row = row;
        this.rows.push(row);
      }
      this.starts = this.rows.filter((row) => row.stop > row.start);
    }

    rowOf(octet) {
      let low = 0;
      let high = this.starts.length - 1;
      while (low <= high) {
        const middle = (low + high) >> 1;
        const row = this.starts[middle];
        if (octet < row.start) high = middle - 1;
        else if (octet >= row.stop) low = middle + 1;
        else return row;
      }
      return null;
    }

    mark(element, name) {
      element.classList.add(name);
      this.marked.push([element, name]);
    }

    clear() {
      for (const [element, name] of this.marked) element.classList.remove(name);
      this.marked = [];
    }

    show(row, octet) {
      for (const message of messages) message.clear();
      for (let at = row.start; at < row.end; at++) {
        const name = at < row.stop ? "lit" : "in";
        for (const element of this.bytes.get(at) || []) this.mark(element, name);
      }
      this.mark(row.element, "lit");
      for (const parent of row.parents) this.mark(parent.element, "around");
      if (octet !== null) {
        for (const element of this.bytes.get(octet) || []) this.mark(element, "here");
      }
      this.tell(row, octet);
    }

    tell(row, octet) {
      const add = (tag, text) => {
        const element = document.createElement(tag);
        element.textContent = text;
        status.append(element);
      };
      const cell = (one, name) => one.element.querySelector("." + name).textContent.trim();
      status.textContent = "";
      if (octet !== null) {
        const hex = this.bytes.get(octet);
        const part = row.parts.filter(([from]) => from <= octet - row.start).pop();
        const what = [`byte ${octet}`, hex ? hex[0].textContent : "", part ? part[1] : ""];
        add("span", what.filter(Boolean).join(" · "));
        add("i", "—");
      }
      for (const parent of row.parents) {
        add("span", cell(parent, "name"));
        add("i", "›");
      }
      add("strong", cell(row, "name"));
      const length = row.end - row.start;
      const place = length ? `bytes ${row.start} to ${row.end - 1}` : `before byte ${row.start}`;
      add("i", "·");
      add("span", [cell(row, "type"), cell(row, "value")].filter(Boolean).join(" "));
      add("i", "·");
      add("span", `${place} (${length})`);
    }

    pin(row, octet, quiet) {
      pinned = { message: this, row, octet };
      this.open();
      this.show(row, octet);
      row.element.scrollIntoView({ block: "nearest" });
      const bytes = this.bytes.get(octet) || this.bytes.get(row.start);
      if (bytes) bytes[0].scrollIntoView({ block: "nearest" });
      if (!quiet) {
        const prefix = messages.length > 1 ? `message-${this.number}-` : "";
        goTo(`${prefix}byte-${octet === null ? row.start : octet}`);
      }
    }

    open() {
      if (this.folded) this.folded.open = true;
    }

    pinOctet(octet, quiet) {
      const row = this.rowOf(octet);
      if (row) this.pin(row, octet, quiet);
      return Boolean(row);
    }
  }

  const reveal = (pane, element) => {
    const box = pane.getBoundingClientRect();
    const at = element.getBoundingClientRect();
    if (at.top < box.top + 24 || at.bottom > box.bottom) {
      pane.scrollTop += at.top - box.top - box.height / 3;
    }
  };

  const restore = () => {
    if (pinned) pinned.message.show(pinned.row, pinned.octet);
    else {
      for (const message of messages) message.clear();
      status.innerHTML = hint;
    }
  };

  const follow = () => {
    const whole = /^#message-(\d+)$/.exec(location.hash);
    if (whole && messages[Number(whole[1]) - 1]) messages[Number(whole[1]) - 1].open();
    const match = PLACE.exec(location.hash);
    if (!match) return;
    const message = messages[Number(match[2] || 1) - 1];
    if (message) message.pinOctet(Number(match[3]), true);
  };

  const take = (article, index) => {
    const message = new Message(article, index + 1);
    messages.push(message);
    const { octets, tree } = message;

    octets.addEventListener("mouseover", (event) => {
      const octet = event.target.octet;
      const row = octet === undefined ? null : message.rowOf(octet);
      if (!row) return restore();
      message.show(row, octet);
      reveal(tree, row.element);
    });
    tree.addEventListener("mouseover", (event) => {
      const element = event.target.closest("tr[data-a]");
      if (!element) return restore();
      message.show(element.row, null);
      const bytes = message.bytes.get(element.row.start);
      if (bytes) reveal(octets, bytes[0]);
    });
    for (const pane of [octets, tree]) pane.addEventListener("mouseleave", restore);
    octets.addEventListener("click", (event) => {
      if (event.target.octet !== undefined) message.pinOctet(event.target.octet);
    });
    tree.addEventListener("click", (event) => {
      const element = event.target.closest("tr[data-a]");
      if (element) message.pin(element.row, null);
    });

    const here = () => (pinned && pinned.message === message ? pinned : null);
    octets.addEventListener("keydown", (event) => {
      const last = message.starts.length ? message.starts[message.starts.length - 1].stop - 1 : 0;
      const now = here();
      const at = now ? (now.octet === null ? now.row.start : now.octet) : -1;
      const steps = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: 16, ArrowUp: -16 };
      let to = at;
      if (event.key in steps) to = at < 0 ? 0 : at + steps[event.key];
      else if (event.key === "Home") to = 0;
      else if (event.key === "End") to = last;
      else return;
      event.preventDefault();
      message.pinOctet(Math.min(Math.max(to, 0), last));
    });
    tree.addEventListener("keydown", (event) => {
      const now = here();
      const at = now ? message.rows.indexOf(now.row) : -1;
      const last = message.rows.length - 1;
      let to = at;
      if (event.key === "ArrowDown") to = at + 1;
      else if (event.key === "ArrowUp") to = at - 1;
      else if (event.key === "Home") to = 0;
      else if (event.key === "End") to = last;
      else return;
      event.preventDefault();
      if (last >= 0) message.pin(message.rows[Math.min(Math.max(to, 0), last)], null);
    });
  };

  // A page whose messages change sends an event.
  const start = () => {
    messages.length = 0;
    pinned = null;
    status.innerHTML = hint;
    document.querySelectorAll(".message[id^='message-']").forEach(take);
    follow();
  };

  document.addEventListener("keydown", (event) => {
    if (event.key !== "Escape" || !pinned) return;
    pinned = null;
    goTo("");
    restore();
  });
  document.addEventListener("click", (event) => {
    const link = event.target.closest("a[href^='#message-']");
    const match = link && PLACE.exec(link.hash);
    const message = match && messages[Number(match[2]) - 1];
    if (!message) return;
    event.preventDefault();
    message.pinOctet(Number(match[3]));
  });
  document.addEventListener("messages", start);
  addEventListener("hashchange", follow);
  start();
})();
