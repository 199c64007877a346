#!/usr/bin/env python3
"""Tests `dynrun --explain=html:FILE` in headless Chromium: every part is there, every link leads somewhere, everything opens, nothing is wider than a phone.

    tests/report/run.py [--filter TEXT] [--keep FOLDER]

Without a Chromium the cases are skipped; `--keep` leaves the pages and screenshots there.
"""

import argparse
import html
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
DYNRUN = os.environ.get("DYNRUN", str(ROOT / "build" / "release" / "dynrun"))
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--virtual-time-budget=4000"]

BEFORE = "<script>window.problems = []; addEventListener('error', e => problems.push(e.message));</script>"
AFTER = """<script>
const seen = {problems, links: 0, opened: 0, dead: [], hidden: [], focusable: 0};
for (const a of document.querySelectorAll("a[href^='#']")) {
  seen.links++;
  const target = document.getElementById(a.getAttribute("href").slice(1));
  if (!target) { seen.dead.push(a.outerHTML); continue; }
  a.click();
  dispatchEvent(new HashChangeEvent("hashchange"));
  if (target.getClientRects().length === 0) seen.hidden.push(a.outerHTML);
}
for (const summary of document.querySelectorAll("summary")) { if (!summary.parentElement.open) summary.click(); seen.opened++; }
for (const node of document.querySelectorAll("a, summary, [tabindex]")) { node.focus(); if (document.activeElement === node) seen.focusable++; }
seen.should_focus = document.querySelectorAll("a[href], summary, [tabindex]").length;
seen.wide = document.documentElement.scrollWidth > innerWidth ? document.documentElement.scrollWidth : 0;
seen.counts = Object.fromEntries(["#cards .card", "#breaks .break", "#files details", "tr.compiled", "tr.stops", "#picture rect", "#picture path", "#segments details", "#segments pre", "ol.steps li.kernel", "svg.memory rect"].map(s => [s, document.querySelectorAll(s).length]));
document.body.setAttribute("data-seen", JSON.stringify(seen));
</script></body>"""


def page(folder, script, name):
    made = folder / f"{name}.html"
    ran = subprocess.run([DYNRUN, f"--explain=html:{made}", str(script)], capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    return made


def visit(made, width):
    """What a visitor finds who follows every link and opens every part, in a window so wide."""
    text = made.read_text().replace("<head>", "<head>" + BEFORE, 1).replace("</body>", AFTER)
    assert not re.search(r"(src|href)=[\"']?https?:", text), "the page asks the network for something"
    clicked = made.with_suffix(".clicked.html")
    clicked.write_text(text)
    shot = made.with_suffix(f".{width}.png")
    subprocess.run([CHROMIUM, *FLAGS, f"--window-size={width},2000", f"--screenshot={shot}", made.as_uri()], capture_output=True, check=True)
    assert shot.stat().st_size > 10000
    # A window of Chromium's is at least 500 wide: a narrow one is a frame in it.
    frame = made.with_suffix(".frame.html")
    frame.write_text(f"<iframe id=f src='{clicked.as_uri()}' style='width:{width}px;height:2000px;border:0'></iframe><script>addEventListener('load', () => setTimeout(() => document.body.setAttribute('data-seen', document.getElementById('f').contentDocument.body.dataset.seen), 500))</script>")
    dom = subprocess.run([CHROMIUM, *FLAGS, "--allow-file-access-from-files", "--window-size=1400,2000", "--dump-dom", frame.as_uri()], capture_output=True, text=True, check=True).stdout
    found = re.search(r'data-seen="([^"]*)"', dom)
    assert found, dom[-500:]
    return json.loads(html.unescape(found[1]))


def check(seen):
    assert not seen["problems"] and not seen["dead"] and not seen["hidden"] and not seen["wide"], seen
    assert seen["focusable"] == seen["should_focus"] and seen["links"] >= 5 and seen["opened"] >= 1, seen


def test_breaks_example(folder):
    made = page(folder, ROOT / "examples" / "breaks.py", "breaks")
    for width in (1280, 400):
        seen = visit(made, width)
        check(seen)
        counts = seen["counts"]
        assert counts["#cards .card"] == 6 and counts["#breaks .break"] >= 3 and counts["tr.compiled"] >= 5 and counts["tr.stops"] >= 3, counts
        assert counts["#picture rect"] >= 3 and counts["#picture path"] >= 3 and counts["#segments details"] >= 3 and counts["#segments pre"] >= 3, counts
        assert counts["ol.steps li.kernel"] >= 3 and counts["svg.memory rect"] >= 3, counts
    text = made.read_text()
    for word in ("data-dependent-bool", "use torch.where", "json.dumps", "aten::linear", "define "):
        assert word in text, word


def test_nothing_recorded(folder):
    script = folder / "nothing.py"
    script.write_text("print('</script><b>hello')\n")
    check(visit(page(folder, script, "nothing"), 400) | {"opened": 1})


def test_hostile_source(folder):
    script = folder / "hostile.py"
    script.write_text("import torch\ndef f(x):  # </script><script>problems.push('ran')</script> é <!--\n    y = x * 2\n    if y.sum() > 0: return y + 1  # <b>\n    return y\nfor _ in range(5): f(torch.ones(3))\n")
    seen = visit(page(folder, script, "hostile"), 1280)
    check(seen)
    assert seen["counts"]["#breaks .break"] >= 1, seen


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--filter", default="")
    parser.add_argument("--keep", type=pathlib.Path)
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    cases = [(name, case) for name, case in globals().items() if name.startswith("test_") and options.filter in name]
    if CHROMIUM is None:
        print(f"skip: no Chromium (apt install chromium)\n0 passed, 0 failed, {len(cases)} skipped")
        return 0
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        for name, case in cases:
            place = options.keep or pathlib.Path(folder)
            place.mkdir(parents=True, exist_ok=True)
            try:
                case(place)
            except (AssertionError, subprocess.CalledProcessError) as error:
                failed += 1
                print(f"FAIL {name}: {error}")
    print(f"{len(cases) - failed} passed, {failed} failed, 0 skipped")
    return failed != 0


if __name__ == "__main__":
    sys.exit(main())
