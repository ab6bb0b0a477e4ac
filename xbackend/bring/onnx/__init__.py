"""Programs as files of ONNX: a row for each op, in terms of the operators of its standard."""
