"""The draft of the paper cites what its bibliography holds, and stays within two pages."""

from __future__ import annotations

import re
from pathlib import Path

PAPER = Path(__file__).parents[1] / "paper"
TEXT = (PAPER / "paper.md").read_text(encoding="utf-8")
ENTRIES = re.findall(
    r"^@(\w+)\{(\w+),\n(.*?)^\}", (PAPER / "paper.bib").read_text(encoding="utf-8"), re.M | re.S
)


def test_every_citation_has_an_entry_and_every_entry_is_cited():
    keys = [key for _, key, _ in ENTRIES]
    assert len(set(keys)) == len(keys)
    assert set(re.findall(r"(?<![\w])@(\w+)", TEXT)) == set(keys)


def test_entries_say_who_what_where_and_when():
    for kind, key, body in ENTRIES:
        fields = dict(re.findall(r"^\s*(\w+) = \{(.*)\},?$", body, re.M))
        wanted = {
            "article": {"author", "title", "journal", "volume", "year"},
            "inproceedings": {"author", "title", "booktitle", "year"},
            "misc": {"author", "title", "url"},
        }[kind]
        assert wanted <= set(fields), key
        assert kind != "article" or {"pages", "doi"} & set(fields), key
        assert re.fullmatch(r"10\.\d{4,}/\S+", fields.get("doi", "10.0000/none")), key


def test_the_draft_has_the_sections_that_reviewers_look_for_and_their_length():
    headings = re.findall(r"^# (.+)$", TEXT, re.M)
    assert headings[:2] == ["Summary", "Statement of need"]
    assert headings[-1] == "References"
    assert {"State of the field", "What is new", "Evidence", "Acknowledgements"} <= set(headings)
    assert 750 <= len(TEXT.split()) <= 1250
