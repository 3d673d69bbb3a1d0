# cython: language_level=3, boundscheck=True, wraparound=False, initializedcheck=False, cdivision=True
"""The compiled code: ORC streams, from their chunks to the values at selected positions, and leaf pages to rows.

It takes buffers and fills buffers. It knows no files, no schemas and no Arrow classes, holds no global state, and
releases the interpreter's lock. Callers allocate the outputs. It calls zstd at the addresses that it is given, so that
two threads wait for each other once a stream and not once a chunk; other codecs are functions of Python.

A stream is decoded in *segments*: byte ranges ``starts[s]`` to ``limits[s]`` of ``data`` that each begin at a run.
``skips[s]`` values there belong to earlier row groups. The outputs of segment s are numbers ``bounds[s]`` to
``bounds[s + 1]``; ``positions`` are the numbers of these values within the segment after the skipped ones, ascending
and each once (others end the stream). Without positions (None) they are the first ones. Source: ORC specification v1.

Each function that reads what a file says returns 0, or a code and the byte of ``data`` it concerns, as
``byte << 8 | code``: see ERRORS. Functions that return a number say what they return instead. A ValueError is a
mistake of the caller: arrays whose lengths do not fit each other. Arithmetic on values wraps at 64 bits, as the
writers' does. No byte outside a segment is read.

kernel.pyi has the types; all arrays are contiguous. S is the number of segments, N that of outputs, ``bounds[S]``.
"""

from libc.stdint cimport int8_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcmp, memcpy, memset

cpdef enum:
    STREAM_ENDS = 1
    LONG_VARINT = 2
    BAD_PATCHES = 3
    BAD_SEGMENT = 4
    BAD_LENGTH = 5
    BAD_CHUNK = 6
    BAD_FRAME = 7
    BAD_ORDER = 8
    BAD_ROW = 9
    BAD_BLOCK = 10
    BAD_LEAF = 11
    BAD_KEYS = 12
    BAD_COUNTS = 13
    BAD_POINTERS = 14
    BAD_CONTENT = 15
    SHORT_CONTENT = 16
    BAD_BLOCK_SIZE = 17
    INSIDE_CHUNK = 18
    BEYOND_CHUNK = 19

#: Codecs whose chunks record the size of their content, by the numbers of the specification.
cpdef enum:
    SNAPPY = 2
    ZSTD = 5

#: What each code says.
ERRORS = {
    STREAM_ENDS: "the stream ends before the last selected value",
    LONG_VARINT: "a varint has too many bytes",
    BAD_PATCHES: "a patched run has an impossible patch list",
    BAD_SEGMENT: "a position lies outside the stream",
    BAD_LENGTH: "a length is negative, or larger than the stream",
    BAD_CHUNK: "it runs past the end of its stream",
    BAD_FRAME: "it is not a single zstd frame",
    BAD_ORDER: "its keys are not in order",
    BAD_ROW: "a row lies outside the stripe",
    BAD_BLOCK: "its block headers contradict it",
    BAD_LEAF: "its header contradicts its blocks or its directory entry",
    BAD_KEYS: "the bytes of its keys are not those that it claims",
    BAD_COUNTS: "its counts do not add up",
    BAD_POINTERS: "its pointers are not in order",
    BAD_CONTENT: "zstd cannot decompress its frame",
    SHORT_CONTENT: "its content is shorter than it says",
    BAD_BLOCK_SIZE: "it does not begin with its size",
    INSIDE_CHUNK: "a position points into the middle of a chunk",
    BEYOND_CHUNK: "a position points past the end of a chunk",
}

cdef extern from *:
    """
    #include <stdint.h>
    #include <string.h>

    static inline uint64_t hindex_load(const uint8_t *p) {
        return (uint64_t)p[0] << 56 | (uint64_t)p[1] << 48 | (uint64_t)p[2] << 40 | (uint64_t)p[3] << 32
             | (uint64_t)p[4] << 24 | (uint64_t)p[5] << 16 | (uint64_t)p[6] << 8 | (uint64_t)p[7];
    }
    /* bytes that end a varint, as the top bits of a word whose lowest byte is the first */
    static inline uint64_t hindex_ends(const uint8_t *p) {
        uint64_t v = (uint64_t)p[7] << 56 | (uint64_t)p[6] << 48 | (uint64_t)p[5] << 40 | (uint64_t)p[4] << 32
             | (uint64_t)p[3] << 24 | (uint64_t)p[2] << 16 | (uint64_t)p[1] << 8 | (uint64_t)p[0];
        return ~v & 0x8080808080808080ull;
    }
    /* of top bits; without an instruction for it, the compiler's popcount calls a function */
    static inline int hindex_count(uint64_t ends) { return (int)((ends >> 7) * 0x0101010101010101ull >> 56); }
    static inline int hindex_first(uint64_t v) { return __builtin_ctzll(v) >> 3; }
    /* the value of a varint of size bytes, 1 to 8 */
    static inline uint64_t hindex_fold(const uint8_t *p, int size) {
        uint64_t v = (uint64_t)p[7] << 56 | (uint64_t)p[6] << 48 | (uint64_t)p[5] << 40 | (uint64_t)p[4] << 32
             | (uint64_t)p[3] << 24 | (uint64_t)p[2] << 16 | (uint64_t)p[1] << 8 | (uint64_t)p[0];
        v &= 0x7f7f7f7f7f7f7f7full >> (64 - 8 * size);
        v = (v & 0x007f007f007f007full) | (v & 0x7f007f007f007f00ull) >> 1;
        v = (v & 0x00003fff00003fffull) | (v & 0x3fff00003fff0000ull) >> 2;
        return (v & 0x000000000fffffffull) | (v & 0x0fffffff00000000ull) >> 4;
    }
    static const uint8_t HINDEX_WIDTHS[32] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16,
        17, 18, 19, 20, 21, 22, 23, 24, 26, 28, 30, 32, 40, 48, 56, 64};
    /* no position in a file is so large: with a code behind it, it fits 64 bits, and sums of a few do */
    static const int64_t HINDEX_MAX_OFFSET = (int64_t)1 << 54;
    """
    uint64_t hindex_load(const uint8_t *p) noexcept nogil
    uint64_t hindex_ends(const uint8_t *p) noexcept nogil
    int hindex_count(uint64_t ends) noexcept nogil
    int hindex_first(uint64_t v) noexcept nogil
    uint64_t hindex_fold(const uint8_t *p, int size) noexcept nogil
    const uint8_t HINDEX_WIDTHS[32]
    const int64_t HINDEX_MAX_OFFSET


ctypedef struct Input:
    # the bytes that are left of a segment
    const uint8_t *at
    const uint8_t *end


ctypedef struct Wanted:
    # the values of a segment that are still to be produced: numbers `next` to `last` of the output;
    # number k is position[k] + skip of the segment, or skip + k - first where there are no positions
    const int64_t *position
    int64_t skip
    int64_t first
    int64_t next
    int64_t last


cdef inline int64_t _index(const Wanted *wanted, int64_t k) noexcept nogil:
    """Number of an output's value within its segment; negative where it is too large."""
    if wanted.position != NULL:
        return <int64_t>(<uint64_t>wanted.skip + <uint64_t>wanted.position[k])
    return wanted.skip + k - wanted.first


cdef inline int64_t _end_in_run(const Wanted *wanted, int64_t run_first, int64_t count) noexcept nogil:
    """End of the outputs that lie in a run of `count` values that begins with number `run_first`."""
    cdef int64_t k = wanted.next
    cdef int64_t end
    cdef uint64_t offset, least = 0
    if wanted.position == NULL:
        end = wanted.first + run_first + count - wanted.skip
        if end < k:
            return k
        return end if end < wanted.last else wanted.last
    # a position that does not ascend is left to later runs, which do not reach it: the stream ends before it
    while k < wanted.last:
        offset = <uint64_t>_index(wanted, k) - <uint64_t>run_first
        if offset < least or offset >= <uint64_t>count:
            break
        least = offset + 1
        k += 1
    return k


cdef inline int _varint(Input *input, uint64_t *value) noexcept nogil:
    """Read a varint of at most ten bytes."""
    cdef uint64_t result = 0
    cdef int shift = 0
    cdef uint8_t byte
    while input.at < input.end:
        byte = input.at[0]
        input.at += 1
        if shift > 63:
            return LONG_VARINT
        result |= <uint64_t>(byte & 127) << shift
        if byte < 128:
            value[0] = result
            return 0
        shift += 7
    return STREAM_ENDS


cdef inline uint64_t _unzigzag(uint64_t value) noexcept nogil:
    return (value >> 1) ^ (~(value & 1) + 1)


cdef inline uint64_t _big_endian(const uint8_t *at, int count) noexcept nogil:
    cdef uint64_t value = 0
    cdef int i
    for i in range(count):
        value = value << 8 | at[i]
    return value


cdef inline uint64_t _bits(const Input *input, uint64_t bit, int width) noexcept nogil:
    """Read a packed value that lies in the segment (_holds); none of the format's widths takes nine bytes."""
    cdef const uint8_t *at = input.at + (bit >> 3)
    cdef int shift = bit & 7
    cdef int64_t left = input.end - at
    cdef uint64_t word
    if left >= 8:
        word = hindex_load(at)
    else:
        word = _big_endian(at, <int>left) << (8 * (8 - left))
    return (word << shift) >> (64 - width)


cdef inline int _holds(const Input *input, int64_t values, int width) noexcept nogil:
    """True if the first packed values lie in the segment."""
    return (values * width + 7) >> 3 <= input.end - input.at


cdef inline void _skip(Input *input, int64_t values, int width) noexcept nogil:
    cdef int64_t size = (values * width + 7) >> 3
    input.at = input.at + size if size < input.end - input.at else input.end


cdef int _unpack(
    const Input *input, const Wanted *wanted, int64_t run_first, int64_t end, int width, bint is_signed, int64_t *out
) noexcept nogil:
    """Fill outputs `wanted.next` to `end` with packed values."""
    cdef int64_t k, first, safe
    cdef uint64_t value, bit
    cdef const uint8_t *at = input.at
    if not _holds(input, _index(wanted, end - 1) - run_first + 1, width):
        return STREAM_ENDS
    k = wanted.next
    if wanted.position == NULL:
        first = _index(wanted, k) - run_first
        if width == 8 and not is_signed:
            # most lengths, in a loop that compilers vectorize
            for k in range(wanted.next, end):
                out[k] = at[first + k - wanted.next]
            return 0
        bit = <uint64_t>first * width
        # values of which the eight bytes from their first one on lie in the segment
        safe = (input.end - at - 8) * 8 // width if input.end - at >= 8 else 0
        safe = k + safe - first
        if safe > end:
            safe = end
        if is_signed:
            while k < safe:
                value = (hindex_load(at + (bit >> 3)) << (bit & 7)) >> (64 - width)
                out[k] = <int64_t>_unzigzag(value)
                bit += width
                k += 1
        else:
            while k < safe:
                out[k] = <int64_t>((hindex_load(at + (bit >> 3)) << (bit & 7)) >> (64 - width))
                bit += width
                k += 1
    while k < end:
        value = _bits(input, <uint64_t>(_index(wanted, k) - run_first) * width, width)
        out[k] = <int64_t>(_unzigzag(value) if is_signed else value)
        k += 1
    return 0


cdef int _delta(
    Input *input, const Wanted *wanted, int64_t run_first, int64_t end, int64_t count, int width, bint is_signed,
    int64_t *out,
) noexcept nogil:
    cdef uint64_t base = 0, step = 0, value, size
    cdef int64_t k = wanted.next, index, reached, last
    cdef bint is_down
    cdef int code = _varint(input, &base)
    if code == 0:
        code = _varint(input, &step)
    if code != 0:
        return code
    if is_signed:
        base = _unzigzag(base)
    step = _unzigzag(step)
    is_down = <int64_t>step < 0
    if k < end:
        last = _index(wanted, end - 1) - run_first
        if width == 0:
            while k < end:
                out[k] = <int64_t>(base + step * <uint64_t>(_index(wanted, k) - run_first))
                k += 1
        else:
            if last > 1 and not _holds(input, last - 1, width):
                return STREAM_ENDS
            value, reached = base, 0
            while k < end:
                index = _index(wanted, k) - run_first
                while reached < index:
                    if reached == 0:
                        value += step
                    else:
                        size = _bits(input, <uint64_t>(reached - 1) * width, width)
                        value = value - size if is_down else value + size
                    reached += 1
                out[k] = <int64_t>value
                k += 1
    if width and count > 2:
        _skip(input, count - 2, width)
    return 0


