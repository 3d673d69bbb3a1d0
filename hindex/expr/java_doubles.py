"""Doubles as Java prints them.

Since Java 19, ``Double.toString`` prints the shortest decimal that reads as the double. Older versions print some
doubles with more digits, most of them between 1e16 and 1e23. Spark runs on both.

Source: the documentation of ``java.lang.Double.toString``; https://bugs.openjdk.org/browse/JDK-4511638
"""

from __future__ import annotations

import math
from decimal import Decimal

#: Exponents of doubles that older versions print as integers, with the last digits rounded.
_INTEGERS = range(54, 64)
#: Sums of 64-bit integers overflow, in which older versions count where the divisor fits.
_OVERFLOW = 1 << 63


def java_double(number: float) -> str | None:
    """Return a finite double as all versions of Java print it; None if they differ.

    >>> java_double(1e16), java_double(5e-324), java_double(2e23)
    ('1.0E16', '4.9E-324', None)
    """
    size = abs(number)
    if not size or 1e-3 <= size < 1e7:
        return repr(number)
    decimal = Decimal(repr(number))
    if len(decimal.as_tuple().digits) == 1:
        # Java prints two digits at least: the nearest ones
        decimal = Decimal(f"{number:.1e}")
    if not 1e-7 <= size < 1e16 and _older_decimal(size) != abs(decimal):
        return None
    exponent = decimal.adjusted()
    mantissa = str(decimal.scaleb(-exponent).normalize())
    return f"{mantissa}{'' if '.' in mantissa else '.0'}E{exponent}"


def _older_decimal(number: float) -> Decimal | None:
    """Return the number that Java before 19 prints for one outside of 1e-7 to 1e16; None if that is not certain."""
    fraction, exponent = math.frexp(number)
    if exponent in _INTEGERS:
        return _rounded_integer(int(number), exponent)
    place = Decimal(repr(number)).adjusted()
    # rest / unit is number / 10**place; margin / unit half the distance to the next double, a quarter for powers of 2
    rest, unit = number.as_integer_ratio()
    margin, divisor = math.ulp(number).as_integer_ratio()
    divisor *= 4 if fraction == 0.5 else 2
    rest *= divisor * 10 ** max(-place, 0)
    margin *= unit * 10 ** max(-place, 0)
    unit *= divisor * 10 ** max(place, 0)
    twos = rest | margin | unit
    twos &= -twos
    rest, margin, unit = rest // twos, margin // twos, unit // twos
    digits, rest = divmod(rest, unit)
    is_low = is_high = False
    while not (is_low or is_high):
        digit, rest = divmod(10 * rest, unit)
        digits, margin, place = 10 * digits + digit, 10 * margin, place - 1
        is_low, is_high = rest < margin, rest + margin > unit
        if rest + margin == unit or (10 * unit < _OVERFLOW <= 10 * (rest + max(rest, margin))):
            return None
    if is_high and (not is_low or 2 * rest > unit or (2 * rest == unit and digits % 2)):
        digits += 1
    return Decimal(digits).scaleb(place)


def _rounded_integer(number: int, num_bits: int) -> Decimal:
    """Round the digits that are less than a quarter of the distance to the next double."""
    unit = 10 ** (len(str(1 << max(num_bits - 55, 0))) - 1)
    return Decimal((number + unit // 2) // unit * unit)
