"""Tracing, profiling and monitoring that begin or end inside a hot loop see what they see under python."""
import sys

import torch

events = []


def tracer(frame, event, argument):
    if frame.f_code.co_name == "work":
        events.append((event, frame.f_lineno - frame.f_code.co_firstlineno))
    return tracer


def work(switch):
    x = torch.ones(2)
    for i in range(24):
        x = x + i
        if i == 12 and switch:
            sys.settrace(tracer)
            sys._getframe().f_trace = tracer
        if i == 14 and switch:
            sys.settrace(None)
            sys._getframe().f_trace = None
    return x.sum().item()


print(work(False), work(True), work(False))
print(len(events), events)

monitoring = sys.monitoring
monitoring.use_tool_id(2, "test")
jumps = []
monitoring.register_callback(2, monitoring.events.JUMP, lambda code, at, to: jumps.append(to < at))
monitoring.set_local_events(2, work.__code__, monitoring.events.JUMP)
print(work(False), len(jumps), all(jumps))
monitoring.set_local_events(2, work.__code__, 0)
monitoring.free_tool_id(2)
print(work(False), len(jumps))

calls = []
sys.setprofile(lambda frame, event, argument: calls.append(event) if frame.f_code.co_name == "work" else None)
work(False)
sys.setprofile(None)
print(calls.count("call"), calls.count("return"), calls.count("c_call") > 20)
