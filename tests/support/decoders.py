"""The decoder of examples/decoder, as tests take it."""

from examples.decoder.small_decoder import SmallDecoder, feed_caches

__all__ = ["SmallDecoder", "feed_caches"]
