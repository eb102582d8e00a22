"""What every test needs before torch computes anything."""

import os

# The tests' tensors are too small to share among threads, and idle threads that wait for each other slow everything.
os.environ.setdefault("OMP_NUM_THREADS", "1")
# Some virtual machines announce AMX and then stop the process at its first tile instruction (SIGILL in bf16 layers).
os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_FP16")
