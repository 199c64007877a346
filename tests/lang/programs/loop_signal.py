import signal, torch
def h(s, f): raise KeyError("alarm")
signal.signal(signal.SIGALRM, h)
n = 0
x = torch.zeros(3)
signal.setitimer(signal.ITIMER_REAL, 0.3)
try:
    while True:
        x = x + 1
        n += 1
except KeyError as e:
    print("interrupted", e)
