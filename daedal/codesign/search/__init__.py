"""Which variants there are, what is known of them, and which to look at next."""
