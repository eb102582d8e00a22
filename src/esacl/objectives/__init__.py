"""Objectives: what is minimised and what is remembered; one file a method."""
