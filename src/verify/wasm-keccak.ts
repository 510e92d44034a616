/**
 * Computes Keccak-256 in WebAssembly code, which this file assembles. A call into WebAssembly costs almost nothing. A
 * native implementation would cost more, because passing buffers to native code takes longer than the hash itself.
 *
 * The module exports one function, `hash(bytes)`. `bytes` is the length of the input, which must be padded to whole
 * blocks. The function writes the hash to the start of the memory.
 */

import type { Keccak256 } from '#domain/order-hash.ts'

/** Number of bytes of a block. */
const RATE = 136
const HASH_BYTES = 32
const ROUNDS = 24
const LANES = 25

/** Positions in the memory. The hash is written to position 0. */
const CONSTANTS_AT = 64
const INPUT_AT = 512
const PAGE_BYTES = 65_536
/** Maximum length of an input, so that it fits into the memory with its padding. */
export const WASM_KECCAK_MAX = PAGE_BYTES - INPUT_AT - RATE

const I32 = 0x7f
const I64 = 0x7e
const EMPTY = 0x40

/**
 * Indices of the local variables of the WebAssembly function. `BYTES` is its parameter, `FROM` the position in the
 * input, and `CONSTANT` the position in the round constants. The others are the 25 words of the hash state (`LANE`) and
 * temporary values.
 */
const BYTES = 0
const FROM = 1
const CONSTANT = 2
const LANE = 3
const MOVED = LANE + LANES
const COLUMN = MOVED + LANES
const MIXED = COLUMN + 5
const LANE_LOCALS = 2 * LANES + 10

type Code = number[]

const get = (local: number): Code => [0x20, local]
const set = (local: number): Code => [0x21, local]
const xor = (...values: Code[]): Code =>
  values.flatMap((value, at) => (at === 0 ? value : [...value, 0x85]))
const rotated = (value: Code, bits: number): Code =>
  bits === 0 ? value : [...value, 0x42, ...signed(bits), 0x89]
const not = (value: Code): Code => [...value, 0x42, 0x7f, 0x85]
const and = (a: Code, b: Code): Code => [...a, ...b, 0x83]
const load = (address: Code, offset: number): Code => [...address, 0x29, 3, ...unsigned(offset)]
const add = (local: number, value: number): Code => [
  ...[...get(local), 0x41, ...signed(value), 0x6a],
  ...set(local),
]
/**
 * Returns code that runs the body and repeats it while the local variable is less than `end`. The body must increase
 * the variable.
 */
const until = (local: number, end: Code, body: Code): Code => [
  ...[0x03, EMPTY, ...body],
  ...[...get(local), ...end, 0x49, 0x0d, 0, 0x0b],
]

function unsigned(value: number): Code {
  const low = value & 0x7f
  const rest = value >>> 7
  return rest === 0 ? [low] : [low | 0x80, ...unsigned(rest)]
}

function signed(value: number): Code {
  const low = value & 0x7f
  const rest = value >> 7
  return rest === 0 && low < 0x40 ? [low] : [low | 0x80, ...signed(rest)]
}

const lane = (x: number, y: number): number => LANE + (x % 5) + 5 * (y % 5)
const moved = (x: number, y: number): number => MOVED + (x % 5) + 5 * (y % 5)
const EACH = Array.from({ length: LANES }, (_, at) => ({ x: at % 5, y: Math.floor(at / 5) }))
const FIVE = [0, 1, 2, 3, 4]

/** Returns the rotation, in bits, of each of the 25 words of the state, as the Keccak specification defines them. */
function rotations(): number[] {
  const bits = new Array<number>(LANES).fill(0)
  let [x, y] = [1, 0]
  for (let step = 0; step < ROUNDS; step++) {
    bits[x + 5 * y] = (((step + 1) * (step + 2)) / 2) % 64
    ;[x, y] = [y, (2 * x + 3 * y) % 5]
  }
  return bits
}

