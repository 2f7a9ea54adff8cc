"""`python -m tfp_reprior` is `tfp-reprior`."""

import sys

from tfp_reprior.cli import main

if __name__ == '__main__':
  sys.exit(main.main())
