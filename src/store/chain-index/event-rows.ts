/**
 * Inserts rows that later blocks never change: steps of markets, movements, conversions, trades, withdrawals,
 * delegations.
 */

import type { ChainEvent } from '#domain/chain-event.ts'
import type { MarketId } from '#domain/ids.ts'
import { bytesOf } from '../engine/hex.ts'
import type { Row, Statements } from '../engine/statements.ts'
import { STEPS } from './resolution-steps.ts'

/** Returns the table and the row of an event whose kind has its own table; undefined for other events. */
function rowOf(event: ChainEvent): { readonly table: string; readonly row: Row } | undefined {
  switch (event.type) {
    case 'TokensMoved':
      return {
        table: 'chain_token_moves',
        row: {
          part: event.part,
          position_id: bytesOf(event.positionId),
          sender: bytesOf(event.from),
          receiver: bytesOf(event.to),
          amount_e6: String(event.amount),
          kind: event.kind,
        },
      }
    case 'TokensConverted':
      return {
        table: 'chain_conversions',
        row: {
          kind: event.kind,
          holder: bytesOf(event.holder),
          market_id: bytesOf(event.marketId),
          amount_e6: String(event.amount),
          index_sets: event.indexSets.join(','),
        },
      }
    case 'TradeSettled':
      return {
        table: 'chain_trades',
        row: {
          trade_key: bytesOf(event.tradeKey),
          settled: 1,
          market_id: bytesOf(event.marketId),
          buyer: bytesOf(event.buyer),
          seller: bytesOf(event.seller),
          buy_order_hash: bytesOf(event.buyHash),
          sell_order_hash: bytesOf(event.sellHash),
          outcome: event.outcome,
          price_e6: event.price,
          size_e6: String(event.size),
          cost_e6: String(event.cost),
          fault: 'none',
          reason: '',
        },
      }
    case 'TradeRejected':
      return {
        table: 'chain_trades',
        row: {
          trade_key: bytesOf(event.tradeKey),
          settled: 0,
          market_id: null,
          buyer: null,
          seller: null,
          buy_order_hash: bytesOf(event.buyHash),
          sell_order_hash: bytesOf(event.sellHash),
          outcome: null,
          price_e6: null,
          size_e6: null,
          cost_e6: null,
          fault: event.fault,
          reason: event.reason,
        },
      }
    case 'OrderWithdrawn':
      return {
        table: 'chain_withdrawn_orders',
        row: {
          order_hash: bytesOf(event.orderHash),
          trader: bytesOf(event.trader),
          effective_at_sec: event.effectiveAtSec,
        },
      }
    case 'OrdersWithdrawn':
      return {
        table: 'chain_withdrawn_epochs',
        row: {
          trader: bytesOf(event.trader),
          before_nonce: event.beforeNonce,
          effective_at_sec: event.effectiveAtSec,
        },
      }
    case 'DelegateSet':
      return {
        table: 'chain_delegates',
        row: {
          account: bytesOf(event.account),
          delegate: bytesOf(event.delegate),
          until_sec: event.untilSec,
          settles_until_sec: event.settlesUntilSec,
          max_order_size_e6: event.maxOrderSize,
          max_open_notional_e6: event.maxOpenNotional,
          markets: event.markets.map((id) => id.slice(2)).join(','),
        },
      }
    default:
      return undefined
  }
}

export async function insertEventRows(
  sql: Statements,
  chainId: number,
  events: readonly ChainEvent[],
): Promise<void> {
  const tables = new Map<string, Row[]>()
  const add = (table: string, event: ChainEvent, row: Row): void => {
    const rows = tables.get(table) ?? []
    if (rows.length === 0) tables.set(table, rows)
    const { blockNumber, logIndex, txHash, atSec } = event
    rows.push({
      chain_id: chainId,
      block_number: blockNumber,
      log_index: logIndex,
      ...row,
      tx_hash: bytesOf(txHash),
      at_sec: atSec,
    })
  }
  for (const event of events) {
    const happened = resolutionUpdate(event)
    if (happened !== undefined) {
      add('chain_market_events', event, {
        market_id: bytesOf(happened.marketId),
        event: happened.event,
        facts: JSON.stringify(happened.facts),
      })
    }
    const own = rowOf(event)
    if (own !== undefined) add(own.table, event, own.row)
  }
  for (const [table, rows] of tables) await sql.insert(table, rows)
}

/**
 * Returns the market, the name and the data of an event that creates a market or is a step of its resolution,
 * such as a proposal; undefined for other events.
 */
function resolutionUpdate(
  event: ChainEvent,
): { marketId: MarketId; event: string; facts: object } | undefined {
  switch (event.type) {
    case 'MarketCreated':
      return { marketId: event.market.id, event: 'created', facts: {} }
    case 'QuickMarketResolved':
      return {
        marketId: event.marketId,
        event: 'priced',
        facts: {
          winningOutcome: event.winningOutcome,
          startPrice: String(event.startPrice),
          endPrice: String(event.endPrice),
          source: event.source,
        },
      }
    case 'ResolutionProposed':
      return {
        marketId: event.marketId,
        event: 'proposed',
        facts: {
          assertionId: event.assertionId,
          proposer: event.proposer,
          asserter: event.asserter,
          outcome: event.outcome,
          bond: String(event.bond),
          assertedAtSec: event.assertedAtSec,
          windowEndsAtSec: event.windowEndsAtSec,
        },
      }
    case 'ResolutionDisputed':
    case 'ResolutionOverturned':
    case 'ResolutionAbandoned':
      return {
        marketId: event.marketId,
        event: STEPS[event.type],
        facts: { assertionId: event.assertionId },
      }
    case 'MarketResolved':
      return {
        marketId: event.marketId,
        event: 'resolved',
        facts: { assertionId: event.assertionId, winningOutcome: event.winningOutcome },
      }
    case 'MarketSettled':
      return {
        marketId: event.marketId,
        event: 'settled',
        facts: { settler: event.settler, winningOutcome: event.winningOutcome },
      }
    default:
      return undefined
  }
}
