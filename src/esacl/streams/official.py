"""The official data sets: where they come from, and how a whole copy is recognised."""

from dataclasses import dataclass

from esacl.errors import unknown_name


@dataclass(frozen=True, slots=True)
class Official:
    """One published archive."""

    name: str
    title: str
    archive: str  # file name as downloaded
    folder: str  # the folder it unpacks to
    url: str
    size: int  # bytes
    md5: str  # as published
    sha256: str  # as others pin it, who downloaded the same archive
    classes: int
    train_per_class: int
    test_per_class: int

    @property
    def stream(self) -> str:
        """The stream made of it."""
        return f"split-{self.name}"

    @property
    def places(self) -> tuple[str, ...]:
        """What is looked for in the data folder, in this order; a gzipped tar may also lie there as a plain one."""
        plain = (self.archive.removesuffix(".gz"),) if self.archive.endswith(".gz") else ()
        return (self.folder, self.archive, *plain)


_ALL = (
    Official(
        name="cifar10",
        title="CIFAR-10",
        archive="cifar-10-python.tar.gz",
        folder="cifar-10-batches-py",
        url="https://www.cs.toronto.edu/~kriz/cifar-10-python.tar.gz",
        size=170_498_071,
        md5="c58f30108f718f92721af3b95e74349a",
        sha256="6d958be074577803d12ecdefd02955f39262c83c16fe9348329d7fe0b5c001ce",
        classes=10,
        train_per_class=5000,
        test_per_class=1000,
    ),
    Official(
        name="cifar100",
        title="CIFAR-100",
        archive="cifar-100-python.tar.gz",
        folder="cifar-100-python",
        url="https://www.cs.toronto.edu/~kriz/cifar-100-python.tar.gz",
        size=169_001_437,
        md5="eb9058c3a382ffc7106e4002c42a8d85",
        sha256="85cd44d02ba6437773c5bbd22e183051d648de2e7d6b014e1ef29b855ba677a7",
        classes=100,
        train_per_class=500,
        test_per_class=100,
    ),
    Official(
        name="tinyimagenet",
        title="Tiny-ImageNet",
        archive="tiny-imagenet-200.zip",
        folder="tiny-imagenet-200",
        url="https://cs231n.stanford.edu/tiny-imagenet-200.zip",
        size=248_100_043,
        md5="90528d7ca1a48142e341f4ef8d21d0de",
        sha256="6198c8ae015e2b3e007c7841da39ec069199b9aa3bfa943a462022fe5e43c821",
        classes=200,
        train_per_class=500,
        test_per_class=50,
    ),
)

OFFICIAL: dict[str, Official] = {data.name: data for data in _ALL}


def official(name: str) -> Official:
    """The data set called `name`, or the one that the stream called `name` is made of.

    >>> official("split-cifar10") is official("cifar10")
    True
    """
    found = OFFICIAL.get(name.removeprefix("split-"))
    if found is None:
        raise unknown_name("data set", name, OFFICIAL, "split-digits and folder:PATH need no download.")
    return found
