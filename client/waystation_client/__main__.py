"""`python -m waystation_client`: the command line."""

import sys

from waystation_client.command import main

if __name__ == "__main__":
    sys.exit(main())
