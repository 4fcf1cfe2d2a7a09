"use strict";
// The comparison of runs as a grid of tasks.
{
  const points = (x) => (x > 0 ? "+" : x < 0 ? "−" : "±") + Math.abs(100 * x).toFixed(1) + " points";
  const letter = (i) => String.fromCharCode(65 + i);
  const p = (x) => (x < 0.001 ? "< 0.001" : x.toFixed(3));
  const shows = [["", "all tasks"], ["changed", "that changed"], ["gained", "gained"], ["lost", "lost"]];

  function cell(c, run, row) {
    if (c.attempts === 0) return sb.h("span", { class: "soft" }, "no attempt");
    const all = c.passed === c.attempts, none = c.passed === 0;
    const words = c.attempts === 1 ? (all ? "passed" : c.unscored ? "no verdict" : "failed") : c.passed + " of " + c.attempts + " passed";
    const sign = c.change > 0 ? [" ", sb.h("span", { class: "change gained" }, "▲ gained")] : c.change < 0 ? [" ", sb.h("span", { class: "change lost" }, "▼ lost")] : null;
    return [sb.h("a", { href: sb.address("attempt", [run.id, row.row + ".1"]), class: all ? "passed" : none ? "failed" : "warn" }, words), sign];
  }

  function part(c, part) {
    const rows = c.runs.map((run, i) => ({ run: run, rate: part.rates[i], against: i ? part.against[i - 1] : null, letter: letter(i) }));
    return sb.h("section", { "aria-label": part.basis }, sb.h("h2", {}, part.basis === "judged" ? "Judged" : "Computed", " ", sb.h("small", { class: "soft" }, sb.plural(part.tasks, "task"))),
      sb.table("runs", [
        { name: "run", cell: (r) => [sb.h("b", {}, r.letter), " ", sb.h("a", { href: sb.address("run", [r.run.id]) }, sb.foreign(r.run.path))] },
        { name: "agent", cell: (r) => [sb.foreign(r.run.agent), r.run.model ? [" ", sb.foreign(r.run.model)] : null] },
        { name: "rate, 95 % interval", cell: (r) => [sb.h("b", {}, sb.percent(r.rate.rate)), " ", sb.bar(r.rate.rate, r.rate.interval)] },
        { name: "passed", number: true, cell: (r) => r.rate.passed + " / " + r.rate.attempts },
        { name: "difference to A", cell: (r) => (r.against ? [sb.h("b", {}, points(r.against.difference)), r.against.interval ? sb.h("div", { class: "soft" }, "95 %: " + points(r.against.interval[0]) + " to " + points(r.against.interval[1])) : null] : null) },
        { name: "gained, lost", cell: (r) => (r.against ? r.against.gained + " gained, " + r.against.lost + " lost" : null) },
        { name: "could it be chance?", cell: (r) => (r.against ? (typeof r.against.p === "number" ? "p " + p(r.against.p) + (typeof r.against.adjusted === "number" ? ", Holm " + p(r.against.adjusted) : "") : "not tested") : null) },
      ], rows));
  }

  sb.views.compare = function (main, state) {
    let by = state.params, asked = 0, drawn = ""; // what is compared on the page
    const go = (change) => sb.go("compare", [], Object.assign({}, by, { page: "" }, change));
    const controls = sb.h("form", { class: "filters", on: { submit: (e) => e.preventDefault() } }), found = sb.h("p", { class: "found", "aria-live": "polite" }), results = sb.h("div");

    function refused(c) {
      const kinds = Array.from(new Set(c.refused.filter((r) => r.kind).map((r) => r.kind))), all = c.refused.every((r) => r.kind);
      sb.fill(main, sb.h("h1", {}, "These runs were not given the same"), sb.h("ul", {}, c.refused.map((r) => sb.h("li", {}, sb.foreign(r.what)))),
        all ? sb.h("p", {}, sb.h("a", { class: "button", href: sb.address("compare", [], Object.assign({}, by, { allow: kinds.join(" ") })) }, "compare them anyway, and say so")) : sb.h("p", {}, "They cannot be compared."));
    }
    function drawGrid(c) {
      found.textContent = c.found + " of " + sb.plural(c.total, "task");
      const columns = [{ name: "task", cell: (r) => sb.foreign(r.task) }, { name: "family", cell: (r) => sb.foreign(r.family) }]
        .concat(c.runs.map((run, i) => ({ name: letter(i), cell: (r) => cell(r.cells[i], run, r) })));
      sb.redraw(results, () => [c.grid && c.grid.length ? sb.table("tasks", columns, c.grid) : null, sb.pager(c.page, c.pages, (page) => go({ page: page }))]);
    }
    async function load() {
      const mine = ++asked, of = JSON.stringify([by.runs, by.allow]), c = await sb.source.compare(by);
      if (mine !== asked) return;
      sb.crumbs([["comparison", null]]);
      sb.title("Comparison");
      if (c.refused) return refused(c);
      if (drawn !== of || !main.contains(results)) {
        drawn = of;
        const choice = sb.h("select", { on: { change: () => go({ show: choice.value }) } }, shows.map(([value, name]) => sb.h("option", { value: value }, name)));
        for (const [i, o] of Array.from(choice.options).entries()) o.value = shows[i][0];
        choice.value = by.show || "";
        sb.fill(controls, sb.search("search", by.q, (q) => go({ q: q })), sb.h("label", {}, sb.h("span", {}, "tasks"), choice));
        sb.fill(main, sb.h("h1", {}, "Comparison of ", sb.plural(c.runs.length, "run")),
          (c.allowed || []).map((a) => sb.h("p", { class: "banner" }, "ALLOWED: ", sb.foreign(a.what))),
          c.left_out ? sb.h("p", { class: "banner" }, "PART OF THE PACK: " + c.left_out + " of its rows were not compared.") : null,
          (c.notes || []).map((n) => sb.h("p", { class: "note" }, sb.foreign(n))), (c.parts || []).map((one) => part(c, one)),
          sb.h("section", { id: "tasks", "aria-labelledby": "tasks-title" }, sb.h("h2", { id: "tasks-title" }, "Tasks"), controls, found, results));
      }
      drawGrid(c);
    }
    return { ready: load(), update: (params) => { by = params; return load(); } };
  };
}
