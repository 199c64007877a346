"""dynrun.explain and stats."""

import dynrun
import torch
from support import same


def test_explain():
    def f(x):
        y = torch.sin(x)
        if y.sum() > 0:
            y = y * 2
        return y + 1

    for _ in range(2):  # recorded from scratch each time
        found = dynrun.explain(f)(torch.ones(2))
        assert (found.graph_count, found.graph_break_count) == (2, 1), found
        assert found.op_count == 5, found
        assert [b["id"] for b in found.breaks] == ["data-dependent-bool"] and found.breaks[0]["line"] == f.__code__.co_firstlineno + 2
        same(found.result, torch.ones(2).sin() * 2 + 1)
        text = str(found)
        assert "Graph Count: 2" in text and "Graph Break Count: 1" in text and "data-dependent-bool" in text and __file__ in text, text


def test_explain_of_a_module():
    model = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.ReLU())
    found = dynrun.explain(model)(torch.ones(1, 3))
    assert (found.graph_count, found.graph_break_count, found.op_count) == (1, 0, 2), found


def test_help():
    import pydoc
    text = pydoc.render_doc(dynrun)
    for name in dynrun.__all__:
        assert name in text and getattr(dynrun, name).__doc__, name


def test_explain_of_what_is_compiled():
    for backend in ("inductor", "eager"):
        model = torch.compile(torch.nn.Linear(3, 3), backend=backend)
        function = torch.compile(lambda x: x.sin() + 1, backend=backend)
        model(torch.ones(1, 3)), function(torch.ones(3))
        found, told = dynrun.explain(model)(torch.ones(1, 3)), dynrun.explain(function)(torch.ones(3))
        assert (found.graph_count, found.op_count, found.graph_break_count) == (1, 1, 0), found
        assert (told.graph_count, told.op_count, told.graph_break_count) == (1, 2, 0), told


def test_explain_tells_of_the_program_alone():
    """Not of modules that are imported on the way, nor of what a logger keeps."""
    import logging

    def trains(x, w):
        loss = (x * w).sum()
        loss.backward()
        return w.grad

    found = dynrun.explain(trains)(torch.ones(3), torch.ones(3, requires_grad=True))
    assert all(b["file"] == __file__ or "torch/_tensor.py" in b["file"] or "torch/autograd" in b["file"] for b in found.breaks) and found.graph_break_count <= 2, found

    log = logging.getLogger("dynrun.test")
    log.addHandler(logging.NullHandler())
    log.setLevel(logging.INFO)

    def logs(x):
        y = x * 2
        log.info("seen")
        log.debug("not seen")
        return y + 1

    for _ in range(3):
        found = dynrun.explain(logs)(torch.ones(3))
        assert (found.graph_count, found.graph_break_count) == (1, 0), found
