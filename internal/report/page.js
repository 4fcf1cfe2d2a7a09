"use strict";
(function () {
  // Every text of the data is from outside: it enters the page as text alone.
  var data = JSON.parse(document.getElementById("data").textContent);
  var perPage = 100, shown = data, page = 0, open = null;
  var byId = function (id) { return document.getElementById(id); };

  function element(name, text, kind) {
    var e = document.createElement(name);
    if (text !== undefined) e.textContent = text;
    if (kind) e.className = kind;
    return e;
  }

  function tagsOf(a) { return (a.tags || []).concat(a.labels || []); }

  function key(a) { return "#" + encodeURIComponent(a.task) + "/" + a.attempt; }

  function options(id, values) {
    var seen = Object.create(null), select = byId(id);
    values.forEach(function (v) { if (v) seen[v] = (seen[v] || 0) + 1; });
    Object.keys(seen).sort().slice(0, 500).forEach(function (v) {
      var o = element("option", v + " (" + seen[v] + ")");
      o.value = v;
      select.appendChild(o);
    });
    select.addEventListener("change", filter);
  }

  function textOf(a) {
    if (a.all === undefined) {
      a.all = [a.task, a.family, a.outcome, a.reason, a.verdict, a.message, a.containment].concat(tagsOf(a),
        (a.parts || []).map(function (p) { return p.text; })).join("\n").toLowerCase();
    }
    return a.all;
  }

  function filter() {
    var words = byId("search").value.toLowerCase().split(/\s+/).filter(Boolean);
    var outcome = byId("outcome").value, family = byId("family").value;
    var basis = byId("basis").value, containment = byId("containment").value, tag = byId("tag").value;
    shown = data.filter(function (a) {
      return (!outcome || a.outcome === outcome) && (!family || a.family === family) &&
        (!basis || a.basis === basis) && (!containment || a.containment === containment) && (!tag || tagsOf(a).indexOf(tag) >= 0) &&
        words.every(function (w) { return textOf(a).indexOf(w) >= 0; });
    });
    page = 0;
    open = null;
    draw();
  }

  function whole(a) {
    var cell = element("td");
    cell.colSpan = 6;
    var box = element("div", undefined, "whole");
    box.appendChild(element("h3", "verdict"));
    box.appendChild(element("p", a.verdict));
    if (a.message) box.appendChild(element("pre", a.message));
    var facts = "row " + a.row + ", " + a.basis + ", containment " + a.containment;
    var tags = tagsOf(a);
    if (tags.length) facts += ", " + tags.join(", ");
    box.appendChild(element("p", facts, "note"));
    (a.parts || []).forEach(function (p) {
      box.appendChild(element("h3", p.title + (p.note ? " (" + p.note + ")" : "")));
      if (p.text) box.appendChild(element("pre", p.text));
    });
    cell.appendChild(box);
    var row = element("tr");
    row.appendChild(cell);
    return row;
  }

  function draw() {
    var body = byId("rows").tBodies[0], first = page * perPage;
    body.textContent = "";
    shown.slice(first, first + perPage).forEach(function (a) {
      var row = element("tr"), cell = element("td"), button = element("button", a.task);
      button.type = "button";
      button.setAttribute("aria-expanded", String(a === open));
      button.addEventListener("click", function () {
        open = a === open ? null : a;
        history.replaceState(null, "", open ? key(a) : "#list");
        draw();
      });
      cell.appendChild(button);
      row.appendChild(cell);
      row.appendChild(element("td", a.attempt));
      row.appendChild(element("td", a.family));
      row.appendChild(element("td", a.outcome, a.passed ? "passed" : a.outcome === "pending" || a.outcome === "infrastructure" ? "" : "failed"));
      row.appendChild(element("td", a.reason || ""));
      row.appendChild(element("td", (a.ms / 1000).toFixed(1) + " s"));
      body.appendChild(row);
      if (a === open) body.appendChild(whole(a));
    });
    var pages = Math.max(1, Math.ceil(shown.length / perPage));
    byId("found").textContent = shown.length + " of " + data.length + " attempts";
    byId("where").textContent = "page " + (page + 1) + " of " + pages;
    byId("previous").disabled = page === 0;
    byId("next").disabled = page + 1 >= pages;
    byId("pages").hidden = pages === 1;
  }

  function jump() {
    for (var i = 0; i < data.length; i++) {
      if (key(data[i]) === location.hash) {
        shown = data;
        open = data[i];
        page = Math.floor(i / perPage);
        draw();
        var button = document.querySelector('#rows button[aria-expanded="true"]');
        if (button) button.scrollIntoView();
        return;
      }
    }
  }

  var column = function (name) { return data.map(function (a) { return a[name]; }); };
  options("outcome", column("outcome"));
  options("family", column("family"));
  options("basis", column("basis"));
  options("containment", column("containment"));
  options("tag", data.reduce(function (all, a) { tagsOf(a).forEach(function (t) { all.push(t); }); return all; }, []));
  var waiting = 0;
  byId("search").addEventListener("input", function () {
    clearTimeout(waiting);
    waiting = setTimeout(filter, 150);
  });
  byId("filters").addEventListener("submit", function (e) { e.preventDefault(); });
  byId("previous").addEventListener("click", function () { page--; draw(); });
  byId("next").addEventListener("click", function () { page++; draw(); });
  window.addEventListener("hashchange", jump);
  byId("filters").hidden = false;
  byId("rows").hidden = false;
  draw();
  jump();
})();
