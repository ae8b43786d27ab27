"""The drawing of `view`: a page with the graph of every function, the layout of each tensor, and the transfers.

Operators are below their operands. A mark per mesh axis shows the layout of a result; the edge of a transfer is
coloured, and names the steps and the bytes. The page has no script and loads nothing.
"""

from __future__ import annotations

import html
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from oneflow.dialect.nd_sbp import NdSbp, format_nd_sbp
from oneflow.dialect.reader import file_line_column
from oneflow.passes.sbp.boxing import BoxingStep
from oneflow.passes.sbp.cost import Assignment, Costs, moves
from oneflow.passes.sbp.explain import candidates
from oneflow.passes.sbp.graph import LogicalTensor, SbpGraph, SbpNode

WIDTH, HEIGHT, GAP, LEVEL = 210, 46, 26, 108
#: The colour of each kind of SBP.
COLOURS = {"S": "#2f7ed8", "B": "#3f9142", "P": "#e08214", "M": "#b2569e"}
NAMES = {"S": "split", "B": "broadcast", "P": "partial sum", "M": "partial maximum"}
MOVED, KEPT = "#d7301f", "#9aa0a6"
#: The colour of transfers to other placements.
BETWEEN = "between placements"
STYLE = """
body { font: 14px system-ui, sans-serif; margin: 24px; color: #202124; background: #ffffff }
svg { border: 1px solid #dadce0; border-radius: 6px; max-width: 100%; height: auto }
text { font: 12px system-ui, sans-serif; fill: #202124 } text.small { font-size: 10px; fill: #5f6368 }
rect.node { fill: #f8f9fa; stroke: #9aa0a6 } path { fill: none }
table { border-collapse: collapse; margin: 12px 0 } td, th { padding: 2px 14px 2px 0; text-align: left }
"""


@dataclass(frozen=True)
class Drawing:
    """A function with its assignment, and the position of each node: column and level."""

    name: str
    graph: SbpGraph
    assignment: Assignment
    costs: Costs

    def positions(self) -> dict[SbpNode, tuple[int, int]]:
        """Levels by the longest path from an argument, columns in program order."""
        levels: dict[SbpNode, int] = {}
        filled: Counter[int] = Counter()
        positions = {}
        for node in self.graph.nodes:
            levels[node] = max((levels[t.producer] + 1 for t in node.inputs), default=0)
            positions[node] = (filled[levels[node]], levels[node])
            filled[levels[node]] += 1
        return positions

    def transfers(self) -> Iterator[tuple[SbpNode, LogicalTensor, Sequence[BoxingStep]]]:
        """Every use of a tensor, with the steps that move the tensor there."""
        for node in self.graph.nodes:
            for tensor, wanted in zip(node.inputs, self.assignment[node].inputs, strict=True):
                produced = self.assignment[tensor.producer].outputs[tensor.result_index]
                yield node, tensor, self.costs.boxing.path(produced, wanted, tensor.shape, tensor.width)

    def svg(self) -> str:
        """The picture."""
        positions = self.positions()
        columns, levels = (1 + max(p[k] for p in positions.values()) for k in (0, 1))
        size = columns * (WIDTH + GAP) + GAP, levels * LEVEL + GAP
        edges = [part for use in self.transfers() for part in _edge(positions, *use)]
        nodes = [part for node in self.graph.nodes for part in self._node(node, *positions[node])]
        head = f'<svg xmlns="http://www.w3.org/2000/svg" width="{size[0]}" viewBox="0 0 {size[0]} {size[1]}">'
        return "\n".join([head, *edges, *nodes, "</svg>"])

    def _node(self, node: SbpNode, column: int, level: int) -> Iterator[str]:
        x, y = _corner(column, level)
        types = ", ".join(str(t.desc).removeprefix("tensor") for t in (node.outputs or node.inputs))
        about = [file_line_column(node.op.location), str(node), *candidates(node, self.assignment, self.costs)]
        yield f"<g><title>{html.escape(chr(10).join(about))}</title>"
        yield f'<rect class="node" x="{x}" y="{y}" width="{WIDTH}" height="{HEIGHT}" rx="5"/>'
        yield f'<text x="{x + 8}" y="{y + 18}">{html.escape(node.name.removeprefix("oneflow."))}</text>'
        yield f'<text class="small" x="{x + 8}" y="{y + 36}">{html.escape(types)}</text>'
        yield from _marks(self.assignment[node].outputs or self.assignment[node].inputs, x + WIDTH - 6, y + 6)
        yield "</g>"


