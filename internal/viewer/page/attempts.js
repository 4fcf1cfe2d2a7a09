"use strict";
// The list of a run's attempts.
{
  const known = { passed: "passed", pending: "open", infrastructure: "open" };
  const shown = (r) => (r.passed ? "passed" : known[r.outcome] === "open" ? "open" : "failed");

  // outcome shows how an attempt ended, with a sign that no text of a run can have.
  sb.outcome = (r) => sb.h("span", { class: "outcome " + shown(r) }, sb.h("span", { "aria-hidden": "true" }, { passed: "✓ ", failed: "✗ ", open: "◌ " }[shown(r)]), sb.foreign(r.outcome));

  const columnsFor = (id) => [
    { name: "task", sort: "task", cell: (r) => sb.h("a", { href: sb.address("attempt", [id, r.key]) }, sb.foreign(r.task)) },
    { name: "attempt", number: true, cell: (r) => r.attempt },
    { name: "family", sort: "family", cell: (r) => sb.foreign(r.family) },
    { name: "outcome", sort: "outcome", cell: (r) => sb.outcome(r) },
    { name: "reason", sort: "reason", cell: (r) => (r.reason ? sb.foreign(r.reason) : null) },
    { name: "time", sort: "time", number: true, cell: (r) => sb.seconds(r.ms) },
  ];

  // attempts makes the list, with filters that are part of the address.
  sb.attempts = function (id, params) {
    let by = params, asked = 0;
    const controls = sb.h("form", { class: "filters", on: { submit: (e) => e.preventDefault() } });
    const found = sb.h("p", { class: "found", "aria-live": "polite" }), results = sb.h("div"), columns = columnsFor(id);
    const go = (change) => sb.go("run", [id], Object.assign({}, by, { page: "" }, change));

    function drawControls(facets) {
      sb.fill(controls, sb.search("search", by.q, (q) => go({ q: q })), sb.check("in prompts and answers", by.in === "texts", (on) => go({ in: on ? "texts" : "" })),
        ["outcome", "reason", "family", "basis", "containment", "tag"].map((name) => (facets[name].length > 1 || by[name]) ?
          sb.choice(name === "tag" ? "tag or label" : name, facets[name], by[name], (v) => go({ [name]: v })) : null));
    }
    async function load(first) {
      const mine = ++asked, answer = await sb.source.attempts(id, by);
      if (mine !== asked) return;
      if (first || !controls.contains(document.activeElement)) drawControls(answer.facets);
      found.textContent = answer.found + " of " + sb.plural(answer.total, "attempt") + (answer.cut ? "; of long texts, a part was searched" : "");
      sb.redraw(results, () => [answer.rows.length ? sb.table("attempts", columns, answer.rows, by.sort || "", (sort) => go({ sort: sort })) : null,
        sb.pager(answer.page, answer.pages, (page) => go({ page: page }))]);
    }
    const element = sb.h("section", { id: "attempts", "aria-labelledby": "attempts-title" }, sb.h("h2", { id: "attempts-title" }, "Attempts"), controls, found, results);
    return { element: element, ready: load(true), update: (next) => { by = next; return load(false); } };
  };
}