cdef int _patched(
    Input *input, const Wanted *wanted, int64_t run_first, int64_t end, int64_t count, int width, int64_t *out
) noexcept nogil:
    cdef int base_size, patch_width, gap_width, patches, entry_width = 64, i, code
    cdef uint64_t base, sign, entry, patch
    cdef int64_t k, hit, place = 0, previous = -1, gap
    cdef Input entries
    if input.end - input.at < 2:
        return STREAM_ENDS
    base_size = (input.at[0] >> 5) + 1
    patch_width = HINDEX_WIDTHS[input.at[0] & 31]
    gap_width = (input.at[1] >> 5) + 1
    patches = input.at[1] & 31
    input.at += 2
    if patch_width + gap_width > 64 or patches == 0:
        return BAD_PATCHES
    for i in range(32):
        if HINDEX_WIDTHS[i] >= patch_width + gap_width:
            entry_width = HINDEX_WIDTHS[i]
            break
    if input.end - input.at < base_size:
        return STREAM_ENDS
    base = _big_endian(input.at, base_size)
    input.at += base_size
    sign = <uint64_t>1 << (8 * base_size - 1)
    if base & sign:
        base = ~(base & ~sign) + 1
    if wanted.next < end:
        code = _unpack(input, wanted, run_first, end, width, False, out)
        if code != 0:
            return code
    entries = input[0]
    _skip(&entries, count, width)
    if wanted.next < end:
        if not _holds(&entries, patches, entry_width):
            return STREAM_ENDS
        hit = wanted.next
        for i in range(patches):
            entry = _bits(&entries, <uint64_t>i * entry_width, entry_width)
            patch = entry & ((<uint64_t>1 << patch_width) - 1)
            gap = <int64_t>((entry >> patch_width) & ((<uint64_t>1 << gap_width) - 1))
            place += gap
            if patch == 0 and gap == 255:
                continue  # it only leads on to the next entry
            if place == previous:
                break  # as Java's reader: neither this entry nor a later one is reached
            previous = place
            while hit < end and _index(wanted, hit) - run_first < place:
                hit += 1
            k = hit
            if k < end and _index(wanted, k) - run_first == place:
                out[k] = <int64_t>(<uint64_t>out[k] | patch << (width & 63))
        for k in range(wanted.next, end):
            out[k] = <int64_t>(<uint64_t>out[k] + base)
    input.at = entries.at
    _skip(input, patches, entry_width)
    return 0


cdef inline void _skip_runs(Input *input, const Wanted *wanted, int64_t *run_first) noexcept nogil:
    """Go behind runs of two encodings without a wanted value: decode_integers takes a fifth less for few values."""
    cdef const uint8_t *at = input.at
    cdef int64_t first = run_first[0], until = _index(wanted, wanted.next), count, size
    while input.end - at >= 2:
        if at[0] < 64:
            count = (at[0] & 7) + 3
            size = (at[0] >> 3) + 2
        elif at[0] < 128:
            count = (<int64_t>(at[0] & 1) << 8 | at[1]) + 1
            size = ((count * HINDEX_WIDTHS[at[0] >> 1 & 31] + 7) >> 3) + 2
        else:
            break
        if first + count > until or size > input.end - at:
            break
        first += count
        at += size
    input.at, run_first[0] = at, first


cdef int _run_v2(Input *input, Wanted *wanted, int64_t *run_first, bint is_signed, int64_t *out) noexcept nogil:
    """Decode the run at `input`, and go behind it."""
    cdef int encoding = input.at[0] >> 6
    cdef int width, code = 0
    cdef int64_t count, end
    cdef uint64_t value
    if encoding == 0:
        width = (input.at[0] >> 3 & 7) + 1
        count = (input.at[0] & 7) + 3
        input.at += 1
        if input.end - input.at < width:
            return STREAM_ENDS
        end = _end_in_run(wanted, run_first[0], count)
        if wanted.next < end:
            value = _big_endian(input.at, width)
            if is_signed:
                value = _unzigzag(value)
            while wanted.next < end:
                out[wanted.next] = <int64_t>value
                wanted.next += 1
        input.at += width
        run_first[0] += count
        return 0
    if input.end - input.at < 2:
        return STREAM_ENDS
    width = HINDEX_WIDTHS[input.at[0] >> 1 & 31]
    if encoding == 3 and input.at[0] >> 1 & 31 == 0:
        width = 0
    count = ((input.at[0] & 1) << 8 | input.at[1]) + 1
    input.at += 2
    end = _end_in_run(wanted, run_first[0], count)
    if encoding == 1:
        if wanted.next < end:
            code = _unpack(input, wanted, run_first[0], end, width, is_signed, out)
        _skip(input, count, width)
    elif encoding == 2:
        code = _patched(input, wanted, run_first[0], end, count, width, out)
    else:
        code = _delta(input, wanted, run_first[0], end, count, width, is_signed, out)
    wanted.next = end
    run_first[0] += count
    return code


cdef int _run_v1(Input *input, Wanted *wanted, int64_t *run_first, bint is_signed, int64_t *out) noexcept nogil:
    """Decode the run at `input`, and go behind it or, if it has the last value, behind that."""
    cdef int control = input.at[0], code
    cdef int64_t count, end, index
    cdef uint64_t value = 0, step
    input.at += 1
    if control < 128:
        count = control + 3
        if input.at == input.end:
            return STREAM_ENDS
        step = <uint64_t><int64_t><int8_t>input.at[0]
        input.at += 1
        code = _varint(input, &value)
        if code != 0:
            return code
        if is_signed:
            value = _unzigzag(value)
        end = _end_in_run(wanted, run_first[0], count)
        while wanted.next < end:
            out[wanted.next] = <int64_t>(value + step * <uint64_t>(_index(wanted, wanted.next) - run_first[0]))
            wanted.next += 1
    else:
        count = 256 - control
        end = _end_in_run(wanted, run_first[0], count)
        index = run_first[0]
        while index < run_first[0] + count:
            code = _varint(input, &value)
            if code != 0:
                return code
            if wanted.next < end and _index(wanted, wanted.next) == index:
                out[wanted.next] = <int64_t>(_unzigzag(value) if is_signed else value)
                wanted.next += 1
                if wanted.next == wanted.last:
                    return 0
            index += 1
    run_first[0] += count
    return 0


cdef int _run_bytes(Input *input, Wanted *wanted, int64_t *run_first, uint8_t *out) noexcept nogil:
    """The same for run-length encoded bytes."""
    cdef int control = input.at[0]
    cdef int64_t count, end, size
    input.at += 1
    if control < 128:
        count = control + 3
        if input.at == input.end:
            return STREAM_ENDS
        end = _end_in_run(wanted, run_first[0], count)
        memset(out + wanted.next, input.at[0], end - wanted.next)
        wanted.next = end
        input.at += 1
    else:
        count = 256 - control
        end = _end_in_run(wanted, run_first[0], count)
        if wanted.next < end:
            if _index(wanted, end - 1) - run_first[0] >= input.end - input.at:
                return STREAM_ENDS
            if wanted.position == NULL:
                size = end - wanted.next
                memcpy(out + wanted.next, input.at + (_index(wanted, wanted.next) - run_first[0]), size)
                wanted.next = end
            while wanted.next < end:
                out[wanted.next] = input.at[_index(wanted, wanted.next) - run_first[0]]
                wanted.next += 1
        _skip(input, count, 8)
    run_first[0] += count
    return 0


cdef inline int _long_varint(Input *input, uint64_t *low, uint64_t *high) noexcept nogil:
    """Read a zigzag varint of at most 128 bits, as two's complement."""
    cdef uint64_t first = 0, second = 0, bits, sign, ends
    cdef int shift = 0, size
    cdef uint8_t byte
    if input.end - input.at >= 8:
        ends = hindex_ends(input.at)
        if ends:
            size = hindex_first(ends) + 1
            first = hindex_fold(input.at, size)
            input.at += size
            low[0] = _unzigzag(first)
            high[0] = ~(first & 1) + 1
            return 0
    while input.at < input.end:
        byte = input.at[0]
        input.at += 1
        bits = byte & 127
        if shift > 126 or (shift == 126 and bits > 3):
            return LONG_VARINT
        if shift < 63:
            first |= bits << shift
        elif shift == 63:
            first |= bits << 63
            second |= bits >> 1
        else:
            second |= bits << (shift - 64)
        if byte < 128:
            sign = ~(first & 1) + 1
            low[0] = (first >> 1 | second << 63) ^ sign
            high[0] = (second >> 1) ^ sign
            return 0
        shift += 7
    return STREAM_ENDS


cdef inline bint _skip_varints(Input *input, int64_t count) noexcept nogil:
    """Go behind some varints; False if there are fewer."""
    cdef uint64_t ends
    cdef int size
    while count:
        if input.end - input.at < 8:
            if input.at == input.end:
                return False
            count -= input.at[0] < 128
            input.at += 1
            continue
        ends = hindex_ends(input.at)
        size = hindex_count(ends)
        if size < count:
            count -= size
            input.at += 8
            continue
        while count > 1:
            ends &= ends - 1
            count -= 1
        input.at += hindex_first(ends) + 1
        count = 0
    return True


cdef inline int _seek_varint(Input *input, const Wanted *wanted, int64_t *run_first) noexcept nogil:
    """Go to the next selected varint; one that does not ascend is not reached."""
    cdef int64_t selected = _index(wanted, wanted.next)
    if selected < run_first[0] or not _skip_varints(input, selected - run_first[0]):
        return STREAM_ENDS
    run_first[0] = selected
    return 0


ctypedef struct Segments:
    const uint8_t *data
    int64_t size
    int64_t count
    const int64_t *starts
    const int64_t *limits
    const int64_t *skips
    const int64_t *bounds
    const int64_t *positions
    int64_t outputs


cdef inline const int64_t *_numbers(const int64_t[::1] array) noexcept:
    return &array[0] if array.shape[0] else NULL


cdef int _segments(
    Segments *segments,
    const uint8_t[::1] data,
    const int64_t[::1] starts,
    const int64_t[::1] limits,
    const int64_t[::1] skips,
    const int64_t[::1] bounds,
    const int64_t[::1] positions,
    int64_t outputs,
    int64_t[:, ::1] stops,
) except -1:
    """Check that the arrays fit each other: the caller's mistakes, not the file's.

    Raises:
        ValueError: if they do not.
    """
    cdef int64_t count = starts.shape[0], s
    segments.data = &data[0] if data.shape[0] else NULL
    segments.size = data.shape[0]
    segments.count = count
    if limits.shape[0] != count or bounds.shape[0] != count + 1 or (skips is not None and skips.shape[0] != count):
        raise ValueError("segments need as many starts, limits and skips, and one more bound")
    segments.starts = _numbers(starts)
    segments.limits = _numbers(limits)
    segments.bounds = _numbers(bounds)
    segments.skips = segments.positions = NULL
    if skips is not None:
        segments.skips = _numbers(skips)
    if positions is not None:
        segments.positions = _numbers(positions)
    segments.outputs = bounds[count]
    if bounds[0] != 0 or outputs < bounds[count] or (positions is not None and positions.shape[0] < bounds[count]):
        raise ValueError("the bounds do not fit the positions or the output")
    for s in range(count):
        if bounds[s] > bounds[s + 1]:
            raise ValueError("the bounds descend")
    if stops is not None and (stops.shape[0] != count or stops.shape[1] != 2):
        raise ValueError("there are two numbers for each segment's stop")
    return 0


