"""``python -m ldmaps.paper``."""

import sys

from ldmaps.paper import main

if __name__ == "__main__":
    sys.exit(main())
