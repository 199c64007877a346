import dataclasses
import torch
from support import seq, show


@dataclasses.dataclass
class State:
    hidden: torch.Tensor
    steps: int = 0
    tags: list = dataclasses.field(default_factory=list)


@dataclasses.dataclass(frozen=True)
class Result:
    value: torch.Tensor
    state: State


def model(state, x):
    state.steps += 1
    state.tags.append(state.steps)
    hidden = torch.tanh(state.hidden + x)
    return Result(hidden * 2, dataclasses.replace(state, hidden=hidden))


state = State(seq(3))
for step in range(6):
    result = model(state, seq(3, start=step % 2))
    show(result.value, result.state.hidden, result.state.steps, result.state.tags, result.state.tags is state.tags)
    if step % 2:
        state = result.state