cdef inline int _open(const Segments *segments, int64_t s, Input *input, Wanted *wanted) noexcept nogil:
    """Begin a segment."""
    if not 0 <= segments.starts[s] <= segments.limits[s] <= segments.size:
        return BAD_SEGMENT
    input.at = segments.data + segments.starts[s]
    input.end = segments.data + segments.limits[s]
    wanted.position = segments.positions
    wanted.skip = segments.skips[s] if segments.skips != NULL else 0
    wanted.first = wanted.next = segments.bounds[s]
    wanted.last = segments.bounds[s + 1]
    # no stream has so many values that their numbers could wrap
    if not 0 <= wanted.skip < (<int64_t>1 << 62):
        return BAD_SEGMENT
    if wanted.position != NULL and wanted.next < wanted.last and wanted.position[wanted.next] < 0:
        return BAD_SEGMENT
    return 0


cdef inline int64_t _error(int code, int64_t byte) noexcept nogil:
    return byte << 8 | code


cdef inline void _stop(
    const Segments *segments, const Wanted *wanted, int64_t s, int64_t run, int64_t run_first, int64_t *stop
) noexcept nogil:
    """Tell where a segment's last output ends; a segment without outputs where it begins."""
    if wanted.first == wanted.last:
        stop[0] = segments.starts[s]
        stop[1] = wanted.skip
    else:
        stop[0] = run
        stop[1] = _index(wanted, wanted.last - 1) + 1 - run_first


cdef enum:
    _BYTES = 0
    _V1 = 1
    _V2 = 2
    _VARINTS = 3


cdef int64_t _decode_runs(
    const Segments *segments, int encoding, bint is_signed, void *out, int64_t[:, ::1] stops
) noexcept nogil:
    """Decode the outputs of segments: bytes, integers of 64 bits, or varints to two words each."""
    cdef Input input
    cdef Wanted wanted
    cdef int64_t s, run_first, run = 0, first = 0
    cdef int code
    for s in range(segments.count):
        code = _open(segments, s, &input, &wanted)
        run_first = 0
        while code == 0 and wanted.next < wanted.last:
            if encoding == _V2 and wanted.position != NULL:
                _skip_runs(&input, &wanted, &run_first)
            elif encoding == _VARINTS:
                code = _seek_varint(&input, &wanted, &run_first)
            run, first = input.at - segments.data, run_first
            if code != 0 or input.at >= input.end:
                code = STREAM_ENDS
            elif encoding == _V2:
                code = _run_v2(&input, &wanted, &run_first, is_signed, <int64_t *>out)
            elif encoding == _V1:
                code = _run_v1(&input, &wanted, &run_first, is_signed, <int64_t *>out)
            elif encoding == _BYTES:
                code = _run_bytes(&input, &wanted, &run_first, <uint8_t *>out)
            else:
                # each is a run of its own
                code = _long_varint(
                    &input, <uint64_t *>out + 2 * wanted.next, <uint64_t *>out + 2 * wanted.next + 1
                )
                wanted.next += 1
                run_first += 1
        if code != 0:
            return _error(code, 0 if code == BAD_SEGMENT else input.at - segments.data)
        if stops is not None:
            _stop(segments, &wanted, s, run, first, &stops[s, 0])
    return 0


def decode_integers(
    const uint8_t[::1] data,
    const int64_t[::1] starts,
    const int64_t[::1] limits,
    const int64_t[::1] skips,
    const int64_t[::1] bounds,
    const int64_t[::1] positions,
    int64_t[::1] out,
    bint is_v2,
    bint is_signed,
    int64_t[:, ::1] stops=None,
):
    """Decode run-length encoded integers, of version 1 or 2.

    Args:
        data: uint8, the stream or streams.
        starts: int64[S], and ``limits``, int64[S]: the segments' bytes.
        skips: int64[S], or None for zeros.
        bounds: int64[S + 1], the first one 0.
        positions: int64[N] or None.
        out: int64[N] or longer.
        is_v2: the version.
        is_signed: values are zigzag encoded. Of patched runs, the base has a sign in any case.
        stops: int64[S, 2] or None, gets where each segment's last output ends: the byte at which its run begins, and
            how many values of the run lie before or at it.
    """
    cdef Segments segments
    cdef int64_t result
    cdef int64_t *target = &out[0] if out.shape[0] else NULL
    _segments(&segments, data, starts, limits, skips, bounds, positions, out.shape[0], stops)
    with nogil:
        result = _decode_runs(&segments, _V2 if is_v2 else _V1, is_signed, target, stops)
    return result


def decode_bytes(
    const uint8_t[::1] data,
    const int64_t[::1] starts,
    const int64_t[::1] limits,
    const int64_t[::1] skips,
    const int64_t[::1] bounds,
    const int64_t[::1] positions,
    uint8_t[::1] out,
    int64_t[:, ::1] stops=None,
):
    """Decode run-length encoded bytes, with which booleans begin; parameters as of decode_integers, and uint8 outputs.
    """
    cdef Segments segments
    cdef int64_t result
    cdef uint8_t *target = &out[0] if out.shape[0] else NULL
    _segments(&segments, data, starts, limits, skips, bounds, positions, out.shape[0], stops)
    with nogil:
        result = _decode_runs(&segments, _BYTES, False, target, stops)
    return result


def decode_decimals(
    const uint8_t[::1] data,
    const int64_t[::1] starts,
    const int64_t[::1] limits,
    const int64_t[::1] skips,
    const int64_t[::1] bounds,
    const int64_t[::1] positions,
    int64_t[:, ::1] out,
    int64_t[:, ::1] stops=None,
):
    """Decode zigzag varints of up to 128 bits, each a run of its own; parameters as of decode_integers.

    Args:
        out: int64[N, 2], two's complement, the low word first.
    """
    cdef Segments segments
    cdef int64_t result
    cdef int64_t *target = &out[0, 0] if out.shape[0] else NULL
    _segments(&segments, data, starts, limits, skips, bounds, positions, out.shape[0], stops)
    if out.shape[1] != 2:
        raise ValueError("a decimal has two words")
    with nogil:
        result = _decode_runs(&segments, _VARINTS, True, target, stops)
    return result


cdef extern from *:
    """
    static inline int64_t hindex_count_bits(const uint8_t *packed, int64_t begin, int64_t end) {
        int64_t count = 0;
        while (begin < end && (begin & 7)) { count += packed[begin >> 3] >> (7 - (begin & 7)) & 1; begin++; }
        while (end - begin >= 64) {
            uint64_t v; memcpy(&v, packed + (begin >> 3), 8); count += __builtin_popcountll(v); begin += 64;
        }
        while (end - begin >= 8) { count += __builtin_popcount(packed[begin >> 3]); begin += 8; }
        if (begin < end) count += __builtin_popcount(packed[begin >> 3] >> (8 - (end - begin)));
        return count;
    }
    """
    # counts the bits set from number `begin` to `end`, the most significant bit of a byte first
    int64_t _count_bits "hindex_count_bits"(const uint8_t *packed, int64_t begin, int64_t end) noexcept nogil


cdef inline int _open_byte_run(Input *input, const uint8_t **at, int64_t *size, int64_t *held, uint8_t *same) noexcept nogil:
    """Begin a run of bytes: where its values are, their number, and how many of them the stream has.

    Args:
        same: room for 130 bytes, the longest run of one value.
    """
    cdef int control = input.at[0]
    input.at += 1
    if control < 128:
        size[0] = held[0] = control + 3
        if input.at == input.end:
            return STREAM_ENDS
        memset(same, input.at[0], control + 3)
        at[0] = same
        input.at += 1
    else:
        size[0] = 256 - control
        held[0] = min(size[0], input.end - input.at)
        at[0] = input.at
        input.at += held[0]
    return 0


def decode_bits(
    const uint8_t[::1] data,
    const int64_t[::1] starts,
    const int64_t[::1] limits,
    const int64_t[::1] skips,
    const int64_t[::1] bounds,
    const int64_t[::1] positions,
    uint8_t[::1] bits,
    int64_t[::1] ranks,
    int64_t[::1] set_bounds,
    int64_t[:, ::1] stops=None,
):
    """Decode booleans: run-length encoded bytes, the most significant bit of a byte first.

    Args:
        data: and the others up to positions as of decode_integers; values are bits.
        bits: uint8[N] or longer, gets 0 or 1 for each.
        ranks: None, or int64[N] or longer: gets, for each selected bit that is set, the number of bits set before it in
            its segment. Of a PRESENT stream these are the positions of the values.
        set_bounds: int64[S + 1], gets the bounds of the segments' selected bits that are set, and so of their ranks.
        stops: as of decode_integers, in bits.
    """
    cdef Segments segments
    cdef Input input
    cdef Wanted wanted
    cdef const uint8_t *at = NULL
    cdef uint8_t same[130]
    cdef int64_t s, index, end, run, first, set_bits = 0, rank, passed, run_first, size = 0, held = 0, result = 0
    cdef bint is_ranked = ranks is not None
    cdef uint8_t value
    cdef int code
    _segments(&segments, data, starts, limits, skips, bounds, positions, bits.shape[0], stops)
    if set_bounds.shape[0] != segments.count + 1 or (is_ranked and ranks.shape[0] < bounds[segments.count]):
        raise ValueError("the bounds do not fit the output")
    with nogil:
        for s in range(segments.count):
            set_bounds[s] = set_bits
            code = _open(&segments, s, &input, &wanted)
            # bits from the first that is not skipped up to `passed` are counted
            rank, passed, run_first, run, first = 0, wanted.skip, 0, 0, 0
            while code == 0 and wanted.next < wanted.last:
                run, first = input.at - segments.data, run_first
                code = STREAM_ENDS if input.at >= input.end else _open_byte_run(&input, &at, &size, &held, same)
                if code != 0:
                    break
                end = _end_in_run(&wanted, run_first, 8 * size)
                while wanted.next < end:
                    index = _index(&wanted, wanted.next)
                    if index - run_first >= 8 * held:
                        code = STREAM_ENDS
                        break
                    value = at[(index - run_first) >> 3] >> (7 - ((index - run_first) & 7)) & 1
                    bits[wanted.next] = value
                    if value:
                        if is_ranked:
                            rank += _count_bits(at, passed - run_first, index - run_first)
                            passed = index
                            ranks[set_bits] = rank
                        set_bits += 1
                    wanted.next += 1
                run_first += 8 * size
                if is_ranked and code == 0 and passed < run_first and wanted.next < wanted.last:
                    rank += _count_bits(at, passed - first, 8 * held)
                    passed = run_first
            if code != 0:
                result = _error(code, 0 if code == BAD_SEGMENT else input.at - segments.data)
                break
            if stops is not None:
                _stop(&segments, &wanted, s, run, first, &stops[s, 0])
        set_bounds[segments.count] = set_bits
    return result


def decode_tags(
    const uint8_t[::1] data,
    const int64_t[::1] starts,
    const int64_t[::1] limits,
    const int64_t[::1] skips,
    const int64_t[::1] bounds,
    const int64_t[::1] positions,
    uint8_t[::1] tags,
    int64_t[::1] ranks,
    int64_t[:, ::1] stops=None,
):
    """Decode the tags of a union, run-length encoded bytes; parameters as of decode_integers.

    Args:
        tags: uint8[N] or longer.
        ranks: int64[N] or longer, gets for each the number of equal tags before it in its segment.
    """
    cdef Segments segments
    cdef Input input
    cdef Wanted wanted
    cdef const uint8_t *at = NULL
    cdef uint8_t same[130]
    cdef int64_t counts[256]
    cdef int64_t s, index, end, run, first, passed, run_first, size = 0, held = 0, result = 0
    cdef int code
    _segments(&segments, data, starts, limits, skips, bounds, positions, tags.shape[0], stops)
    if ranks.shape[0] < bounds[segments.count]:
        raise ValueError("the bounds do not fit the output")
    with nogil:
        for s in range(segments.count):
            code = _open(&segments, s, &input, &wanted)
            memset(counts, 0, sizeof(counts))
            passed, run_first, run, first = wanted.skip, 0, 0, 0
            while code == 0 and wanted.next < wanted.last:
                run, first = input.at - segments.data, run_first
                code = STREAM_ENDS if input.at >= input.end else _open_byte_run(&input, &at, &size, &held, same)
                if code != 0:
                    break
                end = _end_in_run(&wanted, run_first, size)
                while wanted.next < end:
                    index = _index(&wanted, wanted.next)
                    if index - run_first >= held:
                        code = STREAM_ENDS
                        break
                    while passed < index:
                        counts[at[passed - run_first]] += 1
                        passed += 1
                    tags[wanted.next] = at[index - run_first]
                    ranks[wanted.next] = counts[at[index - run_first]]
                    wanted.next += 1
                run_first += size
                if code == 0 and wanted.next < wanted.last:
                    while passed < first + held:
                        counts[at[passed - first]] += 1
                        passed += 1
                    passed = max(passed, run_first)
            if code != 0:
                result = _error(code, 0 if code == BAD_SEGMENT else input.at - segments.data)
                break
            if stops is not None:
                _stop(&segments, &wanted, s, run, first, &stops[s, 0])
    return result


