"""What every test needs before torch computes anything."""

import os

# Some virtual machines announce AMX and then stop the process at its first tile instruction (SIGILL in bf16 layers).
os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_FP16")
