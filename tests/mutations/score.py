"""Is what the doctor says right? Counted over the cases whose effect is well above round-off."""

from collections import Counter, defaultdict

LEAST = 5.0  # local error over envelope
BOUNDS = {"first": 0.98, "proved": 0.95}


def step_of(outcome, site):
    return next((step for step in outcome.report.get("steps", []) if step["site"] == site), None)


def number(value):
    """JSON has no infinities."""
    return 0.0 if value is None else float(value)


def strength(outcome):
    """Local error of the expected step over its envelope, as reported; None where the step is not in the report."""
    step = step_of(outcome, outcome.expected)
    if step is None:
        return None
    local, envelope, ratio = (number(step.get(key)) for key in ("local", "envelope", "ratio"))
    found = max(ratio, local / envelope if envelope else 0.0)
    return found if found == found else float("inf")  # a NaN is not round-off


def counts(outcome):
    """Whether the case is to be found: a report without the step counts too."""
    if outcome.expected is None:
        return False  # the dump shows nothing of it
    found = strength(outcome)
    return found is None or found >= LEAST


def first_site(outcome):
    return (outcome.report.get("first") or {}).get("site")


def first_right(outcome):
    return not outcome.error and first_site(outcome) == outcome.expected


def accepted(outcome):
    return {outcome.cause, *outcome.also} - {"unknown"}


def proofs(outcome):
    return [cause for cause in outcome.report.get("causes", []) if cause.get("status") == "proved"]


def proved(outcome):
    wanted = min(outcome.layers) if outcome.layers else None
    return any(cause["id"] in accepted(outcome) and (wanted is None or not cause.get("layers")
                                                     or wanted in cause["layers"]) for cause in proofs(outcome))


def false_proofs(outcome):
    return [cause for cause in proofs(outcome) if cause["id"] not in accepted(outcome)]


def known(outcome):
    return outcome.cause != "unknown"


def right(outcome, command):
    if command == "diff":
        return first_right(outcome)
    return first_right(outcome) and not false_proofs(outcome) and (not known(outcome) or proved(outcome))


def line(outcome):
    found = strength(outcome)
    said = ", ".join(f"{cause['id']} {cause['status']}" for cause in outcome.report.get("causes", []))
    return (f"{outcome.name}: {outcome.cause} at {outcome.expected} (x{0 if found is None else found:.3g}, "
            f"{outcome.effect:.1e}); said {first_site(outcome)}: {said} {outcome.error}")


def share(part, whole):
    return f"{part}/{whole}" if whole else "-"


def table(outcomes, key):
    rows = []
    groups = defaultdict(list)
    for outcome in outcomes:
        groups[key(outcome)].append(outcome)
    for name, group in sorted(groups.items()):
        counted = [outcome for outcome in group if counts(outcome)]
        with_cause = [outcome for outcome in counted if known(outcome)]
        rows.append((name, len(group), len(counted), share(sum(map(first_right, counted)), len(counted)),
                     share(sum(map(proved, with_cause)), len(with_cause)),
                     sum(bool(false_proofs(outcome)) for outcome in group)))
    return rows


COLUMNS = ("", "pairs", "visible", "first step", "proved", "false proofs")


def totals(outcomes):
    counted = [outcome for outcome in outcomes if counts(outcome)]
    with_cause = [outcome for outcome in counted if known(outcome)]
    return {"visible": len(counted), "known": len(with_cause), "first": sum(map(first_right, counted)),
            "proved": sum(map(proved, with_cause)),
            "false": sum(bool(false_proofs(outcome)) for outcome in outcomes),
            "errors": sum(bool(outcome.error) for outcome in outcomes)}


def summary(outcomes, command):
    """Prints the tables; 0 if the bounds hold."""
    for title, key in (("cause", lambda each: each.cause), ("family", lambda each: each.family),
                       ("type", lambda each: each.dtype), ("dump", lambda each: each.kind)):
        print("%-28s %6s %8s %12s %10s %6s" % ((title,) + COLUMNS[1:5] + ("false",)))
        for row in table(outcomes, key):
            print("%-28s %6d %8d %12s %10s %6d" % row)
        print()
    found = totals(outcomes)
    first = found["first"] / found["visible"] if found["visible"] else 0.0
    cause = found["proved"] / found["known"] if found["known"] else 1.0
    print(f"{len(outcomes)} pairs, {found['visible']} visible: first step right in {first:.1%}, cause proved in "
          f"{cause:.1%} of {found['known']}, {found['false']} false proofs, {found['errors']} errors")
    good = first >= BOUNDS["first"] and found["errors"] == 0
    if command == "doctor":
        good = good and cause >= BOUNDS["proved"] and found["false"] == 0
    print("within the bounds" if good else "BELOW THE BOUNDS (98 % first steps, 95 % causes, no false proof)")
    return 0 if good else 1


