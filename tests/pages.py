"""HTML pages, read as far as tests ask about them."""

from __future__ import annotations

from html.parser import HTMLParser
from urllib.parse import urlsplit

__all__ = ["Page"]


class Page(HTMLParser):
    """What is in a page; nothing in it may be fetched or run, and its links stay near.

    Attributes:
        tags: the names of all elements.
        open: of those that were not closed.
        text: all of it.
        elements: name and attributes of all elements.
    """

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.open: list[str] = []
        self.text = ""
        self.elements: list[tuple[str, dict[str, str]]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        assert not {name for name, _ in attrs} & {"src", "xlink:href"}
        assert not any(name.startswith("on") for name, _ in attrs)
        for target in (value or "" for name, value in attrs if name == "href"):
            assert tag == "a", "only what is clicked on leads elsewhere"
            assert urlsplit(target)[:2] == ("", ""), "and to what is in the page or beside it"
        self.elements.append((tag, {name: value or "" for name, value in attrs}))
        if tag not in ("meta", "input", "wbr"):  # those have no end
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert tag == self.open.pop()

    def handle_data(self, data: str) -> None:
        self.text += data
