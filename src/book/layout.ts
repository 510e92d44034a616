/**
 * Memory layout of a book: the indices of words and doubles in its records, and nothing else. Snapshots store orders in
 * this layout, so a change of the layout needs a new snapshot version.
 *
 * A module copies each number to its own constant: `const { NEXT } = layout`. V8 compiles such a constant into the
 * code. An imported constant is looked up and checked at every use, which would make the book a tenth slower.
 */

/** The slot number that means no record, for example at the end of a list. */
export const NIL = -1

/** A page has `2 ** PAGE_SHIFT` records. */
export const PAGE_SHIFT = 10
export const PAGE_RECORDS = 1 << PAGE_SHIFT
export const PAGE_MASK = PAGE_RECORDS - 1

/** Number of 32-bit words of a hash, and of an address. */
export const HASH_WORDS = 8
export const ADDRESS_WORDS = 5

/**
 * An order has `2 ** RECORD_SHIFT` words, but only the copy in a snapshot uses all of them. Matching and cancelling use
 * words 12 to 27. With the allocator glibc, these words fill exactly one cache line: glibc puts 16 bytes before a large
 * block, so a page begins 16 bytes after the start of a cache line.
 */
export const RECORD_SHIFT = 5
export const RECORD_WORDS = 1 << RECORD_SHIFT
/**
 * First word of the whole hash. If the book keeps the hash as text, these words are valid only in snapshot copies of
 * the record.
 */
export const HASH = 0
/** Indices of doubles (64-bit floats). Index n covers the words 2n and 2n + 1. */
export const SIZE = 4
export const PLACED = 5
/** The record's own slot while the order rests. The pool writes this word. */
export const STATE = 12
/** Tag of the hash, a number made of six of its digits; NIL in copies. */
export const TAG = 13
/** Side in bit 0, price in the 20 bits above bit 0, bucket of the expiry wheel in the remaining bits. */
export const PRICE_SIDE = 14
export const PRICE_SIDE_MASK = (1 << 21) - 1
export const DUE_SHIFT = 21
export const MATCHES = 15
/** Indices of further doubles. */
export const REMAINING = 8
export const EXPIRES = 9
/** Links to the neighbours in the level's queue, the trader's list and the wheel's bucket. */
export const PREV = 20
export const NEXT = 21
export const TRADER_PREV = 22
export const TRADER_NEXT = 23
export const DUE_PREV = 24
export const DUE_NEXT = 25
/** Slots of the order's level and of its trader. */
export const LEVEL = 26
export const TRADER_SLOT = 27
/**
 * Index of a double: the order's arrival number, from one sequence for both books. Only complementary markets set it.
 */
export const ARRIVAL = 14
/**
 * Index of the arrival number in a snapshot copy. In such a copy, the words at `ARRIVAL` contain the trader's address.
 * So the arrival number is stored in the place of the links of the expiry wheel, which a restore computes again.
 */
export const ARRIVAL_COPY = 12
/**
 * `TRADER`: index of the first word of the trader's address, in a snapshot copy. `TAKEN`: index of the double with the
 * quantity that a match took, in an `OrderList`.
 */
export const TRADER = 27
export const TAKEN = 13

/** A level has `2 ** LEVEL_SHIFT` words. Its key is twice the price, plus the side. */
export const LEVEL_SHIFT = 3
export const LEVEL_KEY = 0
export const LEVEL_KEY_MASK = PRICE_SIDE_MASK
/** Bit of the key above price and side. The bit is set while the side's set of prices contains the price. */
export const LISTED = 1 << 21
export const HEAD = 1
export const TAIL = 2
export const COUNT = 3
/** Index of the only double of a level. The double uses words 4 and 5. */
export const LOW = 2
export const CARRY = 6

/** A trader has `2 ** TRADER_SHIFT` words: the address, then the list of their orders. */
export const TRADER_SHIFT = 4
export const TRADER_HEAD = 5
export const TRADER_TAIL = 6
export const TRADER_COUNT = 7
export const TRADER_TAG = 8
