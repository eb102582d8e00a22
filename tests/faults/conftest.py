"""Cases need Linux: processes are forked, limited and looked into as only there."""

import sys

collect_ignore_glob = [] if sys.platform == "linux" else ["test_*.py"]
