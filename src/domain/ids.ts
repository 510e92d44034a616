/**
 * Identifiers as branded strings in their canonical form. Inside the exchange, ids, hashes and addresses are lower-case
 * hex. Hex input may have any case, and is converted on arrival. Answers contain addresses in EIP-55 form (see
 * `checksum-address.ts`).
 */

declare const brand: unique symbol
type Branded<Name extends string> = string & { readonly [brand]: Name }

/** 32 bytes: the market's CTF condition id. */
export type MarketId = Branded<'MarketId'>
/** 32 bytes: the EIP-712 digest that the trader signed. */
export type OrderHash = Branded<'OrderHash'>
/** 20 bytes, lower case. */
export type Address = Branded<'Address'>
/** `marketId-seq-fillIndex`. */
export type TradeId = Branded<'TradeId'>
/** An unsigned 64-bit integer as canonical decimal text, because JSON numbers are exact only up to 2^53. */
export type Uint64 = Branded<'Uint64'>
/** An unsigned 256-bit integer (a word of the chain) as canonical decimal text. */
export type Uint256 = Branded<'Uint256'>
/** Sequence number of an event in its market, from 1 without gaps. */
export type Sequence = number

export const ZERO_ADDRESS = `0x${'0'.repeat(40)}` as Address
export const UINT64_MAX = 2n ** 64n - 1n
export const UINT256_MAX = 2n ** 256n - 1n
/** Decimal text with at most as many digits as 2^256 - 1; `parseUint256` also checks the bound. */
export const UINT256_PATTERN = '^(0|[1-9][0-9]{0,77})$'

const ADDRESS = /^0x[0-9a-fA-F]{40}$/
const BYTES32 = /^0x[0-9a-fA-F]{64}$/
const DECIMAL = /^(?:0|[1-9][0-9]{0,19})$/
const LONG_DECIMAL = new RegExp(UINT256_PATTERN)
const UINT256_DIGITS = 78

/** Converts a trusted address (a setting, an account, a log) to the internal form. */
export function toAddress(text: string): Address {
  return text.toLowerCase() as Address
}

export function parseAddress(text: string): Address | undefined {
  return ADDRESS.test(text) ? toAddress(text) : undefined
}

export function parseMarketId(text: string): MarketId | undefined {
  return BYTES32.test(text) ? (text.toLowerCase() as MarketId) : undefined
}

/** Parses an unsigned 64-bit integer; undefined if invalid. */
export function parseUint64(text: string): Uint64 | undefined {
  if (!DECIMAL.test(text)) return undefined
  if (text.length === 20 && BigInt(text) > UINT64_MAX) return undefined
  return text as Uint64
}

/** Parses an unsigned 256-bit integer; undefined if invalid. */
export function parseUint256(text: string): Uint256 | undefined {
  if (!LONG_DECIMAL.test(text)) return undefined
  if (text.length === UINT256_DIGITS && BigInt(text) > UINT256_MAX) return undefined
  return text as Uint256
}

export function tradeId(marketId: MarketId, sequence: Sequence, fillIndex: number): TradeId {
  return `${marketId}-${sequence}-${fillIndex}` as TradeId
}

const TRADE_ID = /^(0x[0-9a-f]{64})-([1-9][0-9]*)-(0|[1-9][0-9]*)$/

export function parseTradeId(
  text: string,
): { marketId: MarketId; sequence: Sequence; fillIndex: number } | undefined {
  const parts = TRADE_ID.exec(text)
  if (parts === null) return undefined
  const sequence = Number(parts[2])
  const fillIndex = Number(parts[3])
  if (!Number.isSafeInteger(sequence) || !Number.isSafeInteger(fillIndex)) return undefined
  return { marketId: parts[1] as MarketId, sequence, fillIndex }
}
