"""Integer operators of whole rows in numpy: what softmax, norms and attention compute."""
