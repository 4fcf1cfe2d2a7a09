"use strict";
// Finds attempts as the server does, where there is none.
{
  const perPage = 100, maxFacets = 500;
  const columns = {
    outcome: (r) => [r.outcome], reason: (r) => [r.reason], family: (r) => [r.family], basis: (r) => [r.basis],
    containment: (r) => [r.containment], tag: (r) => r.tags || [],
  };
  const orders = { task: (r) => r.task, family: (r) => r.family, outcome: (r) => r.outcome, reason: (r) => r.reason || "", time: (r) => r.ms };
  const less = (a, b) => (a < b ? -1 : a > b ? 1 : 0);

  // wordsOf are the words of a search, in lower case.
  sb.wordsOf = (q) => (q || "").toLowerCase().split(/\s+/).filter(Boolean);

  // paged says what was found of how many, and which page of it is shown.
  function paged(found, total, asked) {
    const pages = Math.max(1, Math.ceil(found.length / perPage)), page = Math.min(Math.max(parseInt(asked, 10) || 1, 1), pages);
    return [{ total: total, found: found.length, page: page, pages: pages }, found.slice((page - 1) * perPage, page * perPage)];
  }

  const texts = new WeakMap(), counted = new WeakMap(); // of rows, which stay as they are

  function textOf(r) {
    if (!texts.has(r)) texts.set(r, [r.task, r.family, r.outcome, r.reason || "", r.containment].concat(r.tags || []).join("\n").toLowerCase());
    return texts.get(r);
  }

  // more(r) has other texts of a row, in lower case.
  const has = (r, words, more) => words.length === 0 || words.every((w) => textOf(r).includes(w) || (more && more(r).includes(w)));

  function facets(rows) {
    if (counted.has(rows)) return counted.get(rows);
    const out = {};
    for (const [name, values] of Object.entries(columns)) {
      const counts = new Map();
      for (const r of rows) for (const v of values(r)) if (v) counts.set(v, (counts.get(v) || 0) + 1);
      out[name] = Array.from(counts, ([value, attempts]) => ({ value: value, attempts: attempts })).sort((a, b) => less(a.value, b.value)).slice(0, maxFacets);
    }
    counted.set(rows, out);
    return out;
  }

  sb.query = function (rows, by, more) {
    const words = sb.wordsOf(by.q);
    const found = rows.filter((r) => Object.entries(columns).every(([name, values]) => !by[name] || values(r).includes(by[name])) && has(r, words, more));
    const sort = by.sort || "", down = sort.startsWith("-"), of = Object.hasOwn(orders, sort.replace(/^-/, "")) && orders[sort.replace(/^-/, "")];
    if (of) found.sort((a, b) => (down ? less(of(b), of(a)) : less(of(a), of(b))));
    const [where, shown] = paged(found, rows.length, by.page);
    return Object.assign(where, { rows: shown, facets: facets(rows) });
  };

  // tasks finds those of a comparison: all, those that changed, or those that one of the
  // runs gained or lost.
  sb.tasks = function (c, by) {
    const words = sb.wordsOf(by.q), all = c.grid || [];
    const ways = { changed: (n) => n !== 0, gained: (n) => n === 1, lost: (n) => n === -1 }, way = Object.hasOwn(ways, by.show || "") && ways[by.show];
    const found = all.filter((r) => (!way || r.cells.some((cell) => way(cell.change || 0))) && words.every((w) => (r.task + "\n" + r.family).toLowerCase().includes(w)));
    const [where, shown] = paged(found, all.length, by.page);
    return Object.assign({}, c, where, { grid: shown });
  };
}
