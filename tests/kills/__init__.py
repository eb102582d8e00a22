"""Kill training at random moments, go on, and compare with training that nobody killed: `python -m tests.kills`."""
