"""What the tests of a plugin look like."""

from esacl_anchor import ANCHOR, TINY, stripes

from esacl.config import StreamConfig
from esacl.testing import check_backbone, check_method, check_stream

check_method(ANCHOR)
check_stream(stripes(StreamConfig("stripes"), seed=0))
check_backbone(TINY, shape=(1, 8, 8))
print("all checks passed")
