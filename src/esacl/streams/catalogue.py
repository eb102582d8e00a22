"""Every stream by name: what it is, and how to open it."""

from dataclasses import dataclass, replace
from typing import Any

from esacl import plugins
from esacl.code import imported, message
from esacl.config import StreamConfig
from esacl.errors import ConfigError, EsaclError, unknown_name
from esacl.files import user_path
from esacl.streams import digits, domains, folder
from esacl.streams.base import Source, Stream
from esacl.streams.choose import Limit
from esacl.streams.images import Progress
from esacl.streams.locate import data_folder, read_official
from esacl.streams.official import OFFICIAL
from esacl.streams.split import split

_FOLDER = "folder:"


@dataclass(frozen=True, slots=True)
class StreamInfo:
    """What can be said of a stream before it is opened; nothing where it depends on your files."""

    name: str
    description: str
    classes: int | None
    tasks: int | None  # unless the run asks for another number
    image: tuple[int, int, int] | None  # channels, height, width
    download: str | None = None  # official address
    size: int | None = None  # bytes to download


_INFOS = (
    StreamInfo("split-digits", "handwritten digits of scikit-learn, ready without a download", 10, 5, (1, 8, 8)),
    *(
        StreamInfo(name, f"the same digits in every task, {transform}", 10, domains.TASKS, (1, 8, 8))
        for name, transform in (
            ("rotated-digits", "turned further each time"),
            ("permuted-digits", "pixels in a new order"),
        )
    ),
    *(
        StreamInfo(data.stream, text, data.classes, tasks, image, data.url, data.size)
        for data, text, tasks, image in (
            (OFFICIAL["cifar10"], "CIFAR-10, natural images", 5, (3, 32, 32)),
            (OFFICIAL["cifar100"], "CIFAR-100, natural images, fine labels", 10, (3, 32, 32)),
            (OFFICIAL["tinyimagenet"], "Tiny-ImageNet, natural images", 10, (3, 64, 64)),
        )
    ),
    StreamInfo(f"{_FOLDER}PATH", "your own images, one sub-folder for each class", None, None, None),
)


def available() -> list[StreamInfo]:
    """The streams that can be opened by name, those of plugins last."""
    names = plugins.offered("streams", [info.name for info in _INFOS])
    return [*_INFOS, *(StreamInfo(name, "of a plugin", None, None, None) for name in names)]


def _offered(name: str) -> Any | None:
    """What a plugin offers by that name, where this library has no such stream."""
    return None if name in {info.name for info in _INFOS} else plugins.load("streams", name)


def opened(found: Any, config: StreamConfig, seed: int) -> Stream:
    """The stream that somebody else's code returns: a stream, or a source that is cut into tasks here."""
    try:
        made = found(config, seed) if callable(found) else found
    except EsaclError:
        raise
    except Exception as error:
        raise ConfigError(
            f"stream {config.name!r} fails when it is called with (config, seed): {message(error)}. It must return a "
            f"Stream or a Source."
        ) from None
    if isinstance(made, Source):
        return replace(split(made, config, seed), name=config.name)
    if not isinstance(made, Stream):
        raise ConfigError(
            f"stream {config.name!r} is {type(made).__name__}. Allowed: a Stream, a Source, or a function of "
            f"(config, seed) that returns one."
        )
    if config.tasks not in (None, len(made.tasks)):
        wrong = "{given} was given, but {name!r} has {own} tasks of its own."
        own = {"name": config.name, "own": len(made.tasks)}
        raise ConfigError(wrong, "stream.tasks", config.tasks, remedy="Leave it out.", **own)
    if config.image_size is not None:
        wrong = "{given} was given, but {name!r} makes its own tasks, of images of {own} pixels."
        own = {"name": config.name, "own": "×".join(map(str, made.shape[1:]))}
        raise ConfigError(wrong, "stream.image_size", config.image_size, remedy="Leave it out.", **own)
    return replace(made, name=config.name)


def absolute(config: StreamConfig) -> StreamConfig:
    """The same stream, found from any working directory: with whole paths."""
    if config.name.startswith(_FOLDER):
        path = user_path(config.name.removeprefix(_FOLDER))
        return replace(config, name=f"{_FOLDER}{path.resolve()}") if config.name != _FOLDER else config
    if config.name in {data.stream for data in OFFICIAL.values()}:
        return replace(config, data_dir=str(data_folder(config.data_dir).resolve()))
    return config


def open_stream(config: StreamConfig | str, seed: int = 0, progress: Progress | None = None) -> Stream:
    """The stream of that name, or that `config` describes, in memory; the seed shuffles the class order, if asked to.

    >>> open_stream("split-digits")
    Stream(split-digits: 5 tasks, 10 classes, 1×8×8)
    """
    config = StreamConfig(config) if isinstance(config, str) else config
    if not isinstance(config, StreamConfig):
        raise ConfigError(
            f"a stream is opened by name, such as 'split-digits', but a {type(config).__name__} was given. Data of "
            f"your own: esacl.as_stream(data)."
        )
    if config.name.startswith(_FOLDER):
        path = config.name.removeprefix(_FOLDER)
        if not path:
            raise ConfigError("stream 'folder:' names no folder. Write folder:PATH, such as folder:photos.")
        side = config.image_size or folder.SIDE
        return split(folder.read(user_path(path), side, config.resize, config.cache, progress), config, seed)
    found = imported("stream", config.name) if config.is_code else _offered(config.name)
    if found is not None:
        return opened(found, config, seed)
    info = next((info for info in _INFOS if info.name == config.name), None)
    if info is None or info.classes is None:
        raise unknown_name("stream", config.name, [info.name for info in available()])
    if config.name in domains.TRANSFORMS:
        return domains.domain_stream(replace(digits.read(), name=config.name), config, seed)
    if config.name == "split-digits":
        source = digits.read()
    else:
        data = OFFICIAL[config.name.removeprefix("split-")]
        limit = Limit(config.limit_per_class, config.limit_order)
        source = read_official(data, data_folder(config.data_dir), limit, progress)
    return split(source, config, seed, info.tasks)
