"""Readouts: how the network answers, one file each."""