cdef inline int _add(const int64_t *lengths, int64_t count, uint64_t longest, uint64_t *total) noexcept nogil:
    """Add lengths to the total."""
    cdef int64_t i
    cdef uint64_t bits = 0, added = 0
    for i in range(count):
        bits |= <uint64_t>lengths[i]
        added += <uint64_t>lengths[i]
    total[0] += added
    if bits >= longest:
        for i in range(count):
            if <uint64_t>lengths[i] >= longest:
                return BAD_LENGTH
    return 0


cdef inline int _add_run(
    const Wanted *wanted, int64_t *k, int64_t run_first, const int64_t *lengths, int64_t count,
    uint64_t longest, uint64_t *total, int64_t *begins, int64_t *selected,
) noexcept nogil:
    """Fill the outputs whose values lie in a run, from output `k` on, and add the run's lengths to the total."""
    cdef int64_t at = wanted.skip - run_first if wanted.skip > run_first else 0, index
    cdef int code = 0
    while code == 0 and k[0] < wanted.last:
        index = <int64_t>(<uint64_t>_index(wanted, k[0]) - <uint64_t>run_first)
        if index >= count:
            break
        if index < at:
            return STREAM_ENDS  # it does not ascend
        code = _add(lengths + at, index - at, longest, total)
        begins[k[0]] = <int64_t>total[0]
        selected[k[0]] = lengths[index]
        at = index
        k[0] += 1
        if code == 0:
            code = _add(lengths + at, 1, longest, total)
        at += 1
    if code == 0 and at < count:
        code = _add(lengths + at, count - at, longest, total)
    return code


cdef inline uint64_t _sum_bytes(const uint8_t *at, int64_t count) noexcept nogil:
    """The sum of at most 2**20 bytes, which compilers vectorize in 32 bits."""
    cdef uint32_t total = 0
    cdef int64_t k
    for k in range(count):
        total += at[k]
    return total


#: The first byte of a direct run of 8-bit values, without its lowest bit, which is one of the length.
cdef enum:
    _DIRECT_BYTES = 0x4E >> 1


cdef inline int _add_bytes(
    const Wanted *wanted, int64_t *k, int64_t run_first, const uint8_t *lengths, int64_t count,
    uint64_t *total, int64_t *begins, int64_t *selected,
) noexcept nogil:
    """As _add_run, for a run of one-byte lengths, all below longest; those behind the last output are not added."""
    cdef int64_t at = wanted.skip - run_first if wanted.skip > run_first else 0, index
    while k[0] < wanted.last:
        index = <int64_t>(<uint64_t>_index(wanted, k[0]) - <uint64_t>run_first)
        if index >= count:
            if at < count:
                total[0] += _sum_bytes(lengths + at, count - at)
            break
        if index < at:
            return STREAM_ENDS  # it does not ascend
        total[0] += _sum_bytes(lengths + at, index - at)
        begins[k[0]], selected[k[0]] = <int64_t>total[0], lengths[index]
        total[0] += lengths[index]
        at = index + 1
        k[0] += 1
    return 0


def decode_lengths(
    const uint8_t[::1] data,
    const int64_t[::1] starts,
    const int64_t[::1] limits,
    const int64_t[::1] skips,
    const int64_t[::1] bounds,
    const int64_t[::1] positions not None,
    int64_t[::1] begins,
    int64_t[::1] selected,
    int64_t longest,
    bint is_v2,
    int64_t[:, ::1] stops=None,
):
    """Decode the lengths of selected values, and find where these begin among values that lie one behind the other.

    The arguments are those of decode_integers, besides these:

    Args:
        positions: int64[N].
        begins: int64[N] or longer, gets the sum of the lengths before each selected one in its segment, from the first
            one that is not skipped on.
        selected: int64[N] or longer, gets the selected lengths.
        longest: one more than the largest length that is believed; BAD_LENGTH for a larger one up to the last selected.
    """
    cdef Segments segments
    cdef Input input
    cdef Wanted wanted, whole
    cdef int64_t s, k, count, run_first, run = 0, first = 0, result = 0
    cdef int64_t lengths[512]  # no run has more
    cdef int64_t *target_begins = &begins[0] if begins.shape[0] else NULL
    cdef int64_t *target_lengths = &selected[0] if selected.shape[0] else NULL
    cdef uint64_t total
    cdef int code
    _segments(&segments, data, starts, limits, skips, bounds, positions, min(begins.shape[0], selected.shape[0]), stops)
    if longest < 0:
        raise ValueError("no length is negative")
    with nogil:
        for s in range(segments.count):
            code = _open(&segments, s, &input, &wanted)
            k, run_first, total = wanted.first, 0, 0
            while code == 0 and k < wanted.last:
                run, first = input.at - segments.data, run_first
                if input.at >= input.end:
                    code = STREAM_ENDS
                    break
                if is_v2 and longest > 255 and input.end - input.at >= 2 and input.at[0] >> 1 == _DIRECT_BYTES:
                    count = (<int64_t>(input.at[0] & 1) << 8 | input.at[1]) + 1
                    if count <= input.end - input.at - 2:
                        code = _add_bytes(
                            &wanted, &k, run_first, input.at + 2, count, &total, target_begins, target_lengths
                        )
                        run_first += count
                        input.at += 2 + count
                        continue
                # the run's values from its first one on, up to the last selected one
                whole.position = NULL
                whole.skip = whole.first = whole.next = 0
                count = <int64_t>(<uint64_t>_index(&wanted, wanted.last - 1) + 1 - <uint64_t>run_first)
                whole.last = max(0, min(count, 512))
                count = 0
                if is_v2:
                    code = _run_v2(&input, &whole, &count, False, lengths)
                else:
                    code = _run_v1(&input, &whole, &count, False, lengths)
                if code == 0:
                    code = _add_run(
                        &wanted, &k, run_first, lengths, whole.next, <uint64_t>longest, &total,
                        target_begins, target_lengths,
                    )
                run_first += count
            if code != 0:
                result = _error(code, 0 if code == BAD_SEGMENT else input.at - segments.data)
                break
            if stops is not None:
                _stop(&segments, &wanted, s, run, first, &stops[s, 0])
    return result


cdef inline void _copy(uint8_t *out, const uint8_t *at, int64_t size, int64_t out_left, int64_t left) noexcept nogil:
    """Copy bytes; short ones as sixteen at once, where both sides have room."""
    if size <= 16 and out_left >= 16 and left >= 16:
        memcpy(out, at, 16)
    else:
        memcpy(out, at, size)


def copy_values(
    const uint8_t[::1] data,
    const int64_t[::1] begins,
    const int64_t[::1] lengths,
    uint8_t[::1] out,
):
    """Copy values one behind the other.

    Args:
        data: uint8, what they are copied from.
        begins: int64[N], and ``lengths``, int64[N]: their bytes in it.
        out: uint8, at least as long as they are in all. What lies behind them is undefined.

    Returns:
        0, or BAD_LENGTH with the number of a value in the place of the byte.
    """
    cdef int64_t k, at = 0, size, count = begins.shape[0], result = 0
    cdef int64_t left = data.shape[0], room = out.shape[0]
    cdef const uint8_t *source = &data[0] if left else NULL
    cdef uint8_t *target = &out[0] if room else NULL
    if lengths.shape[0] != count:
        raise ValueError("values need as many begins as lengths")
    with nogil:
        for k in range(count):
            size = lengths[k]
            if size < 0 or begins[k] < 0 or begins[k] > left or size > left - begins[k] or size > room - at:
                result = _error(BAD_LENGTH, k)
                break
            if size:
                _copy(target + at, source + begins[k], size, room - at, left - begins[k])
            at += size
    return result


def scatter(const uint8_t[:, ::1] values, const uint8_t[::1] valid, uint8_t[:, ::1] out):
    """Put values into the valid rows, and zeros into the others.

    Args:
        values: uint8[K, W], W bytes for each valid row.
        valid: uint8[R], not 0 for valid rows.
        out: uint8[R, W].
    """
    cdef int64_t row, k = 0, count = values.shape[0], rows = valid.shape[0], width = out.shape[1]
    if out.shape[0] != rows or values.shape[1] != width:
        raise ValueError("there is a row of the output for each that may be valid")
    if width == 0:
        return
    cdef const uint8_t *source = &values[0, 0] if count else NULL
    cdef uint8_t *target = &out[0, 0] if rows else NULL
    with nogil:
        for row in range(rows):
            if not valid[row]:
                memset(target + row * width, 0, width)
                continue
            if k == count:
                with gil:
                    raise ValueError("there are more valid rows than values")
            if width == 8:
                memcpy(target + row * 8, source + k * 8, 8)
            elif width == 4:
                memcpy(target + row * 4, source + k * 4, 4)
            else:
                memcpy(target + row * width, source + k * width, width)
            k += 1


ctypedef struct ZstdBuffer:
    # zstd's ZSTD_inBuffer and ZSTD_outBuffer
    void *start
    size_t size
    size_t at


ctypedef size_t (*ZstdStream)(void *context, ZstdBuffer *out, ZstdBuffer *body) noexcept nogil
ctypedef size_t (*ZstdReset)(void *context, int directive) noexcept nogil
ctypedef unsigned int (*ZstdIsError)(size_t result) noexcept nogil
ctypedef size_t (*ZstdFrameSize)(const void *body, size_t size) noexcept nogil
ctypedef uint64_t (*ZstdContentSize)(const void *body, size_t size) noexcept nogil


ctypedef struct Zstd:
    ZstdStream decompress
    ZstdReset reset
    ZstdIsError is_error
    ZstdFrameSize frame_size
    ZstdContentSize content_size
    void *context


cdef int _open_zstd(Zstd *zstd, const uint64_t[::1] addresses) except -1:
    if addresses is None or addresses.shape[0] != 6:
        raise ValueError("zstd needs five functions and a context")
    zstd.decompress = <ZstdStream><size_t>addresses[0]
    zstd.reset = <ZstdReset><size_t>addresses[1]
    zstd.is_error = <ZstdIsError><size_t>addresses[2]
    zstd.frame_size = <ZstdFrameSize><size_t>addresses[3]
    zstd.content_size = <ZstdContentSize><size_t>addresses[4]
    zstd.context = <void *><size_t>addresses[5]
    return 0


cdef int64_t _frame_size(const Zstd *zstd, const uint8_t *at, int64_t left) noexcept nogil:
    """Content size of a single zstd frame that fills the bytes: -1 if it does not tell, -2 if it is none."""
    cdef uint64_t size
    # frames to skip, and those of zstd before 0.8, begin with another byte
    if at[0] != 0x28 or zstd.frame_size(at, <size_t>left) != <size_t>left:
        return -2
    size = zstd.content_size(at, <size_t>left)
    return <int64_t>size if size < <uint64_t>HINDEX_MAX_OFFSET else -1


cdef int64_t _block_size(const uint8_t *at, int64_t left) noexcept nogil:
    """Content size of a block of snappy, a varint of 32 bits at its head; -2 if there is none."""
    cdef int64_t size = 0
    cdef int i
    for i in range(min(left, 5)):
        size |= <int64_t>(at[i] & 127) << (7 * i)
        if at[i] < 128:
            return size
    return -2


