"""Files of OneFlow's `save`: variables in folders, pickled objects, graphs."""
