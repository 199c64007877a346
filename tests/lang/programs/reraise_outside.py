"""An exception that an earlier segment caught is re-raised by a later one: the same object, with its own text."""
import os
import torch


def run(y, n):
    try:
        torch.linalg.norm(y)[n % 2].real
    except ZeroDivisionError:
        pass
    finally:
        os.getpid()


def outer(y, n):
    try:
        run(y, n)
    except KeyError:
        return None
    finally:
        y.tolist()


for function in (run, outer):
    seen = []
    for step in range(8):
        try:
            function(torch.ones(2, 3), step // 3)
        except Exception as error:
            places, traceback = [], error.__traceback__
            while traceback:
                places.append(traceback.tb_lineno)
                traceback = traceback.tb_next
            print(step, str(error)[:24], places, [error is other for other in seen], error.__context__)
            seen.append(error)


class Record:
    value = None


record, seen = Record(), []


def raised_again_behind_a_break(items, numbers):
    try:
        a, b = numbers
    except ValueError as error:
        print("caught", error)
        record.value = sum(v.mean() for v in items)
        raise


def raised_by_name_behind_a_break(items, numbers):
    try:
        a, b = numbers
    except ValueError as error:
        kept = error
        print("caught", error)
        record.value = sum(v.mean() for v in items)
        try:
            raise
        except ValueError as again:
            assert again is kept
            raise again


def catches(function):
    for step in range(16):
        try:
            function([torch.ones(3)], list(range(step % 4)))
        except ValueError as error:
            seen.append((error, error.args, str(error)))


for function in (raised_again_behind_a_break, raised_by_name_behind_a_break):
    catches(function)
    print(len({id(error) for error, _, _ in seen}), [args for _, args, _ in seen], [text for _, _, text in seen])
    seen.clear()