def describe(outcome):
    first = outcome.report.get("first") or {}
    expected = step_of(outcome, outcome.expected)
    lines = [f"- `{outcome.name}`", f"  - expected: `{outcome.cause}` at `{outcome.expected}`"
             + (f" (also {', '.join(outcome.also)})" if outcome.also else "")
             + f", its values differ by {outcome.effect:.1e}"]
    if outcome.error:
        return lines + [f"  - error: {outcome.error}"]
    lines.append(f"  - said: {outcome.report.get('verdict')}, first `{first.get('site')}`; wrong: "
                 + ", ".join(outcome.report.get("wrong", [])[:8]))
    if expected is None:
        lines.append("  - the expected step is not among the steps")
    else:
        lines.append("  - expected step: " + ", ".join(
            f"{key} {expected.get(key)}" for key in ("verdict", "local", "envelope", "ratio", "from")))
    for cause in outcome.report.get("causes", [])[:5]:
        tried = "; ".join(f"{each.get('id')} leaves {each.get('left')}" for each in cause.get("tried", [])[:3])
        lines.append(f"  - cause: {cause['id']} {cause['status']} at {', '.join(cause.get('sites', [])[:3])} "
                     f"{cause.get('layers')}, left {cause.get('left')}, envelope {cause.get('envelope')}, "
                     f"{cause.get('parameters')} {tried}")
    return lines


def kind_of_miss(outcome):
    if outcome.error:
        return "error"
    if outcome.report.get("verdict") == "incomparable":
        return "incomparable"
    if first_site(outcome) is None:
        return "nothing wrong found"
    if not first_right(outcome):
        return "first step is another"
    if false_proofs(outcome):
        return "false proof"
    return "cause not proved"


def misses(outcomes, command):
    """What was said of each case that is not right, by the kind of miss."""
    groups = defaultdict(list)
    for outcome in outcomes:
        wanted = counts(outcome) or false_proofs(outcome) or outcome.error
        if wanted and not right(outcome, command):
            groups[kind_of_miss(outcome)].append(outcome)
    found = totals(outcomes)
    lines = [f"{len(outcomes)} pairs, {found}", ""]
    for kind, group in sorted(groups.items(), key=lambda each: -len(each[1])):
        lines += [f"## {kind}: {len(group)}", "",
                  ", ".join(f"{cause} {count}" for cause, count in Counter(each.cause for each in group).most_common()), ""]
        for outcome in group:
            lines += describe(outcome)
        lines.append("")
    return "\n".join(lines)


INTRODUCTION = """\
# Mistakes made on purpose, and what the doctor says

Mistakes made in transformers models (`tests/mutations`): modules and functions patched, weights edited, config
words changed. The tiny random models and the dumps are made on the spot; the doctor sees neither the mistake nor
the right model's values. This page is written by the kit:

    tools/lane mutations --markdown docs/mutations.md
    tools/lane mutations --case 'phi3/one_kv_head_of_several/*' --keep FOLDER
    tools/lane mutations --sample 300 --seed 2
    tools/lane mutations-verify

The first makes the sample of seed {seed} again, the second one mistake with its model and dump kept, the third
another sample; the last holds the kit against itself: every mistake in every family must first show at the step that
it is filed under. `.cache/logs/mutations.md` then has what was said of each pair that is not right.

*Visible* are the pairs whose first wrong step differs by at least five times the [envelope](diff.md). The first step
is right if `first` is the step where the wrong model's values first part from the right one's; a
[cause](causes.md) is proved if its id stands there with the status *proved*; a false proof is any other proved
cause. Mistakes that are none of the known causes are called unknown: they must be found and nothing may be proved.

{pairs} pairs, {visible} visible: first step right in {first}, cause proved in {proved}, {false} false proofs.
"""


def markdown(outcomes, arguments):
    """The tables of the docs."""
    found = totals(outcomes)
    lines = [INTRODUCTION.format(seed=arguments.seed, pairs=len(outcomes), visible=found["visible"],
                                 first=share(found["first"], found["visible"]),
                                 proved=share(found["proved"], found["known"]), false=found["false"])]
    for title, key in (("cause", lambda each: each.cause), ("family", lambda each: each.family),
                       ("type", lambda each: each.dtype), ("dump", lambda each: each.kind)):
        lines += ["| " + " | ".join((title,) + COLUMNS[1:]) + " |", "|---" * len(COLUMNS) + "|"]
        lines += ["| " + " | ".join(map(str, row)) + " |" for row in table(outcomes, key)]
        lines.append("")
    lines += ["## Each pair", "", "| model / mistake / type / dump / blocks | report | cause | first wrong step | effect | "
              "said | left |", "|---|---|---|---|---|---|---|"]
    for outcome in outcomes:
        said = "; ".join(f"{cause['id']} {cause['status']}" for cause in outcome.report.get("causes", [])[:3])
        left = "; ".join(f"{number(cause.get('left')):.1e}" for cause in outcome.report.get("causes", [])[:3])
        lines.append(f"| {outcome.name} | {outcome.report_id} | {outcome.cause} | `{outcome.expected}` | "
                     f"{outcome.effect:.1e} | `{first_site(outcome)}` {said} | {left} |")
    return "\n".join(lines) + "\n"
