"""Reference loops: what the published algorithms do, in plain torch, with nothing of this library."""
