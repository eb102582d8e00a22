"""Streams: data sets, cut into tasks that arrive one after another."""

from esacl.streams.arrays import from_arrays
from esacl.streams.base import Examples, Stream, Task
from esacl.streams.catalogue import StreamInfo, absolute, available, open_stream
from esacl.streams.check import Report, check
from esacl.streams.download import get
from esacl.streams.given import as_stream

__all__ = [
    "Examples",
    "Report",
    "Stream",
    "StreamInfo",
    "Task",
    "absolute",
    "as_stream",
    "available",
    "check",
    "from_arrays",
    "get",
    "open_stream",
]
