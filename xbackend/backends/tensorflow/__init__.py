"""TensorFlow: graphs, graphs compiled by XLA, and op by op."""
