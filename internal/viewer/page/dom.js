"use strict";
// What a page is built with. Texts become text nodes, and nothing else ever parses one.
const sb = {};
{
  const svgSpace = document.getElementById("pen").namespaceURI; // of the layout's empty drawing

  function add(to, child) {
    if (child === null || child === undefined || child === false || child === "") return;
    if (Array.isArray(child)) child.forEach((c) => add(to, c));
    else to.append(child instanceof Node ? child : String(child));
  }

  function set(e, props) {
    for (const [name, value] of Object.entries(props || {})) {
      if (value === undefined || value === null || value === false) continue;
      if (name === "on") for (const [event, f] of Object.entries(value)) e.addEventListener(event, f);
      else if (name === "value" || name === "disabled" || name === "hidden") e[name] = value;
      else e.setAttribute(name, value === true ? "" : value);
    }
  }

  // h makes an element with attributes and children.
  sb.h = function (tag, props, ...children) {
    const e = document.createElement(tag);
    set(e, props);
    add(e, children);
    return e;
  };

  // foreign is a text that a run wrote. It always looks like one.
  sb.foreign = (text, tag) => sb.h(tag || "bdi", { class: "foreign", dir: tag ? "auto" : undefined }, text);

  // block is a long text that a run wrote, which can be scrolled with the keyboard.
  sb.block = (text, label, kind) =>
    sb.h("pre", { class: "foreign " + (kind || ""), tabindex: "0", role: "region", "aria-label": label, dir: "auto" }, text);

  // mixed is a sentence of ours in which what a run wrote stands in quotation marks.
  sb.mixed = function (text) {
    const out = [];
    let at = 0;
    for (const m of text.matchAll(/"(?:[^"\\]|\\.)*(?:"|$)/gs)) {
      out.push(text.slice(at, m.index), sb.foreign(m[0]));
      at = m.index + m[0].length;
    }
    out.push(text.slice(at));
    return out;
  };

  sb.fill = function (e, ...children) {
    e.textContent = "";
    add(e, children);
    return e;
  };

  // redraw fills an element anew with what make returns, which may have parts of it, and
  // leaves the focus and what is in view where they were.
  sb.redraw = function (e, make) {
    const focused = e.contains(document.activeElement) && document.activeElement.dataset.focus, y = window.scrollY;
    sb.fill(e, make());
    window.scrollTo(0, y);
    const again = focused && Array.from(e.querySelectorAll("[data-focus]")).find((c) => c.dataset.focus === focused);
    if (again) again.focus({ preventScroll: true });
  };

  const percent = (x) => (100 * x).toFixed(1) + " %";
  sb.percent = percent;

  // bar draws a rate with its interval.
  sb.bar = function (rate, interval, kind) {
    const svg = document.createElementNS(svgSpace, "svg");
    const part = (cls, x, y, w, h) => {
      const r = document.createElementNS(svgSpace, "rect");
      for (const [n, v] of Object.entries({ class: cls, x: x, y: y, width: Math.max(w, 0), height: h })) r.setAttribute(n, v);
      svg.append(r);
    };
    svg.setAttribute("class", "bar " + (kind || ""));
    svg.setAttribute("viewBox", "0 0 100 10");
    svg.setAttribute("preserveAspectRatio", "none");
    svg.setAttribute("role", "img");
    svg.setAttribute("aria-label", percent(rate) + ", 95 % interval " + percent(interval[0]) + " to " + percent(interval[1]));
    part("track", 0, 4, 100, 2);
    part("range", 100 * interval[0], 1, 100 * (interval[1] - interval[0]), 8);
    part("point", Math.min(100 * rate, 99.2), 0, 0.8, 10);
    return svg;
  };

  // table makes a table that stays one for screen readers where it is shown as cards. A
  // column is {name, cell(row), number, sort}; current is the order, and sorted is told of
  // another one.
  sb.table = function (label, columns, rows, current, sorted) {
    const head = columns.map((c) => {
      if (!c.sort || !sorted) return sb.h("th", { scope: "col", role: "columnheader", class: c.number && "number" }, c.name);
      const down = current === "-" + c.sort, up = current === c.sort;
      const button = sb.h("button", { type: "button", class: "sort", "data-focus": "sort " + c.sort, on: { click: () => sorted(up ? "-" + c.sort : c.sort) } },
        c.name, sb.h("span", { "aria-hidden": "true", class: "arrow" }, up ? "▲" : down ? "▼" : ""));
      return sb.h("th", { scope: "col", role: "columnheader", class: c.number && "number", "aria-sort": up ? "ascending" : down ? "descending" : "none" }, button);
    });
    const body = rows.map((row) => sb.h("tr", { role: "row" }, columns.map((c, i) =>
      sb.h(i === 0 && !c.plain ? "th" : "td", { role: i === 0 && !c.plain ? "rowheader" : "cell", scope: i === 0 && !c.plain ? "row" : undefined, class: c.number && "number", "data-label": c.name }, c.cell(row)))));
    return sb.h("div", { class: "scroll" }, sb.h("table", { role: "table", class: "rows", "aria-label": label },
      sb.h("thead", { role: "rowgroup" }, sb.h("tr", { role: "row" }, head)), sb.h("tbody", { role: "rowgroup" }, body)));
  };

  // plain is a text of an address as what can be seen of it: it is nobody's words.
  const plain = (text) => text.replace(/[\u0000-\u001f\u007f-\u009f\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]/g, "\ufffd");

  // choice is a list of values to filter by.
  sb.choice = function (label, facets, value, changed) {
    const select = sb.h("select", { "data-focus": "filter " + label, on: { change: () => changed(select.value) } }, sb.h("option", { value: "" }, "all"));
    for (const f of facets) {
      const option = sb.h("option", {}, f.value + " (" + f.attempts + ")");
      option.value = f.value;
      select.append(option);
    }
    if (value && !facets.some((f) => f.value === value)) {
      const option = sb.h("option", {}, plain(value) + " (0)");
      option.value = value;
      select.append(option);
    }
    select.value = value || "";
    return sb.h("label", {}, sb.h("span", {}, label), select);
  };

  // search is a field of words to filter by.
  sb.search = function (label, value, changed) {
    let waiting = 0;
    const input = sb.h("input", { type: "search", "data-focus": "search", autocomplete: "off", spellcheck: "false", on: { input: () => {
      clearTimeout(waiting);
      waiting = setTimeout(() => changed(input.value), 40);
    } } });
    input.value = value || "";
    return sb.h("label", { class: "search" }, sb.h("span", {}, label), input);
  };

  // check is a choice between yes and no.
  sb.check = function (label, on, changed) {
    const box = sb.h("input", { type: "checkbox", "data-focus": "check " + label, on: { change: () => changed(box.checked) } });
    box.checked = on;
    return sb.h("label", { class: "check" }, box, " ", sb.h("span", {}, label));
  };

  // pager leads through pages.
  sb.pager = function (page, pages, go) {
    if (pages < 2) return null;
    const button = (name, to) => sb.h("button", { type: "button", "data-focus": "page " + name, disabled: to < 1 || to > pages, on: { click: () => go(to) } }, name);
    return sb.h("nav", { class: "pager", "aria-label": "pages" }, button("first", page > 1 ? 1 : 0), button("previous", page - 1),
      sb.h("span", {}, "page " + page + " of " + pages), button("next", page + 1), button("last", page < pages ? pages : pages + 1));
  };

  sb.seconds = (ms) => (ms / 1000).toFixed(1) + " s";
  sb.bytes = (n) => n < 1024 ? n + " B" : n < 1 << 20 ? (n / 1024).toFixed(1) + " KiB" : (n / (1 << 20)).toFixed(1) + " MiB";
  sb.plural = (n, word) => n + " " + word + (n === 1 ? "" : "s");

  // The views by name, which make a page and keep it to its address.
  sb.views = {};

  // address is where a view is, with its state.
  sb.address = function (name, path, params) {
    const query = new URLSearchParams(Object.entries(params || {}).filter(([, v]) => v !== undefined && v !== null && v !== ""));
    return "#/" + [name].concat(path).map(encodeURIComponent).join("/") + (String(query) ? "?" + query : "");
  };

  // go changes the state of the page that is shown, or leads to another.
  sb.go = (name, path, params) => { location.hash = sb.address(name, path, params); };
}
