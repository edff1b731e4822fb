"""Tables and pictures for notebooks, in plain HTML and SVG that fit light and dark pages."""
from __future__ import annotations

from html import escape
from typing import Dict, List, NamedTuple, Sequence, Tuple

WIDTH, ROW, LEFT = 760, 22, 110
# Colours that people with weak colour vision can tell apart, on white and on black.
COLOURS = {"work": "#3b82c4", "done": "#3b82c4", "startup": "#9aa5b1", "transfer": "#e0a030", "overhead": "#b07aa1",
           "starved": "#d1605e", "tail": "#7f8c8d", "retry": "#2ca089", "late": "#e0a030", "failed": "#d1605e",
           "lost": "#c2185b"}


class Span(NamedTuple):
    """One bar of a timeline."""
    row: str
    begin: float
    end: float
    kind: str  # a key of COLOURS
    text: str


def box(title: str, body: str) -> str:
    return f'<div class="muster"><p><b>{escape(title)}</b></p>{body}</div>'


def table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    head = "".join(f"<th>{escape(word)}</th>" for word in heads)
    body = "".join("<tr>" + "".join(f"<td>{escape(str(cell))}</td>" for cell in row) + "</tr>" for row in rows)
    return f'<table style="color:inherit;text-align:right;border-spacing:1em 0"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>'


def bar(parts: Sequence[Tuple[str, float]]) -> str:
    """Where the time went, as one bar and its legend."""
    total = sum(size for _, size in parts)
    if total <= 0:
        return ""
    drawn, at = [], 0.0
    for name, size in parts:
        width = WIDTH * size / total
        drawn.append(f'<rect x="{at:.2f}" y="0" width="{width:.2f}" height="{ROW - 6}" fill="{COLOURS[name]}">'
                     f"<title>{escape(name)}: {size * 1e3:.3f} ms</title></rect>")
        at += width
    words = ", ".join(f'<span style="color:{COLOURS[name]}">&#9632;</span>&nbsp;{escape(name)} {100 * size / total:.1f}&nbsp;%'
                      for name, size in parts if size > 0)
    return (f'<svg viewBox="0 0 {WIDTH} {ROW - 6}" width="{WIDTH}" height="{ROW - 6}" role="img" '
            f'aria-label="where the time went">{"".join(drawn)}</svg><p>{words}</p>')


def timeline(spans: Sequence[Span], dropped: int = 0) -> str:
    """What each device did, and when: a row for each device, and time to the right."""
    if not spans:
        return "<p>nothing was recorded</p>"
    begin, end = min(one.begin for one in spans), max(one.end for one in spans)
    length = max(end - begin, 1e-9)
    rows: List[str] = sorted({one.row for one in spans})
    drawn = []
    for number, row in enumerate(rows):
        drawn.append(f'<text x="0" y="{number * ROW + ROW - 8}" font-size="12" fill="currentColor">{escape(row)}</text>')
    for one in merged(spans, length):
        x = LEFT + (WIDTH - LEFT) * (one.begin - begin) / length
        width = max(0.5, (WIDTH - LEFT) * (one.end - one.begin) / length)
        drawn.append(f'<rect x="{x:.2f}" y="{rows.index(one.row) * ROW + 3}" width="{width:.2f}" height="{ROW - 6}" '
                     f'fill="{COLOURS[one.kind]}"><title>{escape(one.text)}</title></rect>')
    height = len(rows) * ROW + 16
    drawn.append(f'<text x="{LEFT}" y="{height - 3}" font-size="11" fill="currentColor">0</text>'
                 f'<text x="{WIDTH}" y="{height - 3}" font-size="11" text-anchor="end" fill="currentColor">'
                 f"{length * 1e3:.3f} ms</text>")
    kinds = [kind for kind in COLOURS if any(one.kind == kind for one in spans)]
    words = ", ".join(f'<span style="color:{COLOURS[kind]}">&#9632;</span>&nbsp;{kind}' for kind in kinds)
    if dropped:
        words += f"; {dropped:,} events had no room"
    return (f'<svg viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" role="img" '
            f'aria-label="timeline">{"".join(drawn)}</svg><p>{words}</p>')


def merged(spans: Sequence[Span], length: float) -> List[Span]:
    """Neighbours of one kind that a screen cannot tell apart become one bar, so that a page does not grow with the job."""
    least = length / (2 * WIDTH)
    made: List[Span] = []
    last: Dict[Tuple[str, str], int] = {}
    for one in sorted(spans, key=lambda span: span.begin):
        key = one.row, one.kind
        before = last.get(key)
        if before is not None and one.begin - made[before].end < least:
            joined = made[before]
            made[before] = joined._replace(end=max(joined.end, one.end), text=f"{joined.text.split(' to ')[0]} to {one.text}")
        else:
            last[key] = len(made)
            made.append(one)
    return made
