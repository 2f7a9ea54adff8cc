"""Every block and command of README and docs runs, in order, in a fresh folder."""

import pages_lib
import pytest
from absl import flags

from tfp_reprior import diagnostics

BLOCKS = {
  str(path.relative_to(pages_lib.ROOT)): pages_lib.read_blocks(path.read_text())
  for path in pages_lib.PAGES
}
ignore_verdicts = pytest.mark.filterwarnings(  # runs of a minute may be too short, and say so
  f'ignore::{diagnostics.SamplingWarning.__module__}.SamplingWarning'
)


def _pages(condition):
  return [page for page, blocks in BLOCKS.items() if any(map(condition, blocks))]


@ignore_verdicts
@pytest.mark.parametrize('page', _pages(lambda block: block.is_quick))
def test_quick_blocks_run_in_turn(page, tmp_path, monkeypatch, no_drawings):
  monkeypatch.chdir(tmp_path)
  pages_lib.run([block for block in BLOCKS[page] if block.is_quick])


@pytest.mark.slow
@ignore_verdicts
@pytest.mark.parametrize('page', _pages(lambda block: block.runs and not block.is_quick))
def test_all_blocks_run_in_turn(page, tmp_path, monkeypatch):
  monkeypatch.chdir(tmp_path)
  pages_lib.run([block for block in BLOCKS[page] if block.runs])


@pytest.mark.parametrize('page', _pages(lambda block: block.language == 'bash'))
def test_commands_exist_and_take_their_flags(page):
  for block in BLOCKS[page]:
    if block.language == 'bash':
      for words in block.commands():
        pages_lib.check(words)


@pytest.mark.parametrize(
  'words',
  [
    ['tfp-reprior', 'sample', '--widht=3'],
    ['tfp-reprior', 'tune'],
    ['python', 'scripts/benchmark_density.py', '--widht=3'],
    ['python', 'scripts/none.py'],
    ['bash', 'scripts/none.sh'],
    ['make'],
  ],
)
def test_commands_that_do_not_exist_are_noticed(words, capsys):
  with pytest.raises((ValueError, OSError, flags.Error)):
    pages_lib.check(words)
  capsys.readouterr()


def test_blocks_have_their_comments_and_commands():
  text = (
    'A\n\n```python\nx = 1\n```\n\n<!-- slow -->\n```bash\ntfp-reprior sample \\\n  --seed=1  # a\n'
    "export A='b\nc'\n"
    '```\n<!-- not run: a reason -->\n```bash\npip\n```\n'
  )
  first, second, third = pages_lib.read_blocks(text)
  assert first == ('python', 'x = 1\n', '') and first.is_quick and first.runs
  assert second.commands() == [['tfp-reprior', 'sample', '--seed=1'], ['export', 'A=b\nc']]
  assert second.runs and not second.is_quick and second.comment == 'slow'
  assert not third.runs and third.comment == 'not run: a reason'
  with pytest.raises(ValueError, match="Received: \\['sh'\\]"):
    pages_lib.read_blocks('```sh\nls\n```\n')


def test_a_block_sees_those_before_it(tmp_path, monkeypatch):
  monkeypatch.chdir(tmp_path)
  text = (
    "```python\nimport pathlib\npathlib.Path('a').touch()\n```\n"
    "```python\nassert pathlib.Path('a').exists()\n```\n"
  )
  pages_lib.run(pages_lib.read_blocks(text))
  assert (tmp_path / 'a').exists()
