"""`python -m kingly_memory` is the command line."""

import sys

from kingly_memory.cli.main import main

sys.exit(main())
