"""The command line as tests call it."""

from esacl.cli import app

QUICK = ["--epochs", "1", "--limit-per-class", "20"]
DENSE = ["--method", "der++"]
PRUNING = ["--method", "esacl-der++"]


def esacl(*words):
    """Run a command; what it returns is not of interest, what it prints is."""
    app([str(word) for word in words], result_action="return_value")
