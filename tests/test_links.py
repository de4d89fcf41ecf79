"""Links inside the repository lead to a heading that exists; links out of it are well-formed and encrypted.

Whether the pages out there still exist takes a network: ``make docs-links``.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from urllib.parse import urlsplit

import pytest

ROOT = Path(__file__).parents[1]
#: Made by ``make docs``, or pieces that a page is put together from.
GENERATED = ("_build", "tutorial", "understand", "examples", "api", "accuracy")
PAGES = sorted(
    path
    for path in (
        *ROOT.glob("*.md"),
        *(ROOT / "docs").rglob("*.md"),
        *(ROOT / ".github").rglob("*.md"),
        *(ROOT / "paper").glob("*.md"),
    )
    if not path.is_relative_to(ROOT / "docs") or path.relative_to(ROOT / "docs").parts[0] not in GENERATED
)
FENCE = re.compile(r"^(```|~~~).*?^\1", re.MULTILINE | re.DOTALL)
#: Their pages exist on this machine only, while something serves them.
LOOPBACK = ("localhost", "127.0.0.1", "[::1]")


def slug(heading: str) -> str:
    """Return the anchor that GitHub and MyST give to a heading.

    Both drop markup and punctuation and join words by hyphens.
    """
    text = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading).replace("`", "").replace("*", "")
    return re.sub(r"[^\w\- ]", "", text.strip().lower()).replace(" ", "-")


@cache
def anchors(path: Path) -> frozenset[str]:
    """Return the anchors of a page."""
    text = FENCE.sub("", path.read_text(encoding="utf-8"))
    return frozenset(slug(heading) for heading in re.findall(r"^#{1,6} +(.+?)#*$", text, re.MULTILINE))


def missing_anchors(path: Path) -> list[str]:
    """Return the links of a page whose page or heading does not exist, of those that name a heading."""
    text = FENCE.sub("", path.read_text(encoding="utf-8"))
    missing = []
    for target, anchor in re.findall(r"\]\(([^)#\s:]*)#([^)\s]+)\)", text):
        page = (path.parent / target).resolve() if target else path
        if page.suffix == ".md" and (not page.exists() or anchor not in anchors(page)):
            missing.append(f"{target}#{anchor}")
    return missing


def bad_addresses(text: str) -> list[str]:
    """Return the addresses of a text that are not encrypted or name no host; those of this machine may be either."""
    bad = []
    for address in re.findall(r"https?://[^\s)>\"'`\]|]+", text):
        host = urlsplit(address).netloc.rpartition(":")[0] or urlsplit(address).netloc
        if host in LOOPBACK or host.isupper():  # HOST stands for one
            continue
        if not re.fullmatch(r"https://([\w-]+\.)+[a-z]{2,}(/\S*)?", address.rstrip(".,;")):
            bad.append(address)
    return bad


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_lead_to_headings(path):
    assert not missing_anchors(path)


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_addresses_are_well_formed_and_encrypted(path):
    assert not bad_addresses(path.read_text(encoding="utf-8"))


def test_the_checks_notice(tmp_path):
    page, other = tmp_path / "page.md", tmp_path / "other.md"
    other.write_text("# Exact maps of any N\n```\n# no heading\n```\n## `fit`, again\n")
    page.write_text(
        "# Here\n[a](other.md#exact-maps-of-any-n) [b](#here) [c](other.md#fit-again) [d](script.py#L3)\n"
        "[e](other.md#no-heading) [f](#there) [g](gone.md#here)\n"
    )
    assert missing_anchors(page) == ["other.md#no-heading", "#there", "gone.md#here"]
    fine = (
        "[a](https://example.org/a_b?c=1). http://localhost:8080/ http://127.0.0.1:1/?t=x https://HOST:443/"
    )
    assert bad_addresses(fine) == []
    assert bad_addresses("http://example.org https://example https:///path") == [
        "http://example.org",
        "https://example",
        "https:///path",
    ]
