"""TensorFlow's engines: its servers with plain sessions, and two of its strategies."""
