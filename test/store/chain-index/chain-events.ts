/**
 * Short notation of events on a chain in the tests of positions. Market 7 has the id 0x0…07, the contract 0x0…07, and
 * the tokens 70 and 71.
 */

import type { BlockMark, ChainEvent, MoveKind } from '#domain/chain-event.ts'
import { type Address, type MarketId, type OrderHash, ZERO_ADDRESS } from '#domain/ids.ts'
import type { Outcome } from '#domain/order.ts'

export const CHAIN = 31_337
export const NOW = 1_800_000_000

export const word = (value: number) => `0x${value.toString(16).padStart(64, '0')}`
export const person = (value: number) => `0x${value.toString(16).padStart(40, '0')}` as Address
export const market = (value: number) => word(value) as MarketId
export const mark = (number: number, fork = 0): BlockMark => ({
  number,
  hash: word(number * 1_000 + fork + 1),
  atSec: NOW + number,
})

export type Bare = ChainEvent extends infer Each
  ? Each extends ChainEvent
    ? Omit<Each, 'blockNumber' | 'logIndex' | 'txHash' | 'atSec'>
    : never
  : never

/** Events of one transaction, in their order. */
export function block({ number, atSec, hash }: BlockMark, ...bare: Bare[]): ChainEvent[] {
  const txHash = `0x${hash.slice(2, 34)}${word(number).slice(34)}`
  return bare.map(
    (event, logIndex) => ({ ...event, blockNumber: number, logIndex, txHash, atSec }) as ChainEvent,
  )
}

export function created(id: number): Bare {
  return {
    type: 'MarketCreated',
    market: {
      id: market(id),
      question: `Will ${id} be drawn?`,
      description: '',
      category: 'general',
      contractAddress: person(id),
      maker: person(9),
      expiration: NOW + 10_000,
      chainId: CHAIN,
      createdAt: NOW,
      quick: false,
    },
    positions: [word(id * 10), word(id * 10 + 1)],
  }
}

export const moved = (
  id: number,
  outcome: Outcome,
  from: Address,
  to: Address,
  amount: bigint,
  kind: MoveKind,
): Bare => ({
  type: 'TokensMoved',
  part: 0,
  positionId: word(id * 10 + outcome),
  from,
  to,
  amount,
  kind,
})

export function split(id: number, holder: Address, amount: bigint): Bare[] {
  const conversion = { kind: 'split' as const, holder, marketId: market(id), amount, indexSets: [] }
  return [
    moved(id, 0, ZERO_ADDRESS, holder, amount, 'split'),
    moved(id, 1, ZERO_ADDRESS, holder, amount, 'split'),
    { type: 'TokensConverted', ...conversion },
  ]
}

export function merge(id: number, holder: Address, amount: bigint): Bare[] {
  const conversion = { kind: 'merge' as const, holder, marketId: market(id), amount, indexSets: [] }
  return [
    moved(id, 0, holder, ZERO_ADDRESS, amount, 'merge'),
    moved(id, 1, holder, ZERO_ADDRESS, amount, 'merge'),
    { type: 'TokensConverted', ...conversion },
  ]
}

export function redeem(
  id: number,
  holder: Address,
  outcome: Outcome,
  amount: bigint,
  payout: bigint,
): Bare[] {
  return [
    moved(id, outcome, holder, ZERO_ADDRESS, amount, 'redeem'),
    {
      type: 'TokensConverted',
      kind: 'redeem',
      holder,
      marketId: market(id),
      amount: payout,
      indexSets: [BigInt(outcome + 1)],
    },
  ]
}

let trades = 0
export function traded(
  id: number,
  outcome: Outcome,
  seller: Address,
  buyer: Address,
  size: bigint,
  cost: bigint,
): Bare[] {
  return [
    moved(id, outcome, seller, buyer, size, 'trade'),
    {
      type: 'TradeSettled',
      tradeKey: word(++trades),
      marketId: market(id),
      buyer,
      seller,
      buyHash: word(1) as OrderHash,
      sellHash: word(2) as OrderHash,
      outcome,
      price: 1,
      size,
      cost,
    },
  ]
}
