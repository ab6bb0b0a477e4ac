"""TensorFlow's ways to join processes: its servers and plain sessions, and two of its strategies."""
