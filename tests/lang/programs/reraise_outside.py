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
