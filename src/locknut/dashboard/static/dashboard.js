// Keeps the page up to date: one tick per listing, while somebody can see it.
(() => {
  const body = document.body;
  const base = body.dataset.base;
  const refresh = Math.max(1, Number(body.dataset.refresh) || 2) * 1000;
  const live = document.getElementById("live");
  const state = document.getElementById("state");
  const words = document.getElementById("state-words");
  let paused = false;
  let missed = false;
  let usual = "live";

  const show = (kind, text) => {
    if (!state) return;
    state.dataset.kind = kind;
    words.textContent = text;
  };
  const tick = () => {
    if (paused || document.hidden) {
      missed = true;
      return;
    }
    missed = false;
    htmx.trigger(body, "tick");
  };

  // A server that cannot push (WSGI) is asked instead, and whether it answers is seen by that.
  const poll = () => {
    usual = `every ${refresh / 1000} s`;
    show("live", usual);
    const lost = () => !paused && show("lost", "no answer");
    body.addEventListener("htmx:sendError", lost);
    body.addEventListener("htmx:responseError", lost);
    body.addEventListener("htmx:afterSwap", () => !paused && show("live", usual));
    setInterval(tick, refresh);
  };
  const connect = () => {
    const stream = new EventSource(`${base}/stream`);
    stream.addEventListener("open", () => !paused && show("live", usual));
    stream.addEventListener("tick", tick);
    stream.addEventListener("error", () => {
      if (stream.readyState === EventSource.CLOSED) poll();
      else if (!paused) show("lost", "reconnecting");
    });
    addEventListener("pagehide", () => stream.close());
  };

  // Whoever cannot see the page hears when the number of concerns changes, and nothing else.
  let concerns = null;
  const announce = () => {
    const section = document.querySelector("[data-count]");
    if (!section) return;
    const now = Number(section.dataset.count);
    if (concerns !== null && now !== concerns) {
      const text = now === 1 ? "1 thing needs attention" : `${now} things need attention`;
      document.getElementById("said").textContent = text;
    }
    concerns = now;
  };

  const dark = () => {
    const chosen = document.documentElement.dataset.theme;
    return chosen ? chosen === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  };
  document.getElementById("theme").addEventListener("click", () => {
    const next = dark() ? "light" : "dark";
    document.documentElement.dataset.theme = next;
    localStorage.setItem("locknut-theme", next);
    body.dispatchEvent(new CustomEvent("theme"));
  });
  document.getElementById("place")?.addEventListener("change", (event) => event.target.form.submit());
  document.addEventListener("keydown", (event) => {
    const filter = document.getElementById("filter");
    const typing = /^(INPUT|SELECT|TEXTAREA)$/.test(document.activeElement?.tagName ?? "");
    if (event.key !== "/" || typing || !filter || event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    filter.focus();
  });

  if (!live) return;
  state.addEventListener("click", () => {
    paused = !paused;
    state.setAttribute("aria-pressed", String(paused));
    show(paused ? "paused" : "live", paused ? "paused" : usual);
    if (!paused && missed) tick();
  });
  document.addEventListener("visibilitychange", () => !document.hidden && missed && tick());
  body.addEventListener("htmx:afterSwap", announce);
  body.addEventListener("htmx:responseError", (event) => {
    if (event.detail.xhr.status === 401) location.assign(`${base}/login`);
  });
  announce();
  connect();
})();
