"""The same function in the form that quantizes best: rewrites of a float network, exact."""
