"""A Keras model as a graph of calls: read it, compare it, draw it."""
