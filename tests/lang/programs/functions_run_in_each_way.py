"""Functions that break, called so often that they are timed in each of the ways that there are of running them."""

import sys
import threading
import traceback
import warnings

import torch

CALLS = 3000
log = []


class Counter:
    def __init__(self):
        self.calls, self.seen = 0, {}

    def note(self, key):
        self.calls += 1
        self.seen[key] = self.seen.get(key, 0) + 1


counter = Counter()


def small(x, i):
    y = x * 2
    counter.note(i % 5)
    if float(y.sum()) > 4 and i % 700 == 699:
        raise ValueError(f"call {i}")
    for key in sorted(counter.seen)[:2]:
        y = y + counter.seen[key] % 3
    return y


def deeper(x, i):
    if i % 1000 == 999:
        warnings.warn(f"warned at {i}", stacklevel=2)
        log.append([entry.name for entry in traceback.extract_stack()][-3:])
    return small(x, i).add_(1)


def pieces(x, i):
    for part in x.unbind(0):
        counter.note(7)
        yield part * i


def step(x, i):
    total = deeper(x, i) + sum(part.sum() for part in pieces(x, i % 7))
    if i % 900 == 899:
        threads = [threading.Thread(target=lambda: log.append(float((x + i).sum()))) for _ in range(2)]
        for thread in threads:
            thread.start()
            thread.join()
    return total, torch.rand(1) if i % 3 == 0 else None


def by_attributes(module, i):
    state = {name: value * (i % 4) for name, value in module.state_dict().items()}
    state["calls"] = counter.calls
    return state


def main():
    torch.manual_seed(0)
    x, module = torch.tensor([[0.5, 1.0], [1.5, 0.25]]), torch.nn.Linear(2, 2)
    checksum, raised = 0.0, []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for i in range(CALLS):
            try:
                total, drawn = step(x, i)
            except ValueError as error:
                raised.append((str(error), [frame.name for frame in traceback.extract_tb(error.__traceback__)]))
                continue
            checksum += float(total.sum()) + (float(drawn) if drawn is not None else 0)
            checksum += float(by_attributes(module, i)["weight"].sum())
    print(f"{checksum:.2f}", counter.calls, counter.seen)
    print(raised)
    print([(str(warning.message), warning.lineno) for warning in caught])
    print(log)
    print(torch.rand(2))


main()
for i in range(CALLS):
    y, _ = deeper(torch.full((2,), 0.1), i % 600), counter.note(8)
print([round(v, 4) for v in y.tolist()], counter.calls, sys.getrecursionlimit())