/** Returns the constant of each round, computed with the shift register of the Keccak specification. */
function roundConstants(): bigint[] {
  let register = 1
  return Array.from({ length: ROUNDS }, () => {
    let constant = 0n
    for (let bit = 0; bit < 7; bit++) {
      if ((register & 1) === 1) constant |= 1n << BigInt(2 ** bit - 1)
      register = (register & 0x80) === 0 ? register << 1 : ((register << 1) ^ 0x71) & 0xff
    }
    return constant
  })
}

function round(): Code {
  const bits = rotations()
  return [
    ...FIVE.flatMap((x) => [...xor(...FIVE.map((y) => get(lane(x, y)))), ...set(COLUMN + x)]),
    ...FIVE.flatMap((x) => [
      ...xor(get(COLUMN + ((x + 4) % 5)), rotated(get(COLUMN + ((x + 1) % 5)), 1)),
      ...set(MIXED + x),
    ]),
    ...EACH.flatMap(({ x, y }) => [
      ...rotated(xor(get(lane(x, y)), get(MIXED + x)), bits[x + 5 * y]!),
      ...set(moved(y, 2 * x + 3 * y)),
    ]),
    ...EACH.flatMap(({ x, y }) => [
      ...xor(get(moved(x, y)), and(not(get(moved(x + 1, y))), get(moved(x + 2, y)))),
      ...(x + y === 0 ? [...load(get(CONSTANT), CONSTANTS_AT), 0x85] : []),
      ...set(lane(x, y)),
    ]),
    ...add(CONSTANT, 8),
  ]
}

function hashCode(): Code {
  const absorb = Array.from({ length: RATE / 8 }, (_, at) => [
    ...xor(get(LANE + at), load(get(FROM), INPUT_AT + 8 * at)),
    ...set(LANE + at),
  ]).flat()
  const permute = [
    0x41,
    0,
    ...set(CONSTANT),
    ...until(CONSTANT, [0x41, ...signed(8 * ROUNDS)], round()),
  ]
  const squeeze = Array.from({ length: HASH_BYTES / 8 }, (_, at) => [
    ...[0x41, 0, ...get(LANE + at)],
    ...[0x37, 3, 8 * at],
  ]).flat()
  return [...until(FROM, get(BYTES), [...absorb, ...permute, ...add(FROM, RATE)]), ...squeeze]
}

const section = (id: number, content: Code): Code => [id, ...unsigned(content.length), ...content]
const name = (text: string): Code => [text.length, ...Buffer.from(text)]

function moduleBytes(): Uint8Array<ArrayBuffer> {
  const locals = [2, 2, I32, LANE_LOCALS, I64]
  const body = [...locals, ...hashCode(), 0x0b]
  return Uint8Array.from([
    ...[0, 0x61, 0x73, 0x6d, 1, 0, 0, 0],
    ...section(1, [1, 0x60, 1, I32, 0]),
    ...section(3, [1, 0]),
    ...section(5, [1, 1, 1, 1]),
    ...section(7, [2, ...name('memory'), 2, 0, ...name('hash'), 0, 0]),
    ...section(10, [1, ...unsigned(body.length), ...body]),
  ])
}

/** Returns a hasher for inputs of up to `WASM_KECCAK_MAX` bytes. Each hasher has its own memory. */
export function makeWasmKeccak(): Keccak256 {
  const { exports } = new WebAssembly.Instance(new WebAssembly.Module(moduleBytes()))
  const { memory, hash } = exports as {
    readonly memory: WebAssembly.Memory
    readonly hash: (bytes: number) => void
  }
  const bytes = new Uint8Array(memory.buffer)
  new BigUint64Array(memory.buffer, CONSTANTS_AT, ROUNDS).set(roundConstants())
  return (input) => {
    const end = INPUT_AT + input.length
    const padded = (Math.floor(input.length / RATE) + 1) * RATE
    bytes.set(input, INPUT_AT)
    bytes.fill(0, end, INPUT_AT + padded)
    bytes[end] = 1
    bytes[INPUT_AT + padded - 1]! |= 0x80
    hash(padded)
    return bytes.slice(0, HASH_BYTES)
  }
}
