"""At the top of each page of the Python reference a table of what is on it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx

PAGES = "reference/python/"
#: Of a signature, what no caller passes.
PRIVATE = re.compile(r", (?:_\w+: [^,()\[\]]+|\*\*unknown: [\w.~]*Never)(?=[,)])")
#: Of a page with fewer things a table says no more than the page.
FEWEST = 3


def described(doctree: nodes.document) -> Iterator[tuple[str, str, nodes.Node]]:
    """Yield id, name and first sentence of the classes, functions and data on a page."""
    for description in doctree.findall(addnodes.desc):
        signature = description.next_node(addnodes.desc_signature)
        content = description.next_node(addnodes.desc_content)
        inside = any(isinstance(node, addnodes.desc) for node in parents(description))
        if inside or signature is None or content is None or not signature["ids"]:
            continue
        first = next(iter(content.children), None)
        summary = first if isinstance(first, nodes.paragraph) else nodes.paragraph()
        yield signature["ids"][0], signature["fullname"], summary


def parents(node: nodes.Node) -> Iterator[nodes.Node]:
    """Yield what encloses a node, from the inside out."""
    while (node := node.parent) is not None:
        yield node


def sentence(paragraph: nodes.Node) -> str:
    """Return the first sentence of a paragraph, without its marks."""
    text = " ".join(paragraph.astext().split())
    return text.split(". ")[0].rstrip(".:")


def add_table(app: Sphinx, doctree: nodes.document) -> None:
    """Put the table after the title of a page."""
    if not app.env.docname.startswith(PAGES):
        return
    found = list(described(doctree))
    if len(found) < FEWEST:
        return
    table = nodes.table(classes=["overview"])
    group = nodes.tgroup(cols=2)
    group += [nodes.colspec(colwidth=30), nodes.colspec(colwidth=70)]
    body = nodes.tbody()
    for target, name, summary in found:
        link = nodes.reference("", "", refid=target, internal=True)
        link += nodes.literal(text=name)
        cells = (nodes.paragraph("", "", link), nodes.paragraph(text=sentence(summary)))
        body += nodes.row("", *(nodes.entry("", cell) for cell in cells))
    table += group
    group += body
    title = doctree.next_node(nodes.title)
    title.parent.insert(title.parent.index(title) + 1, table)


def without_annotations(text: str) -> str:
    """Return a signature with the types alone of fields that declare their AMQP type."""
    beginning, found, rest = text.partition("Annotated[")
    if not found:
        return text
    depth, first = 0, None
    for place, character in enumerate(rest):
        if character == "," and not depth and first is None:
            first = rest[:place]
        if character == "]" and not depth:
            end = without_annotations(rest[place + 1 :])
            return re.sub(r"~[\w.]+$", "", beginning) + str(first) + end
        depth += (character in "([{") - (character in ")]}")
    return text


def shorten(*given: Any) -> tuple[str, str | None] | None:
    """Leave out of a signature what only the encoder reads, and what no caller passes."""
    *_, signature, back = given
    return (PRIVATE.sub("", without_annotations(signature)), back) if signature else None


def setup(app: Sphinx) -> dict[str, Any]:
    """Add the tables once a page is read, and shorten signatures."""
    app.connect("autodoc-process-signature", shorten)
    app.connect("doctree-read", add_table)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
