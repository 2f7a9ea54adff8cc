"""Pieces of the page: boxes, tables, numbers. Each function returns HTML."""

import html
import math


def verdict(level, headline, reasons, text):
  """A box in the color of a level.

  Args:
    level: One of `tfp_reprior.diagnostics.verdict.LEVELS`.
    headline: Text.
    reasons: List of texts; may be empty.
    text: What else there is to say; may be empty.
  """
  items = ''.join(f'<li>{html.escape(reason)}</li>' for reason in reasons)
  return (
    f'<div class="verdict {level}"><b>{html.escape(headline)}</b>'
    + (f'<ul>{items}</ul>' if items else '')
    + (f'<p>{html.escape(text)}</p></div>' if text else '</div>')
  )


def grid(items):
  """Items side by side, as many as fit."""
  return f'<div class="grid">{"".join(items)}</div>'


def table(label, head, rows):
  """A table in a box that scrolls by itself. Rows are pairs of a heading and cells; all is HTML."""
  columns = ''.join(f'<th scope="col">{cell}</th>' for cell in head)
  body = ''.join(
    f'<tr><th scope="row">{name}</th>{"".join(f"<td>{cell}</td>" for cell in cells)}</tr>'
    for name, cells in rows
  )
  return (
    f'<div class="scroll" tabindex="0" role="region" aria-label="{label}"><table><thead><tr>'
    f'{columns}</tr></thead><tbody>{body}</tbody></table></div>'
  )


def figure(value):
  """A measured number, to three digits."""
  if value is None or math.isnan(value):
    return '–'
  return f'{value:,.0f}' if abs(value) >= 100 else f'{value:#.3g}'


def r_hat(value):
  """A value of R-hat, to three decimals; that of chains that stand still is huge."""
  if value is None or math.isnan(value):
    return '–'
  return f'{value:.3f}' if value < 100 else 'over 100'
