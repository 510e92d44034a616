/** Writes a market as the factory created it, and its outcome tokens. */

import type { MarketCreated } from '#domain/chain-event.ts'
import { Fault } from '#domain/fault.ts'
import type { MarketId } from '#domain/ids.ts'
import { bytesOf, hexOf } from '../engine/hex.ts'
import type { Statements } from '../engine/statements.ts'

/** Writes a new market. If a reorg moved a known market to another block, the market keeps its `withdrawn` flag. */
export async function createMarket(
  sql: Statements,
  chainId: number,
  { market, positions, quick, ...at }: MarketCreated,
): Promise<void> {
  const id = bytesOf(market.id)
  const [before] = await sql.all<{
    withdrawn: number
    listed: number
    chain_id: number | string
  }>('select withdrawn, listed, chain_id from chain_markets where market_id = ?', [id])
  if (
    before !== undefined &&
    (Number(before.listed) === 1 || Number(before.chain_id) !== chainId)
  ) {
    throw new Fault(
      'STORE_CONSTRAINT',
      `chain ${before.chain_id} already has a market with this id`,
      {
        retryable: false,
      },
    )
  }
  if (before !== undefined) await sql.run('delete from chain_markets where market_id = ?', [id])
  await sql.insert('chain_markets', [
    {
      market_id: id,
      chain_id: chainId,
      contract_address: bytesOf(market.contractAddress),
      maker: bytesOf(market.maker),
      question: market.question.toWellFormed(),
      description: market.description.toWellFormed(),
      searched: `${market.question}\n${market.description}`.toWellFormed().toLowerCase(),
      category: market.category,
      expires_at_sec: market.expiration,
      created_at_sec: market.createdAt,
      quick: market.quick ? 1 : 0,
      matching: market.matching ?? null,
      asset: quick?.asset.toWellFormed() ?? null,
      start_sec: quick?.startSec ?? null,
      start_price_e8: quick === undefined ? null : String(quick.startPrice),
      price_source: quick?.source.toWellFormed() ?? null,
      created_block: at.blockNumber,
      created_log_index: at.logIndex,
      created_tx: bytesOf(at.txHash),
      resolved: 0,
      withdrawn: Number(before?.withdrawn ?? 0),
      listed: 1,
    },
  ])
  await sql.run('delete from chain_outcomes where market_id = ?', [id])
  await sql.insert(
    'chain_outcomes',
    positions.map((positionId, outcome) => ({
      chain_id: chainId,
      position_id: bytesOf(positionId),
      market_id: id,
      outcome,
    })),
  )
}

/** Returns the ids of markets that a query finds. */
export async function marketIds(
  sql: Statements,
  query: string,
  values: readonly (string | number)[],
): Promise<MarketId[]> {
  const found = await sql.all<{ market_id: Uint8Array }>(query, values)
  return found.map((row) => hexOf(row.market_id) as MarketId)
}
