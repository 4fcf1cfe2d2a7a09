"use strict";
// The addresses of the page, and what is shown at each. All of a page's state is in its
// address.
{
  const main = document.getElementById("main");
  let shown = null, timers = [], endings = [];

  sb.start = function () {
    window.addEventListener("hashchange", show);
    document.querySelector(".skip").addEventListener("click", (e) => { e.preventDefault(); main.focus(); });
    show();
  };

  function read() {
    const [path, query] = location.hash.replace(/^#\/?/, "").split("?");
    const parts = path.split("/").filter(Boolean).map(decoded);
    if (parts.length === 0 && document.body.dataset.home) parts.push("run", document.body.dataset.home);
    const name = parts.shift() || "list";
    return { name: Object.hasOwn(sb.views, name) ? name : "list", path: parts, params: Object.fromEntries(new URLSearchParams(query || "")) };
  }

  function decoded(part) {
    try { return decodeURIComponent(part); } catch (e) { return part; }
  }

  function show() {
    const state = read(), same = shown && shown.name === state.name && shown.path.join("/") === state.path.join("/");
    if (same) {
      const of = shown;
      Promise.resolve(shown.view.update(state.params)).catch((e) => failed(of, e));
      return;
    }
    timers.forEach(clearTimeout);
    timers = [];
    endings.forEach((end) => end());
    endings = [];
    main.setAttribute("aria-busy", "true");
    const first = shown === null, view = sb.views[state.name](main, state);
    shown = { name: state.name, path: state.path, view: view };
    const mine = shown;
    view.ready.catch((e) => failed(mine, e)).finally(() => {
      if (mine !== shown) return;
      main.removeAttribute("aria-busy");
      if (!first && !state.params.at) { main.focus({ preventScroll: true }); window.scrollTo(0, 0); }
    });
  }

  function failed(of, e) {
    if (of !== shown) return;
    sb.fill(main, sb.h("h1", {}, "This cannot be shown"), sb.h("p", { class: "banner", role: "alert" }, sb.foreign(e.message)), sb.h("p", {}, sb.h("a", { href: sb.address("list", []) }, "to the runs")));
  }

  // onLeave calls f when another page is shown.
  sb.onLeave = (f) => endings.push(f);
  sb.later = (f, ms) => timers.push(setTimeout(f, ms));
  sb.title = (text) => { document.title = text + " · securebench"; };
  sb.crumbs = (crumbs) => sb.fill(document.getElementById("top"), sb.h("nav", { "aria-label": "where this is" }, sb.h("ol", { class: "crumbs" },
    sb.h("li", {}, sb.h("a", { href: "#/", class: "brand" }, "securebench")), crumbs.map(([text, href]) => sb.h("li", href ? {} : { "aria-current": "page" }, href ? sb.h("a", { href: href }, text) : text)))));
  sb.start();
}
