"""The command line: `esacl`."""

import sys
from collections.abc import Callable, Sequence
from typing import NoReturn

from cyclopts import App, CycloptsError, Group, Parameter

from esacl.cli.consoles import STATUS, TEXT, drop_output, leave_quietly, print_anything
from esacl.cli.data import check_command, get_command
from esacl.cli.errors import message, saved_traceback, warnings_as_notes
from esacl.cli.evaluate import evaluate_command
from esacl.cli.export import export_command
from esacl.cli.grid import grid_command
from esacl.cli.inspect import inspect_command
from esacl.cli.landscape import landscape_command
from esacl.cli.leaderboard import leaderboard_command
from esacl.cli.learn import learn_command
from esacl.cli.lists import methods_command, parts_command, streams_command
from esacl.cli.predict import predict_command
from esacl.cli.readouts import readouts_command
from esacl.cli.report import report_command
from esacl.cli.run import resume_command, run_command
from esacl.cli.table import table_command
from esacl.cli.tune import tune_command
from esacl.errors import EsaclError, out_of_memory
from esacl.grid.signals import terminable
from esacl.short_names import as_flags
from esacl.version import __version__

TRAIN = Group("Train and compare", sort_key=0)
USE = Group("Use a model", sort_key=1)
LOOK = Group("See what there is", sort_key=2)
HELP = """Continual learning with one small network: train a method on a stream of tasks, see what it remembers and \
what that cost.

First steps (no download; the run takes seconds):

1. `esacl run --out runs/first` trains EsaCL on small images of digits and names its report: open that page.
2. `esacl run --method finetune --out runs/plain` does the same without a memory.
3. `esacl report runs/first runs/plain` puts both side by side.

Your own images, photos/CLASS/IMAGE: `esacl run --stream folder:photos`, or `esacl learn`. Every command explains \
itself: `esacl run --help`."""

app = App(
    name="esacl",
    version=__version__,
    suppress_keyboard_interrupt=False,
    console=TEXT,
    help=HELP,
    default_parameter=Parameter(json_list=False, json_dict=False),  # a word is what it says, also "[]"
)
COMMANDS: tuple[tuple[Group, str, Callable[..., None]], ...] = (
    (TRAIN, "run", run_command),
    (TRAIN, "resume", resume_command),
    (TRAIN, "report", report_command),
    (TRAIN, "grid", grid_command),
    (TRAIN, "tune", tune_command),
    (TRAIN, "table", table_command),
    (TRAIN, "leaderboard", leaderboard_command),
    (TRAIN, "readouts", readouts_command),
    (TRAIN, "landscape", landscape_command),
    (USE, "learn", learn_command),
    (USE, "predict", predict_command),
    (USE, "evaluate", evaluate_command),
    (USE, "inspect", inspect_command),
    (USE, "export", export_command),
    (LOOK, "methods", methods_command),
    (LOOK, "parts", parts_command),
    (LOOK, "streams", streams_command),
)
app.register_install_completion_command(help="Complete words of `esacl` in bash, zsh or fish from now on.")
app["--help"].group = app["--version"].group = app["--install-completion"].group = LOOK
for place, (group, name, command) in enumerate(COMMANDS):
    app.command(command, name=name, group=group, sort_key=place)
data = App(name="data", help="Download data sets and check what is there.", group=LOOK, sort_key=len(COMMANDS))
data.command(get_command, name="get")
data.command(check_command, name="check")
app.command(data)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line; what a user can cause is one message, never a traceback."""
    print_anything()
    try:
        with terminable(), warnings_as_notes(STATUS):
            try:
                app(sys.argv[1:] if arguments is None else arguments, exit_on_error=False, print_error=False)
            finally:
                if sys.stdout is not None:  # as in `esacl methods >&-`
                    sys.stdout.flush()  # a closed pipe is met here, and not when Python ends
    except CycloptsError as error:
        _refuse(message(error, app))
    except EsaclError as error:
        error.naming = error.naming or as_flags()
        _refuse(str(error))
    except BrokenPipeError:
        leave_quietly()
    except OSError as error:
        drop_output()
        where = f" {str(error.filename)!r}" if error.filename else ""
        _refuse(f"the system refused{where}: {error.strerror or error}. Nothing that was saved is lost.")
    except KeyboardInterrupt:
        STATUS.print("interrupted.")
        raise SystemExit(130) from None
    except Exception as error:
        if out_of_memory(error):
            _refuse("the memory is full. Use a smaller network, batch or number of images. What was saved is whole.")
        _refuse(f"{saved_traceback(error)} Nothing that was saved is lost.")  # a mistake of this library


def _refuse(message: str) -> NoReturn:
    line = " ".join(message.splitlines())  # also where a value that it repeats has several
    STATUS.print(f"error: {line}", style="red", markup=False, highlight=False, soft_wrap=True)
    raise SystemExit(2) from None
