"""What keeping freed memory is worth: SGD steps of the small ResNet before and after, in one process.

The allocator cannot be told to forget it again, so the two halves are not in alternation; processor time is counted
instead of wall time, with the part of it that the system spends, and the page faults of a step. Run: make bench
"""

from resource import RUSAGE_SELF, getrusage

import torch
from torch.nn.functional import cross_entropy

from esacl.allocator import keep_freed_memory
from esacl.nets import build_model

SHAPE, BATCH, CLASSES, STEPS = (3, 32, 32), 64, 10, 60


def main() -> None:
    torch.set_num_threads(1)
    model = build_model("resnet10", 16, SHAPE, CLASSES, seed=0)
    x, y = torch.randn(BATCH, *SHAPE), torch.randint(0, CLASSES, (BATCH,))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)

    def steps(count: int) -> tuple[float, float, float]:
        """Milliseconds of a step, those of the system among them, and its page faults."""
        before = getrusage(RUSAGE_SELF)
        for _ in range(count):
            optimizer.zero_grad(set_to_none=True)
            cross_entropy(model(x).logits, y).backward()
            optimizer.step()
        after = getrusage(RUSAGE_SELF)
        system = after.ru_stime - before.ru_stime
        total = after.ru_utime - before.ru_utime + system
        return 1e3 * total / count, 1e3 * system / count, (after.ru_minflt - before.ru_minflt) / count

    steps(5)
    plain = steps(STEPS)
    if not keep_freed_memory():
        raise SystemExit("the C library of this system is not glibc, or has settings of its own: nothing to compare.")
    steps(5)
    kept = steps(STEPS)
    print(f"SGD step of resnet10, batch {BATCH}, 1 thread: memory mapped anew → kept")
    for what, a, b in zip(("processor time, ms", "  of the system, ms", "page faults"), plain, kept):
        print(f"  {what:20} {a:8.1f} → {b:8.1f}   {b / a:.2f}")


if __name__ == "__main__":
    main()
