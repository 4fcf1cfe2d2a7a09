"""Makes scipy.json: what scipy says of the pairs in pairs.json.

    python3 -m venv venv && venv/bin/pip install scipy==1.17.1
    venv/bin/python golden.py                          # pairs.json -> scipy.json
    venv/bin/python golden.py model_solutions.jsonl    # also makes pairs.json again

pairs.json has, by name, the shares of passes of tasks before and after, and
optionally the cluster of each task. Its cases "gsm8k/…" are the verdicts that
GSM8K publishes for the recorded answers of four models, on the rows of
model_solutions.jsonl: the file example_model_solutions.jsonl of
github.com/openai/grade-school-math (MIT licence), cut to some rows.

What scipy has no function for is computed here from what it has: the mid-p
variant, Newcombe's interval from Wilson's, and the cluster-robust standard error,
which for clusters of one size is also checked with a t test of their means.
"""

import json
import math
import random
import sys

import numpy
from scipy import stats

MODELS = ["6b_finetuning", "6b_verification", "175b_finetuning", "175b_verification"]


def pairs(path):
    with open(path) as f:
        rows = [json.loads(line) for line in f]
    verdicts = {m: [int(r[m]["is_correct"]) for r in rows] for m in MODELS}
    out = {}
    for i, a in enumerate(MODELS):
        for b in MODELS[i + 1:]:
            out[f"gsm8k/{a}/{b}"] = {"before": verdicts[a], "after": verdicts[b]}
    draw = random.Random(13)
    out["all gained"] = {"before": [0] * 4, "after": [1] * 4}
    out["nothing changed"] = {"before": [0, 1, 1, 0, 1], "after": [0, 1, 1, 0, 1]}
    out["as many gained as lost"] = {"before": [0, 1, 1, 0, 1, 0], "after": [1, 0, 0, 1, 1, 0]}
    out["one task"] = {"before": [0], "after": [1]}
    out["two tasks"] = {"before": [0, 1], "after": [1, 1]}
    out["against each other"] = {"before": [0, 0, 1, 1, 1, 0, 1], "after": [1, 1, 0, 0, 0, 1, 1]}
    out["attempts"] = {"before": [draw.randrange(6) / 5 for _ in range(120)], "after": [draw.randrange(2, 6) / 5 for _ in range(120)]}
    equal = [i // 4 for i in range(80)]
    tilt = [draw.random() for _ in range(40)]
    out["clusters of one size"] = {"before": [int(draw.random() < tilt[c]) for c in equal],
                                   "after": [int(draw.random() < min(1, tilt[c] + 0.15)) for c in equal], "clusters": equal}
    sizes = [c for c in range(40) for _ in range(1 + c % 7)]
    out["clusters of many sizes"] = {"before": [int(draw.random() < tilt[c]) for c in sizes],
                                     "after": [int(draw.random() < min(1, tilt[c] + 0.1)) for c in sizes], "clusters": sizes}
    return out


def wilson(k, n):
    ci = stats.binomtest(k, n).proportion_ci(0.95, "wilson")
    return [ci.low, ci.high]


def newcombe(both, gained, lost, neither):
    n = both + gained + lost + neither
    after, before = both + gained, both + lost
    (l1, u1), (l2, u2) = wilson(after, n), wilson(before, n)
    p1, p2 = after / n, before / n
    product = after * (n - after) * before * (n - before)
    phi = 0.0
    if product:
        top = both * neither - gained * lost
        if top > 0:
            top = max(top - n / 2, 0)
        phi = top / math.sqrt(product)
    down = math.sqrt(max(0, (p1 - l1) ** 2 - 2 * phi * (p1 - l1) * (u2 - p2) + (u2 - p2) ** 2))
    up = math.sqrt(max(0, (u1 - p1) ** 2 - 2 * phi * (u1 - p1) * (p2 - l2) + (p2 - l2) ** 2))
    return [p1 - p2 - down, p1 - p2 + up]


def clustered(d, clusters):
    d = numpy.array(d)
    groups = [d[numpy.array(clusters) == c] for c in sorted(set(clusters))]
    g = len(groups)
    residues = numpy.array([(x - d.mean()).sum() for x in groups])
    se = math.sqrt((residues ** 2).sum() * g / (g - 1)) / len(d)
    if len({len(x) for x in groups}) == 1:
        assert math.isclose(stats.ttest_1samp([x.mean() for x in groups], 0).statistic, d.mean() / se)
    half = stats.t.ppf(0.975, g - 1) * se
    return {"standard_error": se, "statistic": d.mean() / se, "p": 2 * stats.t.sf(abs(d.mean() / se), g - 1),
            "interval": [d.mean() - half, d.mean() + half]}


def resampled(d, clusters):
    d = numpy.array(d)
    if len(set(d)) == 1:
        return [d[0], d[0]]
    groups = [d[numpy.array(clusters) == c] for c in sorted(set(clusters))]
    sums, sizes = numpy.array([x.sum() for x in groups]), numpy.array([len(x) for x in groups])
    ci = stats.bootstrap((sums, sizes), lambda s, n, axis: s.sum(axis=axis) / n.sum(axis=axis), paired=True, vectorized=True,
                         n_resamples=50000, batch=500, method="percentile", rng=numpy.random.default_rng(1)).confidence_interval
    return [ci.low, ci.high]


def expected(case):
    before, after = case["before"], case["after"]
    d = [b - a for a, b in zip(before, after)]
    clusters = case.get("clusters", list(range(len(d))))
    out = {"difference": sum(after) / len(d) - sum(before) / len(d)}
    if set(before + after) <= {0, 1}:
        gained, lost = d.count(1), d.count(-1)
        both, n = sum(a and b for a, b in zip(before, after)), gained + lost
        least = min(gained, lost)
        out["counts"] = [both, gained, lost, len(d) - both - n]
        out["wilson"] = [wilson(sum(before), len(d)), wilson(sum(after), len(d))]
        if "clusters" not in case:
            out["exact_p"] = stats.binomtest(gained, n).pvalue if n else 1.0
            out["mid_p"] = min(1.0, float(2 * stats.binom.cdf(least - 1, n, 0.5) + stats.binom.pmf(least, n, 0.5))) if n else 1.0
            out["newcombe"] = newcombe(*out["counts"])
    if len(d) > 1:
        out["bootstrap"] = resampled(d, clusters)
    if len(set(d)) > 1:
        if "clusters" in case:
            out["t"] = clustered(d, clusters)
        else:
            t = stats.ttest_rel(after, before)
            ci = t.confidence_interval(0.95)
            out["t"] = {"standard_error": stats.sem(d), "statistic": t.statistic, "p": t.pvalue, "interval": [ci.low, ci.high]}
    return out


def write(name, value):
    with open(name, "w") as f:
        lines = ",\n".join(f"{json.dumps(k)}: {json.dumps(v, default=float, separators=(',', ':'))}" for k, v in value.items())
        f.write("{\n" + lines + "\n}\n")


if len(sys.argv) > 1:
    write("pairs.json", pairs(sys.argv[1]))
with open("pairs.json") as f:
    write("scipy.json", {name: expected(case) for name, case in json.load(f).items()})
