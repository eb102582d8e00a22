"""`python -m esacl` is `esacl`."""

from esacl.cli import main

if __name__ == "__main__":
    main()
