"""From settings and a stream to a trainer: context, network, parts."""

import torch

from esacl.config import Config
from esacl.methods import Method, build_parts, compose, training_columns
from esacl.nets import Network, OwnNet, begin_with_weights, build_model
from esacl.nets.data_parallel import Shares
from esacl.nets.freezing import freeze
from esacl.nets.room import building
from esacl.streams.base import Stream
from esacl.training.trainer import Trainer
from esacl.types import Context


def assemble(
    config: Config,
    stream: Stream,
    device: torch.device,
    tasks: int | None = None,
    own: OwnNet | None = None,
    shares: Shares | None = None,
    method: Method | None = None,
    fresh: bool = True,
) -> Trainer:
    """The trainer of a resolved run; `tasks` is how many there will be, where the stream does not tell.

    `own` is the network, where it is the user's; `shares` those of this process, where there are several; `method` what
    the settings' method was composed to, where it is known already. A trainer that is not `fresh` is given a state, so
    that the file of weights that it began with is not read.
    """
    context = Context(
        classes=len(stream.class_names),
        tasks=len(stream.stages) if tasks is None else tasks,
        batch_size=config.train.batch_size,
        epochs=config.train.epochs,
        seed=config.seed,
        fit_loss=config.train.fit_loss,
        device=device,
        inputs=stream.inputs,
        task_classes=tuple(stage.classes for stage in stream.stages),
        memory=(compose(config) if method is None else method).remembers,
        columns=training_columns(config, method),
        copies=config.train.augment_copies,
    )
    model = build_model(config.net.backbone, config.net.width, stream.shape, context.classes, config.seed, own)
    if fresh:
        begin_with_weights(model, config.net)
    freeze(model, config.net.freeze or "none", stream.shape)
    with building(f"the network {config.net.backbone}", model, where=device.type):
        net = Network(model, stream.shape, device, config.machine.precision, shares)
        net.cache.size = _cache_bytes(config, stream, net)
    return Trainer(net, build_parts(config, context, method), stream, config.train, config.seed)


def _cache_bytes(config: Config, stream: Stream, net: Network) -> int:
    """For what frozen layers answer: by default some where the same images come again and are not cheap to answer."""
    if config.machine.feature_cache is not None:
        return config.machine.feature_cache << 20
    returning = config.train.augment_copies > 0 or not stream.inputs.augments or net.prefix is not None
    return 512 << 20 if returning and net.meter.dense > 1_000_000 else 0
