"""The command line: `esacl`."""

import sys
from collections.abc import Sequence

from cyclopts import App

from esacl.cli.data import check_command, get_command
from esacl.cli.export import export_command
from esacl.cli.grid import grid_command
from esacl.cli.inspect import inspect_command
from esacl.cli.landscape import landscape_command
from esacl.cli.learn import learn_command
from esacl.cli.lists import methods_command, streams_command
from esacl.cli.predict import predict_command
from esacl.cli.report import report_command
from esacl.cli.run import STATUS, resume_command, run_command
from esacl.cli.table import table_command
from esacl.errors import EsaclError
from esacl.version import __version__

app = App(
    name="esacl",
    version=__version__,
    suppress_keyboard_interrupt=False,
    help=(
        "Continual learning with one small network: train a method on a stream of tasks, see what it remembers "
        "and what that cost.\n\nFirst steps: `esacl run`, then open the report it names."
    ),
)
app.command(run_command, name="run")
app.command(resume_command, name="resume")
app.command(report_command, name="report")
app.command(grid_command, name="grid")
app.command(table_command, name="table")
app.command(landscape_command, name="landscape")
app.command(inspect_command, name="inspect")
app.command(predict_command, name="predict")
app.command(learn_command, name="learn")
app.command(export_command, name="export")
app.command(methods_command, name="methods")
app.command(streams_command, name="streams")
data = App(name="data", help="Download data sets and check what is there.")
data.command(get_command, name="get")
data.command(check_command, name="check")
app.command(data)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line; what a user can cause is one message, never a traceback."""
    try:
        app(sys.argv[1:] if arguments is None else arguments)
    except EsaclError as error:
        STATUS.print(f"error: {error}", style="red", markup=False, highlight=False, soft_wrap=True)
        raise SystemExit(2) from None
    except OSError as error:
        where = f" {str(error.filename)!r}" if error.filename else ""
        told = f"error: the system refused{where}: {error.strerror or error}. Nothing that was saved is lost."
        STATUS.print(told, style="red", markup=False, highlight=False, soft_wrap=True)
        raise SystemExit(2) from None
    except KeyboardInterrupt:
        STATUS.print("interrupted.")
        raise SystemExit(130) from None
