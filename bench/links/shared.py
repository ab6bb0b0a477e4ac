"""Constants of ranks and predictions."""

MODEL = (512, 256, 512, 10)  # rows, inputs, hidden, classes
GRADIENTS = 4 * MODEL[2] * (MODEL[1] + MODEL[3])  # bytes, in float32
