"""What every process but the first does: the same run, step by step, without writing anything.

Started as `python -m esacl.processes.worker RANK SIZE FOLDER`; whoever holds the other end of its standard input is
the first process, and with it the worker ends.
"""

import os
import signal
import sys
from threading import Thread

LOST = 3
"""Exit code of a worker that was left alone by another process."""


def serve(rank: int, size: int) -> None:
    """Do the run that the first process tells; the group is there."""
    from esacl.assembly import assemble
    from esacl.config import Config
    from esacl.machine import machine
    from esacl.methods import compose
    from esacl.nets import is_own, own_net
    from esacl.nets.data_parallel import Shares
    from esacl.processes.job import agree, receive, stream_of
    from esacl.training.events import EpochDone, TaskDone

    told = receive()
    if not told:  # the run is finished already
        return
    config, shares = Config.from_mapping(told["config"]), Shares(rank, size)
    with machine(config.machine) as device:
        stream, name = stream_of(told["stream"]), config.net.backbone
        own = own_net(name, stream.shape, config.seed) if is_own(name) else None
        method = compose(config, code=config.code())  # what the first process was allowed to start
        trainer = assemble(config, stream, device, own=own, shares=shares, method=method)
        if told["trainer"] is not None:
            trainer.load_state_dict(told["trainer"])
        shares.active = True
        for event in trainer.run():
            if isinstance(event, EpochDone | TaskDone):
                agree(trainer)


def _leave_with_the_first() -> None:
    """Wait until nobody holds the other end any more, however the first process ended."""
    while os.read(0, 1024):
        pass
    os._exit(LOST)


def main(rank: int, size: int, folder: str) -> int:
    """Join the group, serve, and leave word of what went wrong."""
    from pathlib import Path

    from esacl.errors import EsaclError
    from esacl.nets.data_parallel import Unreachable
    from esacl.processes.group import joined, rendezvous

    place = Path(folder)
    try:
        store = rendezvous(place, size)
        store.set(f"ready {rank}", "")
        with joined(rank, size, rank, store):
            serve(rank, size)
    except Unreachable:
        return LOST
    except EsaclError as error:
        _leave_word(place, rank, str(error))
        return 1
    except BaseException as error:
        _leave_word(place, rank, f"{type(error).__name__}: {error}".strip())
        raise
    return 0


def _leave_word(place: "os.PathLike[str]", rank: int, text: str) -> None:
    with open(os.path.join(place, f"word-{rank}"), "w", encoding="utf-8") as file:
        file.write(text)


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # an interrupt of the terminal is for the first process
    Thread(target=_leave_with_the_first, daemon=True).start()
    sys.exit(main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]))
