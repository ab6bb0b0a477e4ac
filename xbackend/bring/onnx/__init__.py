"""Programs as files of ONNX: a row for each op, in operators of its standard."""
