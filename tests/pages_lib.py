"""The blocks of a page of documentation, and how they are run.

A block of Python runs as it is. Of a block of commands, those of `tfp-reprior` run in this process,
in the folder in which the Python blocks ran before them. `python scripts/...` stands for
measurements of minutes to hours: their flags are parsed, and scripts_test.py runs each script with
smaller ones. A comment right before a block says otherwise:

  <!-- slow -->              takes long: run with `-m slow` only
  <!-- not run: a reason --> flags are parsed, nothing is run
"""

import pathlib
import re
import shlex
from typing import NamedTuple

import script_modules
from absl import flags

from tfp_reprior.cli import main as cli_main
from tfp_reprior.cli import presets

ROOT = pathlib.Path(__file__).resolve().parents[1]
PAGES = sorted([*ROOT.glob('*.md'), *ROOT.glob('docs/**/*.md')])

# What else a page may ask a reader to run: installers, and programs of others' machines.
_OTHER_PROGRAMS = {'bash', 'cd', 'export', 'gcloud', 'git', 'pip', 'pre-commit', 'python3'}
_OTHER_PROGRAMS |= {'source', 'uv'}
_LANGUAGES = {'bash', 'bibtex', 'csv', 'none', 'python', 'text', 'yaml'}
_BLOCK = re.compile(r'(?:<!-- (slow|not run: [^\n]*?) -->\n)?^```(\w*)\n(.*?)^```$', re.M | re.S)


class Block(NamedTuple):
  """A fenced block: its language, its text, and what the comment before it says, or ''."""

  language: str
  text: str
  comment: str = ''

  def commands(self):
    """Lists of words, one for each command."""
    commands, text = [], ''
    for line in self.text.replace('\\\n', ' ').split('\n'):
      text += line
      try:
        words = shlex.split(text, comments=True)
      except ValueError:  # a quotation that goes on in the next line
        text += '\n'
        continue
      commands += [words] if words else []
      text = ''
    return commands

  @property
  def is_quick(self):
    return self.language == 'python' and not self.comment

  @property
  def runs(self):
    return self.language in ('bash', 'python') and not self.comment.startswith('not run')


def read_blocks(text):
  """The blocks of a page, in their order."""
  blocks = [Block(language, code, comment) for comment, language, code in _BLOCK.findall(text)]
  unknown = {block.language for block in blocks} - _LANGUAGES
  if unknown:
    raise ValueError(f'Blocks must be of {sorted(_LANGUAGES)}. Received: {sorted(unknown)}')
  return blocks


def check(words):
  """Raises unless a command exists and takes its flags."""
  if words[0] == 'tfp-reprior':
    try:
      presets.parse_args(cli_main._parser(), words[1:])
    except SystemExit as e:
      if e.code:  # not of --help
        raise ValueError(f'A command with a mistake. Received: {" ".join(words)!r}') from e
  elif words[0] == 'python' and words[1].startswith('scripts/'):
    name = pathlib.Path(words[1]).stem
    with script_modules.loaded(name):
      try:
        flags.FLAGS([name, *words[2:]])
      finally:
        flags.FLAGS.unparse_flags()
  elif words[0] == 'bash':
    if not (ROOT / words[1]).is_file():
      raise ValueError(f'There must be such a script. Received: {words[1]!r}')
  elif words[0] == 'python' and words[1] == '-m':
    if words[2] not in ('mkdocs', 'pytest', 'tfp_reprior', 'venv'):
      raise ValueError(f'A module that no page should need. Received: {words[2]!r}')
  elif words[0] not in _OTHER_PROGRAMS:
    raise ValueError(f'A program that no page should need. Received: {words[0]!r}')


def run(blocks):
  """Runs blocks in turn, as one session in the present folder."""
  scope = {'__name__': 'page'}
  for block in blocks:
    if block.language == 'python':
      exec(compile(block.text, 'page', 'exec'), scope)
      continue
    for words in block.commands():
      if words[0] != 'tfp-reprior':
        continue
      try:
        code = cli_main.main(words[1:])
      except SystemExit as e:  # of --help
        code = e.code
      if code:
        raise RuntimeError(f'Exit code {code} of: {" ".join(words)}')