def list_chunks(
    const uint8_t[::1] data,
    const int64_t[::1] begins,
    const int64_t[::1] ends,
    const int64_t[::1] extras,
    int codec,
    const uint64_t[::1] zstd,
    int64_t[::1] offsets,
    int64_t[::1] lengths,
    uint8_t[::1] originals,
    int64_t[::1] sizes,
):
    """List the chunks that begin in ascending byte ranges of a compressed stream, and some more behind each.

    Args:
        begins: int64[R], offsets of chunk headers.
        ends: int64[R], a chunk that begins there or later is no longer of the range.
        extras: int64[R], how many chunks after the range are listed, too, where the stream has them.
        codec: ZSTD if the body of a compressed chunk is one zstd frame and nothing else, as decompressors differ in
            what they make of other bytes; SNAPPY if it is a block of snappy; 0 if it does not record the size of its
            content.
        zstd: uint64[6], for ZSTD: the addresses of ZSTD_decompressStream, ZSTD_DCtx_reset, ZSTD_isError,
            ZSTD_findFrameCompressedSize, ZSTD_getFrameContentSize, and of a context that no other thread uses.
        offsets: int64[N] for the offsets of the headers; ``lengths`` for the bytes of the bodies, ``originals`` for 1
            where the body is not compressed, and ``sizes`` for the bytes of the contents as far as the chunk or its
            frame tells, else -1. Nothing more is listed once they are full.

    Returns:
        the number of chunks; or ``-1 - (offset << 8 | code)`` of a chunk: BAD_CHUNK, BAD_FRAME or BAD_BLOCK_SIZE.
    """
    cdef int64_t at = 0, count = 0, size, end = data.shape[0], room = offsets.shape[0], r, extra, listed, broken = -1
    cdef uint32_t header
    cdef const uint8_t *body
    cdef Zstd functions
    if codec == ZSTD:
        _open_zstd(&functions, zstd)
    if lengths.shape[0] != room or originals.shape[0] != room or sizes.shape[0] != room:
        raise ValueError("the outputs have the same length")
    if begins.shape[0] != ends.shape[0] or begins.shape[0] != extras.shape[0]:
        raise ValueError("ranges need as many begins, ends and extras")
    for r in range(begins.shape[0]):
        if not 0 <= begins[r] < HINDEX_MAX_OFFSET:
            raise ValueError("a range begins before the data, or beyond any file")
    with nogil:
        for r in range(begins.shape[0]):
            # a chunk in which one range ends and the next one begins is listed once
            if count == 0 or begins[r] >= at:
                at = begins[r]
            extra = extras[r]
            # chunks behind this range may have been listed for the ones before
            listed = count - 1
            while extra > 0 and listed >= 0 and offsets[listed] >= ends[r]:
                extra -= 1
                listed -= 1
            while count < room and (at < ends[r] or (extra > 0 and at < end)):
                extra -= at >= ends[r]
                if end - at < 3:
                    broken = _error(BAD_CHUNK, at)
                    break
                header = data[at] | <uint32_t>data[at + 1] << 8 | <uint32_t>data[at + 2] << 16
                size = header >> 1
                if size > end - at - 3:
                    broken = _error(BAD_CHUNK, at)
                    break
                offsets[count] = at
                lengths[count] = size
                originals[count] = header & 1
                sizes[count] = size if header & 1 else -1
                if codec != 0 and not header & 1:
                    sizes[count] = -2
                    if size > 0:
                        body = &data[at + 3]
                        sizes[count] = (
                            _frame_size(&functions, body, size) if codec == ZSTD else _block_size(body, size)
                        )
                    if sizes[count] == -2:
                        broken = _error(BAD_FRAME if codec == ZSTD else BAD_BLOCK_SIZE, at)
                        break
                count += 1
                at += 3 + size
            if broken >= 0:
                break
    return count if broken < 0 else -1 - broken


cdef enum:
    # how deep messages may lie within each other: those of the format lie half as deep
    _MAX_DEPTH = 16


