"""The report page in a browser: everything is drawn, nothing is fetched, nothing sticks out."""

import contextlib
import html
import json
import os
import re
import shutil
import signal
import subprocess

import pytest

import tfp_reprior as tfr

_CHROMIUM = shutil.which('chromium')
pytestmark = pytest.mark.skipif(_CHROMIUM is None, reason='chromium is not installed')
_WIDTHS = (1280, 390)
_SECONDS = 90
_FLAGS = (
  '--headless',
  '--no-sandbox',
  '--disable-gpu',
  '--disable-quic',
  '--no-first-run',
  '--disable-background-networking',
  '--disable-component-update',
  '--disable-sync',
  '--enable-logging=stderr',
  '--v=0',
  '--window-size=1400,1000',
  '--dump-dom',
)
# Whatever the page tried to load would be refused, and the refusal logged.
_POLICY = (
  '<meta http-equiv="Content-Security-Policy" content="default-src \'none\'; '
  "style-src 'unsafe-inline'; img-src data:\">"
)
# A window cannot be as narrow as a phone, but a frame in it can.
_HOST = """<!DOCTYPE html><meta charset="utf-8"><body>{frames}<pre id="sizes"></pre><script>
addEventListener('load', () => {{
  const sizes = [...document.querySelectorAll('iframe')].map((frame) => {{
    const page = frame.contentDocument, view = frame.contentWindow;
    const boxes = [...page.querySelectorAll('svg')].map((s) => s.getBoundingClientRect());
    const texts = [...page.querySelectorAll('svg text')].map((t) => t.getBoundingClientRect());
    return {{
      width: view.innerWidth, scroll: page.documentElement.scrollWidth,
      plots: boxes.map((b) => [b.left, b.right, b.width, b.height]),
      smallest: Math.min(...texts.map((t) => Math.min(t.width, t.height))),
      resources: view.performance.getEntriesByType('resource').length,
    }};
  }});
  document.getElementById('sizes').textContent = JSON.stringify(sizes);
}});
</script>"""


def _browse(page, folder):
  """What is measured at each of `_WIDTHS`, and what the console says."""
  copy = html.escape(page.replace('<head>', f'<head>{_POLICY}', 1))
  frames = ''.join(
    f'<iframe style="border:0" width="{width}" height="800" srcdoc="{copy}"></iframe>'
    for width in _WIDTHS
  )
  host = folder / 'host.html'
  host.write_text(_HOST.format(frames=frames), encoding='utf-8')
  process = subprocess.Popen(
    [_CHROMIUM, *_FLAGS, f'--user-data-dir={folder / "profile"}', host.as_uri()],
    stdout=subprocess.PIPE,
    stderr=subprocess.PIPE,
    text=True,
    start_new_session=True,
  )
  try:
    dom, log = process.communicate(timeout=_SECONDS)
  finally:
    with contextlib.suppress(ProcessLookupError):
      os.killpg(process.pid, signal.SIGKILL)
  sizes = re.search('<pre id="sizes">(.*?)</pre>', dom)
  assert sizes is not None and sizes.group(1), log
  return json.loads(sizes.group(1)), [line for line in log.splitlines() if 'CONSOLE' in line]


def test_the_page_is_drawn_at_both_widths(regression, categorical, tmp_path):
  names = [f'a rather long name of a run, {"x" * 40}, {kind}' for kind in ('real', 'classes')]
  results = [regression, categorical]
  page = tfr.report.write_report(results, tmp_path / 'report.html', names).read_text()
  sizes, console = _browse(page, tmp_path)
  assert not console
  assert [size['width'] for size in sizes] == list(_WIDTHS)
  for size in sizes:
    assert size['scroll'] <= size['width'], 'the page scrolls sideways'
    assert size['resources'] == 0
    assert len(size['plots']) == page.count('<svg ') >= 12
    assert size['smallest'] > 5, 'text is too small to be read'
    for left, right, width, height in size['plots']:
      assert left >= 0 and right <= size['width']
      assert width > 280 and height > 150


def test_what_a_page_should_not_do_is_noticed(tmp_path):
  page = (
    '<!DOCTYPE html><html><head></head><body><div style="width: 3000px">wide</div>'
    '<img src="http://192.0.2.1/a.png" alt=""></body></html>'
  )
  sizes, console = _browse(page, tmp_path)
  assert all(size['scroll'] >= 3000 for size in sizes)
  assert len(console) >= len(_WIDTHS) and all('192.0.2.1' in line for line in console)
