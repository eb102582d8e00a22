"""Bad input does no harm: thousands of damaged files, arguments and environments, each judged by one oracle.

A case is a kind and a seed. The seed decides how a valid specimen is damaged and what is then done with it, so that
`python -m tests.faults KIND SEED` repeats a case exactly and tells what was damaged and what came of it.
"""