def count_fields(const uint8_t[::1] data, const int64_t[:, ::1] kinds, int64_t limit):
    """Count the fields of an encoded protobuf message, those of the messages within it, and the numbers of packed lists.

    Args:
        data: uint8, the message.
        kinds: int64[K, F], by the kind of a message and the number of a field: the kind of the message that the field
            is, or -W for a list of numbers of W bytes, -1 for one of varints; 0 for other fields. The message itself is
            of kind 0.
        limit: no more are counted once there are more than this.

    Returns:
        the number, or -1 if the message is malformed or has groups.
    """
    cdef Input input
    cdef const uint8_t *ends[_MAX_DEPTH]
    cdef int64_t rows[_MAX_DEPTH]
    cdef int64_t count = 0, kind, left
    cdef uint64_t tag = 0, value = 0
    cdef int depth = 0, code, wire
    for kind in range(kinds.shape[0]):
        for left in range(kinds.shape[1]):
            if kinds[kind, left] >= kinds.shape[0]:
                raise ValueError("a field is a message of an unknown kind")
    if kinds.shape[0] == 0:
        raise ValueError("there are no kinds of messages")
    if data.shape[0] == 0:
        return 0
    input.at = &data[0]
    ends[0] = input.at + data.shape[0]
    rows[0] = 0
    with nogil:
        while count <= limit:
            while depth > 0 and input.at == ends[depth]:
                depth -= 1
            input.end = ends[depth]
            if input.at == input.end:
                break
            count += 1
            code = _varint(&input, &tag)
            wire = tag & 7
            if code == 0 and (wire == 0 or wire == 2):
                code = _varint(&input, &value)
            left = input.end - input.at
            if code != 0 or wire == 3 or wire == 4 or wire > 5:
                count = -1
            elif wire == 1 or wire == 5:
                value = 8 if wire == 1 else 4
            elif wire == 0:
                value = 0
            if count < 0 or value > <uint64_t>left:
                count = -1
                break
            kind = 0
            if wire == 2 and tag >> 3 < <uint64_t>kinds.shape[1]:
                kind = kinds[rows[depth], <int64_t>(tag >> 3)]
            if kind > 0:
                depth += 1
                if depth == _MAX_DEPTH:
                    count = -1
                    break
                ends[depth] = input.at + value
                rows[depth] = kind
                continue
            if kind == -1:
                for left in range(<int64_t>value):
                    count += input.at[left] < 128
            elif kind < 0:
                # unsigned, as the least number has no negation
                count += <int64_t>(<uint64_t>value // (<uint64_t>0 - <uint64_t>kind))
            input.at += value
    return count


cdef inline int64_t _search(const int64_t *values, int64_t count, int64_t value) noexcept nogil:
    """The number of ascending values that are less than this one."""
    cdef int64_t low = 0, high = count, middle
    while low < high:
        middle = (low + high) >> 1
        if values[middle] < value:
            low = middle + 1
        else:
            high = middle
    return low


def select_chunks(
    const int64_t[::1] offsets,
    const int64_t[::1] sizes,
    const int64_t[::1] begins,
    const int64_t[::1] inners,
    const int64_t[::1] ends,
    const int64_t[::1] end_inners,
    const uint8_t[::1] has_tails,
    const int64_t[::1] max_bytes,
    int64_t extras,
    int64_t max_tail,
    int64_t block_size,
    int64_t[::1] firsts,
    int64_t[::1] lasts,
    int64_t[::1] wanted,
    int64_t[::1] needed,
):
    """Find how much of each listed chunk segments need.

    Args:
        offsets: int64[N], and ``sizes``, as list_chunks lists the chunks of the segments.
        begins: int64[S], the chunk in which a segment begins, and ``inners`` where in its content.
        ends: int64[S], the chunk at which a segment ends, and ``end_inners`` where in its content: 0 if before it.
        has_tails: uint8[S], 1 if the run at the end is of the segment, too.
        max_bytes: int64[S], how many bytes suffice from the segment's begin on.
        extras: how many chunks behind the last one the run at the end may reach into.
        max_tail: the most bytes that the run at the end may have.
        block_size: what chunks of unknown size count as.
        firsts: int64[S] for the number of a segment's first chunk, ``lasts`` for that of its last one; -1 without any.
        wanted: int64[N] for the bytes of each chunk to load; ``needed`` for the bytes that suffice from a segment's
            first chunk on, -1 for other chunks.

    Returns:
        0, or INSIDE_CHUNK.
    """
    cdef int64_t s, i, count = offsets.shape[0], segments = begins.shape[0], first, end, last, rest, size
    cdef bint is_cut
    cdef int code = 0
    if sizes.shape[0] != count or wanted.shape[0] != count or needed.shape[0] != count:
        raise ValueError("the arrays of chunks have the same length")
    if (
        inners.shape[0] != segments or ends.shape[0] != segments or end_inners.shape[0] != segments
        or has_tails.shape[0] != segments or max_bytes.shape[0] != segments
        or firsts.shape[0] != segments or lasts.shape[0] != segments
    ):
        raise ValueError("the arrays of segments have the same length")
    if not (0 <= extras < HINDEX_MAX_OFFSET and 0 <= max_tail < HINDEX_MAX_OFFSET and 0 <= block_size < HINDEX_MAX_OFFSET):
        raise ValueError("a run or a block is negative, or beyond any file")
    for i in range(count):
        wanted[i], needed[i] = 0, -1
        if sizes[i] >= HINDEX_MAX_OFFSET:
            raise ValueError("a chunk is larger than any file")
    for s in range(segments):
        if not (
            0 <= begins[s] < HINDEX_MAX_OFFSET and 0 <= inners[s] < HINDEX_MAX_OFFSET and 0 <= max_bytes[s]
            and 0 <= ends[s] < HINDEX_MAX_OFFSET and 0 <= end_inners[s] < HINDEX_MAX_OFFSET
        ):
            raise ValueError("a position is negative, or beyond any file")
        firsts[s] = lasts[s] = -1
        is_cut = end_inners[s] > 0 or has_tails[s]
        first = _search(&offsets[0], count, begins[s]) if count else 0
        if begins[s] < ends[s] and (first == count or offsets[first] != begins[s]):
            code = INSIDE_CHUNK
            break
        end = (_search(&offsets[0], count, ends[s] + is_cut) if count else 0) - 1
        if end < first:
            continue
        last = min(end + extras, count - 1) if has_tails[s] else end
        firsts[s], lasts[s] = first, last
        needed[first] = max(needed[first], inners[s] + min(max_bytes[s], HINDEX_MAX_OFFSET))
        # all of the chunks before the one in which it ends; of that one and those behind it as much as may be needed
        rest = end_inners[s] + max_tail if has_tails[s] else end_inners[s]
        for i in range(first, last + 1):
            size = block_size if sizes[i] < 0 else sizes[i]
            if i < end or not is_cut:
                wanted[i] = size
            else:
                wanted[i] = max(wanted[i], min(rest, size))
                # contents are contiguous only if all but the last are loaded whole
                rest = max(rest - size, 0)
    return code


def select_values(
    const int64_t[::1] offsets,
    const int64_t[::1] edges,
    const int64_t[::1] begins,
    const int64_t[::1] inners,
    const int64_t[::1] ends,
    const int64_t[::1] bounds,
    const int64_t[::1] lows,
    const int64_t[::1] lengths,
    int64_t[::1] wanted,
    int64_t[::1] heads,
    int64_t[::1] chunk_offsets,
):
    """Find how much of each listed chunk values need, by their bytes within segments.

    Args:
        offsets: int64[N], as list_chunks lists the chunks of the segments.
        edges: int64[N + 1], the begins of their contents one behind the other, and the end of the last.
        begins: int64[S], the chunk in which a segment begins, and ``inners`` where in its content.
        ends: int64[S], a chunk from there on is not of the segment.
        bounds: int64[S + 1], the values of each segment.
        lows: int64[V], the begin of each value, in bytes from its segment's begin; ``lengths`` its bytes.
        wanted: int64[N] for the bytes of each chunk to load.
        heads: int64[V] for the number of the chunk in which a value begins, and ``chunk_offsets`` for where in its content.

    Returns:
        0, INSIDE_CHUNK, BEYOND_CHUNK or STREAM_ENDS.
    """
    cdef int64_t s, i, k, count = offsets.shape[0], segments = begins.shape[0], values = lows.shape[0]
    cdef int64_t first, last, base, low, high, head, tail
    if edges.shape[0] != count + 1 or wanted.shape[0] != count:
        raise ValueError("the arrays of chunks have the same length, and there is one more edge")
    if inners.shape[0] != segments or ends.shape[0] != segments or bounds.shape[0] != segments + 1:
        raise ValueError("the arrays of segments have the same length, and there is one more bound")
    if lengths.shape[0] != values or heads.shape[0] != values or chunk_offsets.shape[0] != values:
        raise ValueError("the arrays of values have the same length")
    if bounds[0] != 0 or bounds[segments] != values:
        raise ValueError("the bounds do not fit the values")
    for s in range(segments):
        if bounds[s] > bounds[s + 1]:
            raise ValueError("the bounds descend")
    if not 0 <= edges[0] < HINDEX_MAX_OFFSET:
        raise ValueError("the edges descend, or are beyond any file")
    for i in range(count):
        wanted[i] = 0
        if not 0 <= edges[i] <= edges[i + 1] < HINDEX_MAX_OFFSET:
            raise ValueError("the edges descend, or are beyond any file")
    for s in range(segments):
        if not (0 <= begins[s] < HINDEX_MAX_OFFSET and 0 <= inners[s] < HINDEX_MAX_OFFSET and 0 <= ends[s] < HINDEX_MAX_OFFSET):
            raise ValueError("a position is negative, or beyond any file")
        first = _search(&offsets[0], count, begins[s]) if count else 0
        if begins[s] < ends[s] and (first == count or offsets[first] != begins[s]):
            return INSIDE_CHUNK
        last = _search(&offsets[0], count, ends[s]) if count else 0
        base = edges[first] + inners[s]
        if base > edges[max(first, last)]:
            return BEYOND_CHUNK
        for k in range(bounds[s], bounds[s + 1]):
            heads[k] = chunk_offsets[k] = 0
            # those of a hostile file may have wrapped
            if not (0 <= lows[k] < HINDEX_MAX_OFFSET and 0 <= lengths[k] < HINDEX_MAX_OFFSET):
                return STREAM_ENDS
            low, high = base + lows[k], base + lows[k] + lengths[k]
            if high > edges[max(first, last)]:
                return STREAM_ENDS
            if low == high:
                continue
            head = _search(&edges[0], count + 1, low + 1) - 1
            tail = _search(&edges[0], count + 1, high) - 1
            for i in range(head, tail):
                wanted[i] = edges[i + 1] - edges[i]
            wanted[tail] = max(wanted[tail], high - edges[tail])
            heads[k], chunk_offsets[k] = head, low - edges[head]
    return 0


cdef int64_t _decompress_frame(
    const Zstd *zstd, const uint8_t *body, int64_t length, uint8_t *out, int64_t size
) noexcept nogil:
    """Decompress the first bytes of a frame: returns their number, at most ``size``; -1 if the frame is damaged."""
    cdef ZstdBuffer source, target
    cdef size_t before, result = 1
    source.start, source.size, source.at = <void *>body, <size_t>length, 0
    target.start, target.size, target.at = out, <size_t>size, 0
    # ZSTD_reset_session_only: the frame before may not have been read to its end
    zstd.reset(zstd.context, 1)
    while result != 0 and target.at < target.size:
        before = target.at + source.at
        result = zstd.decompress(zstd.context, &target, &source)
        if zstd.is_error(result) or (result != 0 and target.at + source.at == before):
            return -1
    return <int64_t>target.at


def decompress_chunks(
    const uint8_t[::1] data,
    const int64_t[::1] offsets,
    const int64_t[::1] lengths,
    const uint8_t[::1] originals,
    const int64_t[::1] sizes,
    const int64_t[::1] wanted,
    const int64_t[::1] needed,
    const uint64_t[::1] zstd,
    decompress,
    uint8_t[::1] out,
    int64_t[::1] begins,
    int64_t[::1] loaded,
    int64_t[::1] counts,
):
    """Decompress the beginnings of listed chunks, one behind the other.

    Args:
        offsets: int64[N] as list_chunks lists the chunks; ``lengths``, ``originals`` and ``sizes`` with them.
        wanted: int64[N], how many bytes of each.
        needed: int64[N], where a segment begins, the bytes that suffice for it: once there are so many, chunks are left
            out up to the begin of the next segment. -1 for other chunks.
        zstd: uint64[6], as of list_chunks; None for other codecs.
        decompress: without zstd, ``decompress(number, begin, end)`` fills bytes of ``out`` from a chunk that is
            compressed and returns the number of bytes.
        out: filled up to its end at most.
        begins: int64[N] for where the content of each chunk begins in ``out``; ``loaded`` for its bytes, 0 where it was
            left out.
        counts: int64[3], set to the number of chunks that gave content, the bytes of their bodies, and the bytes of
            their contents.

    Returns:
        0, or the offset of a chunk and a code: BAD_CONTENT, or SHORT_CONTENT if there is less than wanted and less than
        the chunk's size.
    """
    cdef int64_t i, count = offsets.shape[0], at = 0, until = 0, size, got, result = 0, room = out.shape[0]
    cdef bint is_native = zstd is not None
    cdef Zstd functions
    if (
        lengths.shape[0] != count or originals.shape[0] != count or sizes.shape[0] != count
        or wanted.shape[0] != count or needed.shape[0] != count
        or begins.shape[0] != count or loaded.shape[0] != count
    ):
        raise ValueError("the arrays have the same length")
    if counts.shape[0] != 3:
        raise ValueError("there are three counts")
    counts[0] = counts[1] = counts[2] = 0
    for i in range(count):
        if not 0 <= lengths[i] <= data.shape[0] - 3 or not 0 <= offsets[i] <= data.shape[0] - 3 - lengths[i]:
            raise ValueError("a chunk lies outside the data")
    if is_native:
        _open_zstd(&functions, zstd)
    with nogil:
        for i in range(count):
            begins[i] = at
            loaded[i] = 0
            if needed[i] >= 0:
                until = room if needed[i] > room - at else at + needed[i]
            elif at >= until:
                continue
            size = min(wanted[i], room - at)
            if size <= 0:
                continue
            if originals[i]:
                got = min(size, lengths[i])
                if got > 0:
                    memcpy(&out[at], &data[offsets[i] + 3], got)
            elif is_native:
                got = -1
                if lengths[i] > 0:
                    got = _decompress_frame(&functions, &data[offsets[i] + 3], lengths[i], &out[at], size)
                if got < 0:
                    result = _error(BAD_CONTENT, offsets[i])
                    break
            else:
                with gil:
                    got = decompress(i, at, at + size)
                    if not 0 <= got <= size:
                        raise ValueError("a codec returned more bytes than it was given room for")
            if got < min(size, sizes[i]):
                result = _error(SHORT_CONTENT, offsets[i])
                break
            loaded[i] = got
            at += got
            if got > 0:
                counts[0] += 1
                counts[1] += lengths[i]
                counts[2] += got
    return result


cdef extern from *:
    """
    static const int64_t HINDEX_POWERS[19] = {1ll, 10ll, 100ll, 1000ll, 10000ll, 100000ll, 1000000ll, 10000000ll,
        100000000ll, 1000000000ll, 10000000000ll, 100000000000ll, 1000000000000ll, 10000000000000ll,
        100000000000000ll, 1000000000000000ll, 10000000000000000ll, 100000000000000000ll, 1000000000000000000ll};
    static inline int hindex_multiply(int64_t a, int64_t b, int64_t *out) { return __builtin_mul_overflow(a, b, out); }
    """
    const int64_t HINDEX_POWERS[19]
    bint hindex_multiply(int64_t a, int64_t b, int64_t *out) noexcept nogil


def rescale(int64_t[:, ::1] words, const int64_t[::1] scales, int64_t scale, int64_t[::1] rest):
    """Bring decimals to a column's scale in place, where value and result have 64 bits.

    Args:
        words: int64[N, 2], low and high words.
        scales: int64[N], each value's own scale.
        rest: int64[N] for the numbers of the values that are left to the caller.

    Returns:
        how many these are.
    """
    cdef int64_t k, left = 0, shift, value = 0
    if words.shape[0] != scales.shape[0] or words.shape[1] != 2 or rest.shape[0] != scales.shape[0]:
        raise ValueError("there are two words and a scale for each value")
    with nogil:
        for k in range(scales.shape[0]):
            if scales[k] == scale:
                continue
            # a scale is anything in a corrupt file: the difference of two close ones cannot wrap
            shift = scale - scales[k] if -64 < scales[k] < 64 and -64 < scale < 64 else -1
            if (
                0 <= shift < 19
                and words[k, 1] == words[k, 0] >> 63
                and not hindex_multiply(words[k, 0], HINDEX_POWERS[shift], &value)
            ):
                words[k, 0] = value
                words[k, 1] = value >> 63
            else:
                rest[left] = k
                left += 1
    return left


cdef enum:
    # fields of a page in `heads`, see list_leaf_blocks
    FIRST_BLOCK = 0
    KEYS = 1
    ROWS = 2
    INLINE_ROWS = 3
    OUTSIDE = 4
    FIRST_KEY = 5
    KEY_WIDTH = 6
    COUNT_WIDTH = 7
    IS_DELTA = 8
    FIRST_WIDTH = 9
    GAP_WIDTH = 10
    HEAD_FIELDS = 11

    # fields of a block in `blocks`
    IS_PACKED = 0
    START = 1
    STORED = 2
    RAW = 3
    BLOCK_FIELDS = 4

    _HEADER_BYTES = 29
    _POINTER_BYTES = 20
    _MAX_IN_LEAF = 1 << 20
    _MAX_RAW = 0x7FFFFFFF
    _LONG_RAW = 1 << 26
    _LONG_RAW_FACTOR = 1024


ctypedef struct Leaf:
    # a leaf page with its blocks decompressed
    int64_t keys
    int64_t inline_rows
    int64_t inline_keys
    int64_t outside
    int64_t first_key
    bint is_delta
    int64_t key_width
    int64_t count_width
    int64_t first_width
    int64_t gap_width
    # byte planes, lowest bytes first
    const uint8_t *key_planes[8]
    const uint8_t *counts[4]
    const uint8_t *firsts[4]
    const uint8_t *gaps[4]
    const uint8_t *key_bytes
    const uint8_t *pointers


cdef inline uint64_t _little_endian(const uint8_t *at, int count) noexcept nogil:
    cdef uint64_t value = 0
    cdef int i
    for i in range(count):
        value |= <uint64_t>at[i] << (8 * i)
    return value


cdef inline int64_t _expected_blocks(const int64_t *head, bint has_bytes) noexcept nogil:
    cdef int64_t planes = head[KEY_WIDTH] + head[COUNT_WIDTH] + head[FIRST_WIDTH] + head[GAP_WIDTH]
    return 1 + planes + has_bytes + (head[OUTSIDE] > 0)


cdef int64_t _expected_raw(const int64_t *head, bint has_bytes, int64_t number) noexcept nogil:
    """The bytes of a block of a leaf page after its header, which is number 0."""
    cdef int64_t inline_keys = head[KEYS] - head[OUTSIDE]
    number -= 1
    if number < head[KEY_WIDTH]:
        return head[KEYS]
    number -= head[KEY_WIDTH]
    if has_bytes:
        if number == 0:
            return head[FIRST_KEY]
        number -= 1
    if number < head[COUNT_WIDTH]:
        return head[KEYS]
    number -= head[COUNT_WIDTH]
    if number < head[FIRST_WIDTH]:
        return inline_keys
    if number - head[FIRST_WIDTH] < head[GAP_WIDTH]:
        return head[INLINE_ROWS] - inline_keys
    return _POINTER_BYTES * head[OUTSIDE]


cdef int _check_head(const int64_t *head, bint has_bytes) noexcept nogil:
    """Return 0, or the code of what contradicts itself in a header."""
    cdef int64_t keys = head[KEYS], inline_rows = head[INLINE_ROWS], inline_keys, i
    if not 0 < keys <= _MAX_IN_LEAF or not 0 <= head[OUTSIDE] <= keys:
        return BAD_LEAF
    inline_keys = keys - head[OUTSIDE]
    if not inline_keys <= inline_rows <= _MAX_IN_LEAF or (inline_keys == 0 and inline_rows):
        return BAD_LEAF
    if inline_rows > head[ROWS] or head[ROWS] >> 32 or not 0 <= head[IS_DELTA] <= 1:
        return BAD_LEAF
    if not 0 <= head[KEY_WIDTH] <= (4 if has_bytes else 8):
        return BAD_LEAF
    for i in range(COUNT_WIDTH, HEAD_FIELDS):
        if not 0 <= head[i] <= 4:
            return BAD_LEAF
    # keys that no leaf of several has are not unpacked
    if has_bytes and not 0 <= head[FIRST_KEY] <= (_MAX_RAW if keys == 1 else _MAX_IN_LEAF):
        return BAD_KEYS
    return 0


cdef int _list_blocks(
    const uint8_t *page, int64_t size, bint has_bytes, int64_t offset, int64_t *head, int64_t *blocks
) noexcept nogil:
    cdef int64_t i, count, at, stored, raw
    cdef const uint8_t *header
    if size < 1 or 1 + 9 * <int64_t>page[0] > size or page[0] < 1:
        return BAD_BLOCK
    count = page[0]
    at = 1 + 9 * count
    for i in range(count):
        header = page + 1 + 9 * i
        stored, raw = <int64_t>_little_endian(header + 1, 4), <int64_t>_little_endian(header + 5, 4)
        if header[0] > 1 or raw > _MAX_RAW or stored > size - at:
            return BAD_BLOCK
        if raw != stored if header[0] == 0 else (raw > _LONG_RAW and raw > _LONG_RAW_FACTOR * stored):
            return BAD_BLOCK
        blocks[BLOCK_FIELDS * i + IS_PACKED] = header[0]
        blocks[BLOCK_FIELDS * i + START] = offset + at
        blocks[BLOCK_FIELDS * i + STORED] = stored
        blocks[BLOCK_FIELDS * i + RAW] = raw
        at += stored
    if at != size:
        return BAD_BLOCK
    if blocks[IS_PACKED] or blocks[RAW] != _HEADER_BYTES:
        return BAD_LEAF
    header = page + 1 + 9 * count
    if <int64_t>_little_endian(header, 4) != head[KEYS]:
        return BAD_LEAF
    head[OUTSIDE] = <int64_t>_little_endian(header + 4, 4)
    head[FIRST_KEY] = <int64_t>_little_endian(header + 8, 8)
    head[INLINE_ROWS] = <int64_t>_little_endian(header + 16, 8)
    for i in range(5):
        head[KEY_WIDTH + i] = header[24 + i]
    cdef int code = _check_head(head, has_bytes)
    if code:
        return code
    if _expected_blocks(head, has_bytes) != count:
        return BAD_LEAF
    for i in range(1, count):
        if blocks[BLOCK_FIELDS * i + RAW] != _expected_raw(head, has_bytes, i):
            return BAD_LEAF
    return 0


def list_leaf_blocks(
    const uint8_t[::1] data, const int64_t[::1] ends, bint has_bytes, int64_t[:, ::1] heads, int64_t[:, ::1] blocks
):
    """List the blocks of leaf pages, and check all that their headers say. Source: docs/format.md, "Leaf page".

    Args:
        data: uint8, the pages one after another.
        ends: int64[P], where each page ends.
        has_bytes: the keys are bytes, not integers.
        heads: int64[P, 11]: the number of a page's first block, and by the directory the numbers of its keys and of
            their rows, are given. The fields after them are set: rows inline, keys outside, the first key or the
            bytes of all keys, planes of keys and of counts, the mode of first rows, planes of first rows and of gaps.
        blocks: int64[B, 4], with B the sum of the pages' first bytes: 1 if it is compressed, start in data, length as
            stored, length when decompressed.

    Returns:
        0, or a code with the number of a page in the place of the byte.
    """
    cdef int64_t p, begin = 0, number = 0, pages = ends.shape[0], result = 0
    cdef int code
    if heads.shape[0] != pages or heads.shape[1] != HEAD_FIELDS or blocks.shape[1] != BLOCK_FIELDS:
        raise ValueError("pages, their heads and their blocks do not fit each other")
    with nogil:
        for p in range(pages):
            if not begin <= ends[p] <= data.shape[0]:
                result = -1
                break
            if begin == ends[p]:
                result = _error(BAD_BLOCK, p)
                break
            if heads[p, FIRST_BLOCK] != number or data[begin] > blocks.shape[0] - number:
                result = -1
                break
            code = BAD_BLOCK
            if data[begin]:
                code = _list_blocks(
                    &data[begin], ends[p] - begin, has_bytes, begin, &heads[p, 0], &blocks[number, 0]
                )
            if code:
                result = _error(code, p)
                break
            number += data[begin]
            begin = ends[p]
    if result == -1:
        raise ValueError("pages, their heads and their blocks do not fit each other")
    return result


cdef inline uint64_t _value(const uint8_t *const *planes, int64_t width, int64_t k) noexcept nogil:
    """Number k of an array that is stored as byte planes."""
    cdef uint64_t value = 0
    cdef int64_t plane
    for plane in range(width):
        value |= <uint64_t>planes[plane][k] << (8 * plane)
    return value


cdef inline uint64_t _sum(
    const uint8_t *const *planes, int64_t width, int64_t begin, int64_t end
) noexcept nogil:
    """The sum of numbers `begin` to `end` of an array of at most 2**20 numbers, after adding 1 to each."""
    cdef uint64_t total = <uint64_t>(end - begin)
    cdef int64_t number
    for number in range(width):
        total += _sum_bytes(planes[number] + begin, end - begin) << (8 * number)
    return total


cdef bint _open_leaf(
    Leaf *leaf,
    const int64_t *head,
    bint has_bytes,
    const int64_t[:, ::1] blocks,
    const uint8_t[::1] data,
    const uint8_t[::1] contents,
) noexcept nogil:
    """Find the blocks of a leaf; False if they do not fit it."""
    cdef int64_t first = head[FIRST_BLOCK], count, i, at, start, raw
    cdef const uint8_t *found[24]
    if _check_head(head, has_bytes):
        return False
    count = _expected_blocks(head, has_bytes)
    if first < 0 or first > blocks.shape[0] - count:
        return False
    for i in range(1, count):
        start, raw = blocks[first + i, START], _expected_raw(head, has_bytes, i)
        at = contents.shape[0] if blocks[first + i, IS_PACKED] else data.shape[0]
        if not 0 <= start <= at - raw:
            return False
        found[i] = NULL
        if raw:
            found[i] = &contents[start] if blocks[first + i, IS_PACKED] else &data[start]
    leaf.keys, leaf.outside = head[KEYS], head[OUTSIDE]
    leaf.inline_rows, leaf.inline_keys = head[INLINE_ROWS], head[KEYS] - head[OUTSIDE]
    leaf.first_key, leaf.is_delta = head[FIRST_KEY], head[IS_DELTA]
    leaf.key_width, leaf.count_width = head[KEY_WIDTH], head[COUNT_WIDTH]
    leaf.first_width, leaf.gap_width = head[FIRST_WIDTH], head[GAP_WIDTH]
    at = 1
    for i in range(leaf.key_width):
        leaf.key_planes[i] = found[at + i]
    at += leaf.key_width
    if has_bytes:
        leaf.key_bytes = found[at]
        at += 1
    for i in range(leaf.count_width):
        leaf.counts[i] = found[at + i]
    at += leaf.count_width
    for i in range(leaf.first_width):
        leaf.firsts[i] = found[at + i]
    at += leaf.first_width
    for i in range(leaf.gap_width):
        leaf.gaps[i] = found[at + i]
    if leaf.outside:
        leaf.pointers = found[at + leaf.gap_width]
    return True


cdef int64_t _find_integers(
    const Leaf *leaf,
    const int64_t *lows,
    const int64_t *highs,
    int64_t r,
    int64_t end,
    int64_t *ordinals,
    int64_t *keys,
) noexcept nogil:
    """Find a leaf's keys in ranges `r` to `end`; return their number, or -1 if the keys are not in order."""
    cdef int64_t k = 0, found = 0, key = leaf.first_key, following
    cdef uint64_t step
    while True:
        while r < end and highs[r] < key:
            r += 1
        if r == end:
            return found
        # pass over many keys at once as long as they are below the next range
        while leaf.key_width <= 1 and k + 64 < leaf.keys and key < <int64_t>1 << 62:
            step = _sum(leaf.key_planes, leaf.key_width, k + 1, k + 65)
            if key + <int64_t>step > lows[r]:
                break
            key += <int64_t>step
            k += 64
        if lows[r] <= key <= highs[r]:
            ordinals[found], keys[found] = k, key
            found += 1
        k += 1
        if k == leaf.keys:
            return found
        step = _value(leaf.key_planes, leaf.key_width, k) + 1
        following = <int64_t>(<uint64_t>key + step)
        if following <= key:
            return -1
        key = following


cdef inline bint _is_below(
    const uint8_t *a, int64_t a_length, const uint8_t *b, int64_t b_length
) noexcept nogil:
    """True if one string of bytes comes before another."""
    cdef int64_t common = a_length if a_length < b_length else b_length
    cdef int order = memcmp(a, b, <size_t>common) if common else 0
    return order < 0 or (order == 0 and a_length < b_length)


cdef int64_t _first_from(
    const uint8_t *keys, const int64_t *ends, int64_t begin, int64_t end, const uint8_t *bound, int64_t length
) noexcept nogil:
    """The first of the keys `begin` to `end` that is not below a bound; `end` if there is none."""
    cdef int64_t step = 1, middle
    # the bounds ascend, and so the next one is often near
    while begin + step < end and _is_below(
        keys + ends[begin + step], ends[begin + step + 1] - ends[begin + step], bound, length
    ):
        begin += step
        step *= 2
    if begin + step < end:
        end = begin + step
    while begin < end:
        middle = begin + (end - begin) // 2
        if _is_below(keys + ends[middle], ends[middle + 1] - ends[middle], bound, length):
            begin = middle + 1
        else:
            end = middle
    return begin


cdef int64_t _find_bytes(
    const Leaf *leaf,
    const int64_t *ends,
    const uint8_t *low_bytes,
    const int64_t *low_ends,
    const uint8_t *high_bytes,
    const int64_t *high_ends,
    int64_t r,
    int64_t end,
    int64_t open_range,
    int64_t *ordinals,
) noexcept nogil:
    """Find a leaf's keys in ranges `r` to `end`, or equal to their lower bounds if there are no upper ones."""
    cdef int64_t k = 0, found = 0, stop
    while r < end and k < leaf.keys:
        k = _first_from(
            leaf.key_bytes, ends, k, leaf.keys, low_bytes + low_ends[r], low_ends[r + 1] - low_ends[r]
        )
        if r == open_range:
            stop = leaf.keys
        elif high_bytes != NULL:
            stop = _first_from(
                leaf.key_bytes, ends, k, leaf.keys, high_bytes + high_ends[r], high_ends[r + 1] - high_ends[r]
            )
        else:
            # a key that is not below the bound is equal to it if it is not above it either
            stop = k
            if k < leaf.keys and not _is_below(
                low_bytes + low_ends[r],
                low_ends[r + 1] - low_ends[r],
                leaf.key_bytes + ends[k],
                ends[k + 1] - ends[k],
            ):
                stop = k + 1
        while k < stop:
            ordinals[found] = k
            found += 1
            k += 1
        r += 1
    return found


cdef int _unpack_leaf(
    const Leaf *leaf,
    int64_t row_count,
    int64_t total,
    const int64_t *ordinals,
    int64_t selected,
    int64_t *counts,
    uint32_t *rows,
    int64_t *filled,
    int64_t[:, ::1] outside,
    int64_t *outside_filled,
    int64_t first_number,
) noexcept nogil:
    """Unpack the rows of some keys of a leaf, or only count them if `rows` is NULL. Other keys' rows stay packed."""
    cdef int64_t i, j, k, before = 0, at = 0, rank, gap, count, end, out = filled[0]
    cdef int64_t delta_at = 0, pointed = -1, key
    cdef uint64_t passed = 0, inline_passed = 0, between, row, sum_of_steps = 0
    for i in range(leaf.outside):
        key = <int64_t>_little_endian(leaf.pointers + _POINTER_BYTES * i, 4)
        if not pointed < key < leaf.keys:
            return BAD_POINTERS
        pointed = key
    i = 0
    while True:
        # keys `at` to k come before the next one selected; with the last one, all that are left
        k = ordinals[i] if i < selected else leaf.keys
        between = _sum(leaf.counts, leaf.count_width, at, k)
        passed += between
        inline_passed += between
        pointed = -1
        while before < leaf.outside:
            key = <int64_t>_little_endian(leaf.pointers + _POINTER_BYTES * before, 4)
            if key >= k:
                pointed = key
                break
            inline_passed -= _value(leaf.counts, leaf.count_width, key) + 1
            before += 1
        if i == selected:
            break
        count = <int64_t>_value(leaf.counts, leaf.count_width, k) + 1
        counts[i] = count
        passed += <uint64_t>count
        at = k + 1
        i += 1
        if pointed == k:
            j = outside_filled[0]
            if j >= outside.shape[0]:
                return -1
            outside[j, 0], outside[j, 1] = first_number + i - 1, count
            outside[j, 2] = <int64_t>_little_endian(leaf.pointers + _POINTER_BYTES * before + 4, 8)
            outside[j, 3] = <int64_t>_little_endian(leaf.pointers + _POINTER_BYTES * before + 12, 4)
            outside[j, 4] = <int64_t>_little_endian(leaf.pointers + _POINTER_BYTES * before + 16, 4)
            outside_filled[0] = j + 1
            before += 1
            continue
        # only inline keys have first rows and gaps
        rank, gap = k - before, <int64_t>inline_passed - (k - before)
        inline_passed += <uint64_t>count
        end = gap + count - 1
        if end > leaf.inline_rows - leaf.inline_keys:
            return BAD_COUNTS
        if rows == NULL:
            continue
        if leaf.is_delta:
            while delta_at <= rank:
                sum_of_steps += _unzigzag(_value(leaf.firsts, leaf.first_width, delta_at))
                delta_at += 1
            row = sum_of_steps
        else:
            row = _value(leaf.firsts, leaf.first_width, rank)
        rows[out] = <uint32_t>row
        out += 1
        while gap < end and row < <uint64_t>total:
            row += _value(leaf.gaps, leaf.gap_width, gap) + 1
            rows[out] = <uint32_t>row
            out += 1
            gap += 1
        # rows of a key ascend: where the last one fits, all do
        if row >= <uint64_t>total:
            return BAD_ROW
    filled[0] = out
    if passed != <uint64_t>row_count or inline_passed != <uint64_t>leaf.inline_rows:
        return BAD_COUNTS
    return 0


def find_rows(
    const uint8_t[::1] data,
    const uint8_t[::1] contents,
    const int64_t[:, ::1] heads,
    const int64_t[:, ::1] blocks,
    int64_t total,
    const int64_t[::1] begins,
    const int64_t[::1] ends,
    const int64_t[::1] lows,
    const int64_t[::1] highs,
    const uint8_t[::1] low_bytes,
    const uint8_t[::1] high_bytes,
    int64_t open_range,
    int64_t[::1] scratch,
    int64_t[::1] keys,
    uint8_t[::1] key_bytes,
    int64_t[::1] counts,
    uint32_t[::1] rows,
    int64_t[:, ::1] outside,
    int64_t[::1] sizes,
):
    """Find the keys of leaf pages that are in some ranges, and unpack their rows. Other keys' rows stay packed.

    Args:
        data: uint8, the pages; contents: uint8, their blocks that were compressed.
        heads: int64[P, 11], blocks: int64[B, 4], of `list_leaf_blocks`; of a compressed block, the start is in contents.
        total: rows are below it.
        begins, ends: int64[P], the ranges that concern a page: numbers begins[p] to ends[p], ascending and disjoint.
        lows, highs: int64[R], of integer keys the least and the greatest of each range. Of byte keys int64[R + 1],
            where the bounds of each range begin in low_bytes and high_bytes.
        low_bytes: uint8, the least key of each range one after another; None for integer keys.
        high_bytes: uint8, the least key above each range; None if each range is the one key that is its least.
        open_range: the number of a range of bytes without an upper bound; -1 for none.
        scratch: int64, at least one more than the keys of any page.
        keys: int64, room for all keys of the pages: keys that are found, or where they end in key_bytes.
        key_bytes: uint8, room for all bytes of keys; None for integer keys.
        counts: int64, room for all keys: the rows of each key found, inline or outside.
        rows: uint32, room for all inline rows: those of the keys found, key by key; None to leave them packed.
        outside: int64, room for all keys outside, of five: its number among those found, its rows, and the offset,
            length and crc32c of its page.
        sizes: int64[4], set to how many keys, bytes of keys, rows and keys outside were found.

    Returns:
        0, or a code with the number of a page in the place of the byte.
    """
    cdef int64_t p, k, found, end, room, pages = heads.shape[0], ranges, result = 0, filled = 0
    cdef int64_t key_count = 0, byte_count = 0, row_count = 0, outside_count = 0
    cdef bint has_bytes = low_bytes is not None, has_highs = high_bytes is not None
    cdef bint has_rows = rows is not None
    cdef int code
    cdef Leaf leaf
    ranges = lows.shape[0] - has_bytes
    if heads.shape[1] != HEAD_FIELDS or blocks.shape[1] != BLOCK_FIELDS or outside.shape[1] != 5:
        raise ValueError(_MISFIT)
    if begins.shape[0] != pages or ends.shape[0] != pages or not 0 <= total <= 0xFFFFFFFF:
        raise ValueError(_MISFIT)
    if ranges < 0 or sizes.shape[0] != 4 or has_bytes != (key_bytes is not None) or (has_highs and not has_bytes):
        raise ValueError(_MISFIT)
    if (has_highs or not has_bytes) and highs.shape[0] != lows.shape[0]:
        raise ValueError(_MISFIT)
    if has_bytes and not (_are_ends(lows, low_bytes) and (not has_highs or _are_ends(highs, high_bytes))):
        raise ValueError(_MISFIT)
    cdef const int64_t *low = _numbers(lows)
    cdef const int64_t *high = _numbers(highs)
    cdef const uint8_t *low_data = &low_bytes[0] if has_bytes and low_bytes.shape[0] else NULL
    cdef const uint8_t *high_data = NULL
    if has_highs:
        # not NULL, though there may be no byte
        high_data = &high_bytes[0] if high_bytes.shape[0] else <const uint8_t *>&sizes[0]
    with nogil:
        for p in range(pages):
            if not 0 <= begins[p] <= ends[p] <= ranges or not _open_leaf(
                &leaf, &heads[p, 0], has_bytes, blocks, data, contents
            ):
                result = -1
                break
            room = keys.shape[0] - key_count
            if leaf.keys > room or counts.shape[0] < keys.shape[0] or scratch.shape[0] <= leaf.keys:
                result = -1
                break
            if has_rows and leaf.inline_rows > rows.shape[0] - row_count:
                result = -1
                break
            if has_bytes:
                scratch[0] = 0
                for k in range(leaf.keys):
                    scratch[k + 1] = scratch[k] + <int64_t>_value(leaf.key_planes, leaf.key_width, k)
                if scratch[leaf.keys] != leaf.first_key:
                    result = _error(BAD_KEYS, p)
                    break
                # ordinals first, then the ends of the keys
                found = _find_bytes(
                    &leaf, &scratch[0], low_data, low, high_data, high, begins[p], ends[p], open_range, &counts[key_count]
                )
            else:
                found = _find_integers(&leaf, low, high, begins[p], ends[p], &counts[key_count], &keys[key_count])
                if found < 0:
                    result = _error(BAD_ORDER, p)
                    break
            if has_bytes:
                for k in range(found):
                    end = scratch[counts[key_count + k]]
                    filled = scratch[counts[key_count + k] + 1] - end
                    if filled > key_bytes.shape[0] - byte_count:
                        result = -1
                        break
                    if filled:
                        memcpy(&key_bytes[byte_count], leaf.key_bytes + end, <size_t>filled)
                    byte_count += filled
                    keys[key_count + k] = byte_count
                if result:
                    break
            for k in range(found):
                scratch[k] = counts[key_count + k]
            code = _unpack_leaf(
                &leaf,
                heads[p, ROWS],
                total,
                &scratch[0],
                found,
                &counts[key_count] if found else NULL,
                &rows[0] if has_rows and leaf.inline_rows else NULL,
                &row_count,
                outside,
                &outside_count,
                key_count,
            )
            if code:
                result = -1 if code < 0 else _error(code, p)
                break
            key_count += found
    if result == -1:
        raise ValueError(_MISFIT)
    sizes[0], sizes[1], sizes[2], sizes[3] = key_count, byte_count, row_count, outside_count
    return result


_MISFIT = "leaf pages, ranges and the room for what is found do not fit each other"


cdef bint _are_ends(const int64_t[::1] ends, const uint8_t[::1] data) noexcept nogil:
    """True if numbers say where strings end in data."""
    cdef int64_t k, last = 0
    if ends[0]:
        return False
    for k in range(ends.shape[0]):
        if not last <= ends[k] <= data.shape[0]:
            return False
        last = ends[k]
    return True


def mark_ngrams(
    const uint8_t[::1] characters,
    const int64_t[::1] ends,
    int64_t block_rows,
    int64_t first_block,
    const uint8_t[::1] ranks,
    int bits,
    int64_t low,
    uint32_t[::1] last_blocks,
    uint32_t[::1] positions,
    uint32_t[::1] blocks,
):
    """Count the blocks of rows that have each n-gram of three characters, and list them.

    Args:
        characters: uint8, those of all strings.
        ends: int64[S], where each string ends; a block has ``block_rows`` of them.
        ranks: uint8[256], the number of each character, of ``bits`` bits: three of them are the number of an n-gram.
        low: the number of the first of K n-grams; others are skipped.
        last_blocks: uint32[K], one more than the last block of each n-gram, 0 for none.
        positions: uint32[K], where the next block of each n-gram is put; increased by one for each block.
        blocks: uint32, receives the blocks; None to count them in ``positions``.
    """
    cdef int64_t s, at, begin = 0, row = 0
    cdef uint32_t block = <uint32_t> first_block + 1
    cdef uint64_t number, mask
    cdef uint64_t slot, size = <uint64_t> last_blocks.shape[0], capacity = 0
    cdef bint is_wrong = False, lists = blocks is not None
    cdef uint32_t *listed = NULL
    cdef uint32_t *last
    cdef uint32_t *next_position
    cdef const uint8_t *numbers
    cdef const uint8_t *text = &characters[0] if characters.shape[0] else NULL
    if ranks.shape[0] != 256 or not 1 <= bits <= 8 or block_rows < 1:
        raise ValueError("the numbers of characters have 1 to 8 bits, and a block has rows")
    if not size or positions.shape[0] != last_blocks.shape[0]:
        raise ValueError("n-grams and their counts do not fit each other")
    last, next_position, numbers = &last_blocks[0], &positions[0], &ranks[0]
    mask = (<uint64_t> 1 << (3 * bits)) - 1
    if lists and blocks.shape[0]:
        listed, capacity = &blocks[0], <uint64_t> blocks.shape[0]
    with nogil:
        for s in range(ends.shape[0]):
            if not begin <= ends[s] <= characters.shape[0]:
                is_wrong = True
                break
            if row == block_rows:
                row = 0
                block += 1
            row += 1
            if ends[s] - begin > 2:
                number = <uint64_t> numbers[text[begin]] << bits | numbers[text[begin + 1]]
                for at in range(begin + 2, ends[s]):
                    number = (number << bits | numbers[text[at]]) & mask
                    # n-grams below ``low`` wrap to large numbers
                    slot = number - <uint64_t> low
                    if slot >= size or last[slot] == block:
                        continue
                    last[slot] = block
                    if lists:
                        if next_position[slot] >= capacity:
                            is_wrong = True
                            break
                        listed[next_position[slot]] = block - 1
                    next_position[slot] += 1
            begin = ends[s]
    if is_wrong:
        raise ValueError("strings, or lists of blocks, end outside of their arrays")
