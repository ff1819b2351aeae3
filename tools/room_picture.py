"""Draw the packages of the library and their imports: ``docs/pictures/rooms.svg``.

`tools/pictures.py` writes the picture, and a test fails if it is outdated.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from html import escape
from pathlib import Path

PACKAGE = Path(__file__).parents[1] / "amqp10msg"
#: The districts in their order, and the packages in each.
DISTRICTS = {
    "core": (
        *("wire", "composite", "sections", "validation", "message", "delivery", "basic"),
        *("translate", "pages", "notation"),
    ),
    "data": ("columns", "files", "jobs"),
    "net": ("net.transport", "net.ends", "net.bridge", "net.migrate", "net.serve"),
    "kit": ("interop", "testing", "spark", "app"),
}
#: Packages that are divided into their subpackages.
DIVIDED = {"net"}

# Sizes in pixels: a box, the gaps between boxes and between rows, and the margin.
BOX_WIDTH, BOX_HEIGHT, GAP, ROW_GAP, MARGIN = 96, 30, 22, 46, 16


def package_of(parts: tuple[str, ...]) -> str:
    """Return the package that a dotted path below ``amqp10msg`` belongs to; empty if none."""
    names = {name for names in DISTRICTS.values() for name in names}
    wanted = ".".join(parts[:2]) if parts and parts[0] in DIVIDED else ".".join(parts[:1])
    return wanted if wanted in names else ""


def imported_modules(tree: ast.Module) -> Iterator[tuple[str, ...]]:
    """Yield the modules of this library that a file imports anywhere, as parts of their paths."""
    for node in ast.walk(tree):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        for name in names:
            first, *others = name.split(".")
            if first == PACKAGE.name:
                yield tuple(others)


def imports() -> dict[str, set[str]]:
    """Return for each package the packages that it imports, directly or through others."""
    direct: dict[str, set[str]] = {name: set() for names in DISTRICTS.values() for name in names}
    for file in sorted(PACKAGE.rglob("*.py")):
        importer = package_of(file.relative_to(PACKAGE).with_suffix("").parts)
        if importer:
            tree = ast.parse(file.read_text(encoding="utf-8"))
            direct[importer] |= {*map(package_of, imported_modules(tree))} - {"", importer}
    reached = {name: set(targets) for name, targets in direct.items()}
    for _ in reached:
        for targets in reached.values():
            targets.update(*[reached[target] for target in targets])
    return reached


def without_indirect(reached: dict[str, set[str]]) -> dict[str, set[str]]:
    """Remove the imports that follow from others, so that the picture has few lines."""
    return {
        name: {
            target for target in targets if not any(target in reached[other] for other in targets)
        }
        for name, targets in reached.items()
    }


def rows_of(reached: dict[str, set[str]]) -> list[list[str]]:
    """Return the packages in rows, from the top; a package is above all that it imports."""
    height: dict[str, int] = {}
    for name in sorted(reached, key=lambda name: (len(reached[name]), name)):
        height[name] = 1 + max((height[target] for target in reached[name]), default=-1)
    levels = sorted(set(height.values()), reverse=True)
    order = [name for names in DISTRICTS.values() for name in names]
    return [[name for name in order if height[name] == level] for level in levels]


def draw() -> str:
    """Return the picture as SVG."""
    reached = imports()
    rows = rows_of(reached)
    width = 2 * MARGIN + max(len(row) for row in rows) * (BOX_WIDTH + GAP) - GAP
    height = 2 * MARGIN + len(rows) * (BOX_HEIGHT + ROW_GAP) - ROW_GAP + 34
    district_of = {name: key for key, names in DISTRICTS.items() for name in names}
    place: dict[str, tuple[float, float]] = {}
    for level, row in enumerate(rows):
        left = (width - len(row) * (BOX_WIDTH + GAP) + GAP) / 2
        for column, name in enumerate(row):
            place[name] = left + column * (BOX_WIDTH + GAP), MARGIN + level * (BOX_HEIGHT + ROW_GAP)
    lines, boxes = [], []
    for name, targets in without_indirect(reached).items():
        x, y = place[name]
        for target in sorted(targets):
            end_x, end_y = place[target]
            lines.append(
                f'<path d="M{x + BOX_WIDTH / 2:g} {y + BOX_HEIGHT:g}'
                f"C{x + BOX_WIDTH / 2:g} {y + BOX_HEIGHT + ROW_GAP / 2:g} "
                f"{end_x + BOX_WIDTH / 2:g} {end_y - ROW_GAP / 2:g} "
                f'{end_x + BOX_WIDTH / 2:g} {end_y:g}"/>'
            )
        boxes.append(
            f'<rect class="{district_of[name]}" x="{x:g}" y="{y:g}" width="{BOX_WIDTH}" '
            f'height="{BOX_HEIGHT}" rx="6"/><text x="{x + BOX_WIDTH / 2:g}" '
            f'y="{y + BOX_HEIGHT / 2 + 4.5:g}">{escape(name)}</text>'
        )
    legend = []
    for number, key in enumerate(DISTRICTS):
        x = MARGIN + number * 84
        legend.append(
            f'<rect class="{key}" x="{x}" y="{height - 28}" width="14" height="14" rx="3"/>'
            f'<text class="legend" x="{x + 20}" y="{height - 16}">{key}</text>'
        )
    return "\n".join(
        [
            (
                f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
                f'width="{width}" height="{height}" role="img">'
            ),
            "<title>The packages and their imports: a line leads down to an imported one</title>",
            "<style>",
            (
                "text { font: 13px ui-sans-serif, system-ui, sans-serif; text-anchor: middle; "
                "fill: #1c1e21; }"
            ),
            ".legend { text-anchor: start; }",
            "path { fill: none; stroke: #9aa1a9; stroke-width: 1.4; }",
            ".core { fill: hsl(212 62% 88%); } .data { fill: hsl(138 45% 84%); }",
            ".net { fill: hsl(42 70% 84%); } .kit { fill: hsl(335 55% 90%); }",
            "@media (prefers-color-scheme: dark) {",
            "text { fill: #e6e6e3; } path { stroke: #5d646d; }",
            ".core { fill: hsl(212 35% 26%); } .data { fill: hsl(138 30% 22%); }",
            ".net { fill: hsl(42 35% 24%); } .kit { fill: hsl(335 30% 26%); }",
            "}",
            "</style>",
            *lines,
            *boxes,
            *legend,
            "</svg>",
            "",
        ]
    )