def view(drawings: Sequence[Drawing]) -> str:
    """The page for the functions of a program, as HTML."""
    parts = ["<!doctype html>", '<html lang="en"><head><meta charset="utf-8"><title>SBP</title>',
             f"<style>{STYLE}</style></head><body>", _legend()]  # fmt: skip
    for drawing in drawings:
        if drawing.graph.nodes:
            mesh = "x".join(map(str, drawing.costs.mesh))
            parts += [f"<h2>@{html.escape(drawing.name)} on a mesh of {mesh}</h2>", _totals(drawing), drawing.svg()]
    return "\n".join([*parts, "</body></html>", ""])


def _legend() -> str:
    marks = (f'<span style="color:{c}">&#9632;</span> {NAMES[k]}' for k, c in COLOURS.items())
    return f'<p>{" &nbsp; ".join(marks)} &nbsp; <span style="color:{MOVED}">&#9473;</span> moved</p>'


def _totals(drawing: Drawing) -> str:
    """The number of steps of each kind, and the bytes that all ranks together receive in these steps."""
    times: Counter[str] = Counter()
    moved: Counter[str] = Counter()
    boxing, assignment = drawing.costs.boxing, drawing.assignment
    for tensor, produced, wanted in moves(drawing.graph, assignment):
        for step in boxing.path(produced, wanted, tensor.shape, tensor.width):
            times[step.kind] += 1
            moved[step.kind] += step.bytes
    for node in (n for n in drawing.graph.nodes if n.placement_transfer is not None):
        times[BETWEEN] += 1
        moved[BETWEEN] += drawing.costs.bytes_sent(node, assignment[node])
    rows = "".join(f"<tr><td>{k}</td><td>{n}</td><td>{moved[k]:,}</td></tr>" for k, n in sorted(times.items()))
    total = drawing.costs.total(drawing.graph, drawing.assignment)
    return f"<table><tr><th>step</th><th>times</th><th>bytes</th></tr>{rows}</table><p>{total:.1f} us</p>"


def _corner(column: int, level: int) -> tuple[int, int]:
    return GAP + column * (WIDTH + GAP), GAP + level * LEVEL


def _marks(layouts: Sequence[NdSbp], right: int, top: int) -> Iterator[str]:
    """A row of marks per tensor, one for each mesh axis, against the right edge."""
    for row, nd in enumerate(layouts[:3]):
        for k, sbp in enumerate(reversed(nd)):
            x, y = right - 30 * (k + 1), top + 12 * row
            yield f'<rect x="{x}" y="{y}" width="27" height="11" rx="2" fill="{COLOURS[sbp.kind]}"/>'
            yield f'<text class="small" x="{x + 4}" y="{y + 9}" style="fill:#ffffff">{sbp}</text>'


def _edge(
    positions: dict[SbpNode, tuple[int, int]], node: SbpNode, tensor: LogicalTensor, steps: Sequence[BoxingStep]
) -> Iterator[str]:
    (x, y), (u, v) = _corner(*positions[tensor.producer]), _corner(*positions[node])
    x, y, u, bend = x + WIDTH // 2, y + HEIGHT, u + WIDTH // 2, LEVEL // 3
    colour, width = (MOVED, 2) if steps else (KEPT, 1)
    about = "; ".join(map(str, steps)) or f"{tensor.desc} stays as it is"
    yield f'<g><title>{html.escape(about)}</title><path d="M{x} {y} C{x} {y + bend} {u} {v - bend} {u} {v}"'
    yield f'stroke="{colour}" stroke-width="{width}"/>'
    for row, step in enumerate(steps):
        label = f"{step.kind} {format_nd_sbp(step.target)} {step.bytes:,} B"
        yield f'<text class="small" x="{(x + u) // 2 + 4}" y="{(y + v) // 2 + 11 * row}">{html.escape(label)}</text>'
    yield "</g>"
