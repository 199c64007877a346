"""dynrun.explain: one call, recorded from scratch, and what became of it."""

import dataclasses
import functools

import dynrun


@dataclasses.dataclass
class Explanation:
    graph_count: int
    graph_break_count: int
    op_count: int
    graphs: list
    breaks: list
    result: object = dataclasses.field(repr=False, default=None)

    def __str__(self):
        lines = [f"Graph Count: {self.graph_count}", f"Graph Break Count: {self.graph_break_count}", f"Op Count: {self.op_count}"]
        if self.breaks:
            lines.append("Break Reasons:")
        for number, found in enumerate(self.breaks, 1):
            lines.append(f"  Break Reason {number}: {found['id']}: {found['reason']}")
            lines.append(f"    at {found['file']}:{found['line']} in {found['function']}, {found['count']} time{'s' * (found['count'] != 1)}")
        return "\n".join(lines)


def places(breaks):
    return {(found["id"], found["file"], found["line"]): found for found in breaks}


def explain(fn, args, kwargs):
    graphs, fn = [], dynrun._part("_wrap").uncompiled(fn)

    def collect(graph, inputs):
        graphs.append(graph)
        return graph.forward

    before = places(dynrun.stats()["graph_breaks"])
    lower = functools.partial(dynrun._part("_backends").lower_by, collect, {})
    run = dynrun._Scoped(fn, (lower, 0, True, None))
    try:
        result = run(*args, **kwargs)
    finally:
        dynrun._forget(lower)
    breaks = []
    for place, found in places(dynrun.stats()["graph_breaks"]).items():
        count = found["count"] - (before[place]["count"] if place in before else 0)
        if count > 0:
            breaks.append({**found, "count": count})
    calls = sum(node.op == "call_function" and getattr(node.target, "namespace", None) is not None for graph in graphs for node in graph.graph.nodes)
    return Explanation(len(graphs), sum(found["count"] for found in breaks), calls, graphs, breaks, result)
