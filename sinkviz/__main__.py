"""`python -m sinkviz`."""

import sys

from sinkviz.cli import main

sys.exit(main())
