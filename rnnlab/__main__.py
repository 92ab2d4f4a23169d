"""`python -m rnnlab` is the command `rnnlab`."""

import sys

from rnnlab.cli import main

sys.exit(main())
