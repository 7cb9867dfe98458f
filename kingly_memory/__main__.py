"""`python -m kingly_memory` is the command line."""

from kingly_memory.cli.entry import run

if __name__ == "__main__":
    run()
