"""A small inline SVG plot with one value for each night, styled by the page."""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup, escape

WIDTH, HEIGHT, MARGIN = 120, 28, 3


def trend(values: Sequence[float | None], label: str, baseline: float | None = None) -> Markup:
    """Return a line through ``values``, interrupted where one is None, its last point marked; empty without values.

    The height spans all values, and at least a tenth of the largest, so that noise looks small.

    Args:
        label: The text for screen readers.
        baseline: Drawn as a dashed line.
    """
    there = [value for value in (*values, baseline) if value is not None]
    if not there or all(value is None for value in values):
        return Markup()
    low, high = min(there), max(there)
    middle, span = (low + high) / 2, max(high - low, 0.1 * abs(high), 1e-9)
    step = (WIDTH - 2 * MARGIN) / max(len(values) - 1, 1)

    def at(index: int, value: float) -> str:
        y = HEIGHT / 2 - (value - middle) / span * (HEIGHT - 2 * MARGIN)
        return f"{MARGIN + index * step:.1f},{y:.1f}"

    lines, points = [], list[str]()
    for index, value in enumerate([*values, None]):
        if value is not None:
            points.append(at(index, value))
        elif points:
            lines.append(f'<polyline points="{" ".join(points)}"/>' if len(points) > 1 else _dot(points[0], 1.2))
            points = []
    last = max(index for index, value in enumerate(values) if value is not None)
    dashed = ""
    if baseline is not None:
        y = at(0, baseline).partition(",")[2]
        dashed = f'<line class="baseline" x1="{MARGIN}" x2="{WIDTH - MARGIN}" y1="{y}" y2="{y}"/>'
    return Markup(
        f'<svg class="trend" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape(label)}">'
        f"<title>{escape(label)}</title>{dashed}{''.join(lines)}{_dot(at(last, values[last] or 0.0), 2.4)}</svg>"
    )


def _dot(point: str, radius: float) -> str:
    x, _, y = point.partition(",")
    return f'<circle cx="{x}" cy="{y}" r="{radius}"/>'
