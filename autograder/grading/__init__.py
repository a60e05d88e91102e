"""Grades submissions on nbgrader's converters and gradebook. Nothing here imports TensorFlow."""
