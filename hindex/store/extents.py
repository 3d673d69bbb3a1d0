"""The extents of a data file's stripes as a manifest keeps them: a list for each of their parts."""

from __future__ import annotations

from collections.abc import Sequence

from hindex.domain import Key
from hindex.index.extent import Extent
from hindex.proto import manifest_pb2 as pb


def encode_extents(extents: Sequence[Extent]) -> pb.StripeExtents:
    """The message of one extent a stripe; long keys are cut."""
    found = pb.StripeExtents(null_counts=[item.null_count for item in extents])
    held = 0
    for item in extents:
        item = item.cut()
        if isinstance(item.min_key, int) and isinstance(item.max_key, int):
            found.int_mins.append(item.min_key)
            found.int_maxs.append(item.max_key)
        elif isinstance(item.min_key, bytes) and isinstance(item.max_key, bytes):
            found.byte_mins.append(item.min_key)
            found.byte_maxs.append(item.max_key)
            if item.max_is_prefix:
                found.cut.append(held)
        held += item.has_values
    return found


def decode_extents(message: pb.StripeExtents, stripe_rows: Sequence[int]) -> tuple[Extent, ...]:
    """The extent of each stripe.

    :param stripe_rows: rows of each stripe.
    :raises ValueError: if the lists contradict each other.
    """
    if len(message.null_counts) != len(stripe_rows):
        raise ValueError(f"extents of {len(message.null_counts)} stripes for a file of {len(stripe_rows)}")
    lows: Sequence[Key] = message.int_mins or message.byte_mins
    highs: Sequence[Key] = message.int_maxs or message.byte_maxs
    filled = sum(nulls < rows for nulls, rows in zip(message.null_counts, stripe_rows, strict=True))
    if not filled == len(lows) == len(highs) or (message.int_mins and message.byte_mins):
        raise ValueError(f"extents of {filled} stripes with values have {len(lows)} keys")
    if message.cut and (message.int_mins or max(message.cut) >= filled):
        raise ValueError("an extent that is cut has no key")
    cut = set(message.cut)
    keys = enumerate(zip(lows, highs, strict=True))
    found = []
    for nulls, rows in zip(message.null_counts, stripe_rows, strict=True):
        if nulls > rows:
            raise ValueError(f"a stripe of {rows} rows has {nulls} null ones")
        if nulls == rows:
            found.append(Extent(rows, nulls, None, None))
            continue
        number, (low, high) = next(keys)
        if low > high:  # type: ignore[operator]
            raise ValueError("the least key of a stripe is above its greatest")
        found.append(Extent(rows, nulls, low, high, number in cut))
    return tuple(found)
