"use strict";
(() => {
  const get = (id) => document.getElementById(id);
  const [text, example, profile, translation, shown, state] = [
    "text", "example", "profile", "translation", "shown", "state",
  ].map(get);
  const [bar, words, stop, again] = ["progress", "span", "#stop", "#again"].map((one) => state.querySelector(one));
  // In milliseconds: the pause in typing after which the input is read, the time after which a
  // running request can be stopped, and the time without loading progress before a retry button.
  const [PAUSE, PATIENCE, STALLED] = [200, 3000, 30000];
  const encoder = new TextEncoder();

  let worker = null;
  let ready = false;
  let asked = 0;
  let done = 0;
  let pending = null;
  let timers = [];
  // The input (bytes, name, exchange and routing key), and the number of the shown message in it.
  let given = { data: new Uint8Array(), name: "", exchange: "", routingKey: "" };
  let number = 1;
  let opened = -1;
  let version = 0;
  let link = null;

  const say = (what, busy, long, failed) => {
    words.textContent = what;
    bar.hidden = !busy;
    stop.hidden = !long;
    again.hidden = !failed;
  };

  // While the page loads: the progress text, and the timer that offers a retry.
  let stalled = 0;
  const load = (what) => {
    clearTimeout(stalled);
    say(what, true);
    stalled = setTimeout(() => say(`${what} This takes long.`, true, false, true), STALLED);
  };

  const fail = (why) => {
    clearTimeout(stalled);
    settle();
    ready = false;
    say(why, false, false, true);
  };

  const start = () => {
    ready = false;
    opened = -1;
    load("Starting Python …");
    const source = `import ${JSON.stringify(new URL("worker.mjs", location.href).href)};`;
    const blob = URL.createObjectURL(new Blob([source], { type: "text/javascript" }));
    worker = new Worker(blob, { type: "module" });
    worker.onmessage = ({ data }) => hear(data);
    worker.onerror = () => {
      fail("Python does not start: this browser blocks the worker, or a file of the page could not be loaded.");
    };
  };

  const hear = (said) => {
    if (said.progress) return load(said.progress);
    if (said.ready) {
      clearTimeout(stalled);
      ready = true;
      document.body.dataset.ready = said.ready;
      if (pending) return send();
      return say(`${said.ready}. Paste or drop another message.`);
    }
    if (said.failed !== undefined && !said.id) return fail(said.failed);
    if (said.id !== asked) return;
    settle();
    done = said.id;
    if (said.failed !== undefined) return say(said.failed);
    shown.innerHTML = said.html;
    shown.classList.remove("old");
    link = said;
    address();
    say(document.body.dataset.ready);
    document.body.dataset.done = done;
    document.dispatchEvent(new Event("messages"));
  };

  const settle = () => {
    timers.forEach(clearTimeout);
    timers = [];
  };

  const send = () => {
    if (!ready) return;
    const request = { id: asked, number, profile: profile.value, translation: translation.value };
    // Send the bytes to the worker only once; a change of profile reuses them.
    if (opened !== version) Object.assign(request, given);
    opened = version;
    pending = null;
    worker.postMessage(request);
    timers = [setTimeout(() => say("Reading …", true), PAUSE), setTimeout(() => say("Reading …", true, true), PATIENCE)];
  };

  const ask = () => {
    asked += 1;
    settle();
    shown.classList.add("old");
    pending = true;
    send();
  };

  const take = (data, name, more) => {
    given = { data, name, exchange: "", routingKey: "", ...more };
    version += 1;
    number = 1;
    link = null;
    // Until Python has started, show no result instead of one for other bytes.
    if (!ready) {
      shown.replaceChildren();
      document.dispatchEvent(new Event("messages"));
    }
    ask();
  };

  // The URL contains the message, so that a link shows the same page.
  const PLACE = /(?:^#|&)(?:message-\d+-)?byte-\d+$/;
  const address = () => {
    const fields = new URLSearchParams();
    if (link && link.link) {
      fields.set("message", link.link);
      if (profile.selectedIndex) fields.set("rules", profile.value);
      if (!translation.options[translation.selectedIndex].defaultSelected) {
        fields.set("translation", translation.value);
      }
      if (link.exchange) fields.set("exchange", link.exchange);
      if (link.routingKey) fields.set("routing-key", link.routingKey);
    }
    const place = PLACE.exec(location.hash);
    const hash = link && link.link ? `#${fields}` : "";
    // A link may contain the message in another format than the page writes, such as hex.
    const before = new URLSearchParams(location.hash.slice(1)).get("message");
    const same = place && (before === fields.get("message") || before === text.value);
    history.replaceState(null, "", `${hash}${same ? place[0] : ""}` || location.pathname + location.search);
    get("link").disabled = !hash;
  };

  const follow = () => {
    const fields = new URLSearchParams(location.hash.slice(1));
    const message = fields.get("message");
    if (!message) return false;
    for (const [name, element] of [["rules", profile], ["translation", translation]]) {
      const wanted = [...element.options].find((one) => one.value === fields.get(name));
      const usual = [...element.options].find((one) => one.defaultSelected) || element.options[0];
      (wanted || usual).selected = true;
    }
    text.value = message;
    example.value = "";
    take(encoder.encode(message), "", {
      exchange: fields.get("exchange") || "",
      routingKey: fields.get("routing-key") || "",
    });
    return true;
  };

  const open = async (file) => {
    text.value = "";
    example.value = "";
    say(`Reading ${file.name} …`, true);
    try {
      take(new Uint8Array(await file.arrayBuffer()), file.name);
    } catch {
      say(`${file.name} cannot be read: it is a folder, or too large for this browser.`);
    }
  };

  let pause = 0;
  text.addEventListener("input", () => {
    example.value = "";
    clearTimeout(pause);
    pause = setTimeout(() => take(encoder.encode(text.value), ""), PAUSE);
  });
  example.addEventListener("change", () => {
    text.value = example.value;
    take(encoder.encode(example.value), "");
  });
  for (const element of [profile, translation]) element.addEventListener("change", ask);
  get("file").addEventListener("change", ({ target }) => {
    if (target.files.length) open(target.files[0]);
    target.value = "";
  });
  shown.addEventListener("click", (event) => {
    const button = event.target.closest("[data-number]");
    if (!button) return;
    number = Number(button.dataset.number);
    document.addEventListener("messages", () => {
      const now = shown.querySelector("[aria-current]");
      if (now) now.focus();
    }, { once: true });
    ask();
  });
  shown.addEventListener("keydown", (event) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    const button = event.target.closest("[data-number]");
    if (!step || !button) return;
    const others = [...shown.querySelectorAll("[data-number]")];
    const next = others[others.indexOf(button) + step];
    event.preventDefault();
    if (next) next.focus();
  });
  stop.addEventListener("click", () => {
    worker.terminate();
    settle();
    pending = null;
    start();
  });
  again.addEventListener("click", () => {
    worker.terminate();
    pending = asked > done;
    start();
  });
  get("link").addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(location.href);
      say("Link copied.");
    } catch {
      say("This browser blocks copying: copy the address of the page instead.");
    }
  });
  document.querySelector("form").addEventListener("submit", (event) => event.preventDefault());
  document.addEventListener("keydown", (event) => {
    if (event.key !== "/" || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.target.closest("input, textarea, select")) return;
    event.preventDefault();
    text.focus();
    text.select();
  });

  addEventListener("dragover", (event) => {
    event.preventDefault();
    document.body.classList.add("dropping");
  });
  for (const name of ["dragleave", "drop"]) {
    addEventListener(name, () => document.body.classList.remove("dropping"));
  }
  addEventListener("drop", (event) => {
    event.preventDefault();
    const [file] = event.dataTransfer.files;
    const dropped = event.dataTransfer.getData("text");
    if (file) return open(file);
    if (!dropped) return;
    text.value = dropped;
    example.value = "";
    take(encoder.encode(dropped), "");
  });
  addEventListener("paste", (event) => {
    const [file] = event.clipboardData.files;
    if (!file) return;
    event.preventDefault();
    open(file);
  });
  addEventListener("hashchange", () => {
    const message = new URLSearchParams(location.hash.slice(1)).get("message");
    if (message && !(link && link.link === message)) follow();
  });

  if (location.protocol === "file:") {
    say("Browsers do not start workers from local files. Serve this folder: python -m http.server 8000, then open http://127.0.0.1:8000/");
    return;
  }
  if (!follow()) {
    text.value = example.value;
    given.data = encoder.encode(example.value);
    get("link").disabled = true;
  }
  start();
})();
