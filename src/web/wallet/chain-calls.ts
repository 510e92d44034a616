/**
 * Encodes the few transactions that a trader sends from the page: four bytes that select the function, then words of 32
 * bytes. A general library for this would be larger than the rest of the page.
 */

export type ChainCall = { readonly to: string; readonly data: string; readonly value?: bigint }

type Contracts = {
  readonly stablecoin: string
  readonly conditionalTokens: string
  readonly oracle: string
}

const APPROVE = '095ea7b3'
const TRANSFER = 'a9059cbb'
const SPLIT_POSITION = '72ce4275'
const MERGE_POSITIONS = '9e7212ad'
const DISPUTE_ASSERTION = 'a6a22b43'
/** Parent collection of binary markets: none. */
const NO_COLLECTION = `0x${'0'.repeat(64)}`
/** The list of outcomes in a split or merge: its length 2, then the bit masks 1 for YES and 2 for NO. */
const BOTH_OUTCOMES = [2n, 1n, 2n]
/** Offset of `BOTH_OUTCOMES` in the call's arguments, in bytes. Five words of 32 bytes precede it. */
const BOTH_OUTCOMES_AT = 5n * 32n

/** Encodes the call that allows a contract to take an amount of the sender's stablecoin. */
export function approveCall({ stablecoin }: Contracts, spender: string, amount: bigint): ChainCall {
  return { to: stablecoin, data: encode(APPROVE, [spender, amount]) }
}

export function transferCall({ stablecoin }: Contracts, to: string, amount: bigint): ChainCall {
  return { to: stablecoin, data: encode(TRANSFER, [to, amount]) }
}

/** Encodes the call that converts dollars into equal numbers of YES and NO shares. */
export function splitCall(contracts: Contracts, marketId: string, amount: bigint): ChainCall {
  return setsCall(SPLIT_POSITION, contracts, marketId, amount)
}

/** Encodes the call that converts equal numbers of YES and NO shares back into dollars. */
export function mergeCall(contracts: Contracts, marketId: string, amount: bigint): ChainCall {
  return setsCall(MERGE_POSITIONS, contracts, marketId, amount)
}

/**
 * Encodes the call that disputes a proposal at the oracle. The oracle takes a bond from the sender. This bond is as
 * large as the proposer's bond.
 */
export function disputeCall({ oracle }: Contracts, assertionId: string, by: string): ChainCall {
  return { to: oracle, data: encode(DISPUTE_ASSERTION, [assertionId, by]) }
}

function setsCall(
  selector: string,
  { stablecoin, conditionalTokens }: Contracts,
  marketId: string,
  amount: bigint,
): ChainCall {
  const words = [stablecoin, NO_COLLECTION, marketId, BOTH_OUTCOMES_AT, amount, ...BOTH_OUTCOMES]
  return { to: conditionalTokens, data: encode(selector, words) }
}

function encode(selector: string, words: readonly (string | bigint)[]): string {
  return `0x${selector}${words.map(word).join('')}`
}

function word(value: string | bigint): string {
  const digits = typeof value === 'bigint' ? value.toString(16) : value.slice(2).toLowerCase()
  return digits.padStart(64, '0')
}
