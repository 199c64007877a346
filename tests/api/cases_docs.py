"""docs/ says what the program says."""

import pathlib
import re
import subprocess
import sys

import dynrun

DOCS = pathlib.Path(__file__).resolve().parent.parent.parent / "docs"


def shown(option):
    return subprocess.run([sys.executable, option], capture_output=True, text=True, check=True).stdout


def test_table_of_breaks():
    told = re.findall(r"^  ([a-z-]+) +(\S.*)\n +cure: (.+)$", shown("--explain=ids"), re.MULTILINE)
    written = re.findall(r"^\| `([a-z-]+)` \| (.+) \| (.+) \|$", (DOCS / "breaks.md").read_text(), re.MULTILINE)
    assert told and told == written, set(told) ^ set(written)


def test_options():
    reference, readme = (DOCS / "reference.md").read_text(), (DOCS.parent / "README.md").read_text()
    for name in re.findall(r"^  (--[a-z-]+)", shown("--help"), re.MULTILINE):
        assert name in reference and name in readme, name


def test_module():
    reference = (DOCS / "reference.md").read_text()
    for name in dynrun.__all__:
        assert f"`{name}(" in reference, name


def test_links():
    for page in DOCS.glob("*.md"):
        for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text()):
            assert (page.parent / target).exists(), (page.name, target)
