"""``python -m reproduction``."""

import sys

from reproduction import main

if __name__ == "__main__":
    sys.exit(main())
