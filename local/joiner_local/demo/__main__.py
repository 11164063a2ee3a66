"""`python -m joiner_local.demo`: see `demonstration`."""

import sys

from joiner_local.demo.demonstration import main

if __name__ == "__main__":
    sys.exit(main())
