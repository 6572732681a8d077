"""What tests of pages share: a reader of HTML, hostile names, and what a page may load."""

import re
from html.parser import HTMLParser

__all__ = ["HOSTILE", "Reader", "assert_complete"]

HOSTILE = [
    "</script><script>alert(1)</script>",
    '"><img src=x onerror=alert(2)>',
    "{{ 7 * 7 }}",
    "]]><!--",
    "<svg onload=alert(3)>",
]


class Reader(HTMLParser):
    """Tags with their attributes, and the text of scripts."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.scripts: list[str] = []
        self.words: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self.open.append(tag)
        if tag == "script":
            self.scripts.append("")

    def handle_endtag(self, tag: str) -> None:
        while self.open and self.open.pop() != tag:
            pass

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] == "script":
            self.scripts[-1] += data
        else:
            self.words.append(data)


def assert_complete(text: str) -> None:
    """A page that loads nothing, and forbids itself to."""
    page = Reader(text)
    assert not re.search(r"https?://|url\(|@import|\bimport\(|fetch\(", text)
    for tag, attributes in page.tags:
        assert tag not in {"link", "img", "iframe", "object", "embed", "base", "form"}
        assert not {"src", "href", "xlink:href", "srcset", "action"} & set(attributes)
    policy = next(a["content"] for t, a in page.tags if "http-equiv" in a)
    assert policy is not None and policy.startswith("default-src 'none'")
    assert "<svg" in text and text.startswith("<!DOCTYPE html>")
