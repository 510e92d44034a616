/** Compares what the indexer wrote to the database with the chain at the same block. */

import type { Address, MarketId } from '#domain/ids.ts'
import type { Tables } from '../database.ts'
import type { SimulatedChain } from './chain.ts'
import type { ChainMarket } from './factory.ts'

type Cursor = { indexed_block: number; indexed_hash: Buffer }
type MarketRow = {
  market_id: Buffer
  contract_address: Buffer
  start_price_e8: number | null
  end_price_e8: number | null
  resolved: number
  winning_outcome: number | null
  payouts: string | null
  orphaned_block: number | null
}
type ClaimRow = {
  assertion_id: Buffer
  market_id: Buffer
  proposed_outcome: number
  window_ends_at_sec: number
  disputed_block: number | null
  ended_as: string | null
}
type PositionRow = {
  market_id: Buffer
  holder: Buffer
  yes_shares_e6: number
  no_shares_e6: number
}

const hex = (bytes: Buffer) => `0x${bytes.toString('hex')}`

/** Returns the first difference; undefined if there is none. */
export function indexFlaw({ file }: Tables, chain: SimulatedChain): string | undefined {
  const cursor = file
    .prepare<[], Cursor>('select indexed_block, indexed_hash from chain_cursors')
    .get()
  if (cursor === undefined) return 'nothing is indexed'
  const { indexed_block: number } = cursor
  const block = chain.blocks[number]
  if (block?.hash !== hex(cursor.indexed_hash)) return `block ${number} is of another branch`
  const behind = chain.head.number - chain.confirmations - number
  if (behind > BEHIND_MAX) return `the index is ${behind} blocks behind`
  const markets = file
    .prepare<[], MarketRow>('select * from chain_markets where orphaned_block is null')
    .all()
  if (markets.length !== block.markets.size) {
    return `${markets.length} markets, not ${block.markets.size}, at block ${number}`
  }
  for (const row of markets) {
    const there = block.markets.get(hex(row.contract_address) as Address)
    if (there?.marketId !== hex(row.market_id)) return `no market ${hex(row.contract_address)}`
    const { quick, winner, endPrice, marketId, isPaid } = there
    if (BigInt(row.start_price_e8 ?? 0) !== (quick?.startPrice ?? 0n))
      return `${marketId}: its start`
    if (BigInt(row.end_price_e8 ?? 0) !== (endPrice ?? 0n)) return `${marketId}: its end`
    const isResolved = row.resolved === 1
    if (isResolved !== (winner !== undefined)) return `${marketId}: resolved ${row.resolved}`
    if ((row.winning_outcome ?? undefined) !== winner) return `${marketId}: ${row.winning_outcome}`
    if ((row.payouts !== null) !== isPaid) return `${marketId}: payouts ${row.payouts}`
  }
  const claimed = claimFlaw(file.prepare<[], ClaimRow>('select * from chain_assertions').all(), [
    ...block.markets.values(),
  ])
  if (claimed !== undefined) return `${claimed} at block ${number}`
  return positionFlaw(
    file
      .prepare<[], PositionRow>(
        'select * from positions where yes_shares_e6 != 0 or no_shares_e6 != 0',
      )
      .all(),
    chain,
    number,
  )
}

const BEHIND_MAX = 8

/** Returns the first difference between claims and rows; undefined if each claim has one row with its state. */
function claimFlaw(rows: readonly ClaimRow[], markets: readonly ChainMarket[]): string | undefined {
  const found = new Map(rows.map((row) => [hex(row.assertion_id), row]))
  const claims = markets.flatMap((market) => market.claims.map((claim) => ({ market, claim })))
  if (rows.length !== claims.length) return `${rows.length} claims, not ${claims.length}`
  for (const { market, claim } of claims) {
    const { id, outcome, windowEndsSec, disputer, settledBy, truth = true } = claim
    const endedAs = settledBy === undefined ? null : truth ? 'settled' : 'overturned'
    const row = found.get(id)
    const isEqual =
      row !== undefined &&
      hex(row.market_id) === market.marketId &&
      row.proposed_outcome === outcome &&
      row.window_ends_at_sec === windowEndsSec &&
      (row.disputed_block !== null) === (disputer !== undefined) &&
      row.ended_as === endedAs
    if (!isEqual) return `the claim ${id} of ${market.marketId} is ${row?.ended_as}, not ${endedAs}`
  }
  return undefined
}

function positionFlaw(
  rows: readonly PositionRow[],
  chain: SimulatedChain,
  number: number,
): string | undefined {
  const expected = new Map<string, bigint>()
  for (const [holder, { shares }] of chain.blocks[number]!.wallets) {
    for (const [token, amount] of shares)
      if (amount !== 0n) expected.set(`${holder} ${token}`, amount)
  }
  for (const row of rows) {
    const marketId = hex(row.market_id) as MarketId
    for (const [outcome, held] of [row.yes_shares_e6, row.no_shares_e6].entries()) {
      const key = `${hex(row.holder)} ${marketId}/${outcome}`
      if (BigInt(held) !== (expected.get(key) ?? 0n)) {
        return `${key} is ${held}, not ${expected.get(key) ?? 0n}, at block ${number}`
      }
      expected.delete(key)
    }
  }
  const [missing] = expected.keys()
  return missing === undefined ? undefined : `${missing} is missing at block ${number}`
}
