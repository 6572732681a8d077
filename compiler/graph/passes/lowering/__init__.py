"""`lower_qdq`, from quantize and dequantize patterns to integer operators, and its rules."""
