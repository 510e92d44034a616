/**
 * Generates many trades inside the database by SQL, with their markets, users, positions and redemptions. Ids are
 * numbers: market 7 has the id 0x0…07, and the addresses of its contract and of user 7 are 0x0…07. Every ninth trade
 * has failed, and every eighth of the others is pending.
 */

import { type Database, sqlConnection } from '#store/engine/database.ts'

export type Large = {
  readonly trades: number
  readonly markets: number
  /** Number of markets with trades; all by default. */
  readonly traded?: number
  readonly users: number
  /** Time of the newest trade. Trades are one second apart. */
  readonly endMs?: number
  readonly chainId?: number
}

/** Rows of one statement. */
const STEP = 100_000

/**
 * SQL for the numbers from 0 to 99,999 as `i`. They are composed of five digits, because each database limits
 * recursion differently.
 */
const DIGITS = `(${Array.from({ length: 10 }, (_, digit) => `select ${digit} as d`).join(' union all ')})`
const NUMBERS = `a.d + 10 * b.d + 100 * c.d + 1000 * e.d + 10000 * f.d as i
  from ${['a', 'b', 'c', 'e', 'f'].map((name) => `${DIGITS} as ${name}`).join(' cross join ')}`

export async function seedTrades(database: Database, large: Large): Promise<void> {
  const { trades, markets, users, traded = markets } = large
  const chainId = large.chainId ?? 31_337
  const startMs = large.endMs === undefined ? 1_700_000_000_000 : large.endMs - trades * 1_000
  const connection = sqlConnection(database)
  const lite = database.address.dialect === 'sqlite'
  const run = (statement: string) => connection.execute(statement, [], 'run')
  const id = (number: string) =>
    lite ? `unhex(printf('%064x', ${number}))` : `unhex(lpad(hex(${number}), 64, '0'))`
  const address = (number: string) =>
    lite ? `unhex(printf('%040x', ${number}))` : `unhex(lpad(hex(${number}), 40, '0'))`
  const insert = async (into: string, count: number, select: string) => {
    for (let from = 0; from < count; from += STEP) {
      const below = Math.min(count, from + STEP)
      await run(
        `insert into ${into} ${select} from (select ${from} + ${NUMBERS}) as n where i < ${below}`,
      )
    }
  }
  const words = 'question, description, category'
  await insert(
    `markets (market_id, chain_id, ${words}, contract_address, maker, expires_at_sec,
      created_at_sec, quick, opened_at_ms, log_partition, last_seq)`,
    markets,
    `select ${id('i')}, ${chainId}, 'Will it?', '', 'general', ${address('i')}, ${address('1')},
      2000000000, 1700000000 + i, case when i % 4 = 0 then 1 else 0 end, ${startMs}, 0, 1`,
  )
  // Puts consecutive trades into the same market. So all trades of a market are within a few minutes.
  const perMarket = Math.ceil(trades / traded)
  const marketOf = lite ? `(i / ${perMarket})` : `(i div ${perMarket})`
  await insert(
    `trades (market_id, seq, fill_index, chain_id, outcome, price_e6, size_e6, cost_e6, buyer, seller,
      buy_order_hash, sell_order_hash, taker_side, matched_at_ms, status, pending, tx_hash, reason,
      attempts, failed_at_ms, updated_at_ms)`,
    trades,
    `select ${id(marketOf)}, i + 2, 0, ${chainId}, i % 2, 100000 + (i * 7919) % 800000, 1000000,
      100000 + (i * 7919) % 800000, ${address(`i % ${users} + 1`)}, ${address(`(i * 7 + 1) % ${users} + 1`)},
      ${id('i')}, ${id('i + 1')}, i % 2, ${startMs} + i * 1000,
      case when i % 9 = 0 then 'failed' when i % 8 = 0 then 'matched' else 'confirmed' end,
      case when i % 9 <> 0 and i % 8 = 0 then 1 else 0 end,
      case when i % 8 = 0 then null else ${id('i')} end, null, 1,
      case when i % 9 = 0 then ${startMs} + i * 1000 else null end, ${startMs} + i * 1000`,
  )
  await insert(
    `chain_markets (market_id, chain_id, contract_address, maker, question, description, searched,
      category, expires_at_sec, created_at_sec, quick, created_block, created_log_index, created_tx,
      resolved, withdrawn, listed)`,
    markets,
    `select ${id('i')}, ${chainId}, ${address('i')}, ${address('1')}, 'Will it?', '', '', 'general',
      2000000000, 1700000000 + i, 0, i, 0, ${id('i')}, 0, 0, 1`,
  )
  // Each user has split some collateral into a full set of shares, in each of two markets.
  const held = users * 2
  const over = (number: string, divisor: number) =>
    lite ? `(${number} / ${divisor})` : `(${number} div ${divisor})`
  const marketOfHeld = (number: string) => `((${number} + ${over(number, users)}) % ${markets})`
  await insert(
    'chain_outcomes (chain_id, position_id, market_id, outcome)',
    markets * 2,
    `select ${chainId}, ${id('i')}, ${id(over('i', 2))}, i % 2`,
  )
  const half = over('i', 2)
  await insert(
    `chain_token_moves (chain_id, block_number, log_index, part, position_id, sender, receiver,
      amount_e6, kind, tx_hash, at_sec)`,
    held * 2,
    `select ${chainId}, ${half} + 1, i % 2, 0, ${id(`${marketOfHeld(half)} * 2 + i % 2`)},
      ${address('0')}, ${address(`${half} % ${users} + 1`)}, 1000 + ${half}, 'split',
      ${id(half)}, 1700000000`,
  )
  await insert(
    `chain_conversions (chain_id, block_number, log_index, kind, holder, market_id, amount_e6,
      index_sets, tx_hash, at_sec)`,
    held,
    `select ${chainId}, i + 1, 2, 'split', ${address(`i % ${users} + 1`)}, ${id(marketOfHeld('i'))},
      1000 + i, '', ${id('i')}, 1700000000`,
  )
  await insert(
    `chain_conversions (chain_id, block_number, log_index, kind, holder, market_id, amount_e6,
      index_sets, tx_hash, at_sec)`,
    users,
    `select ${chainId}, ${held} + 1 + i, 0, 'redeem', ${address('i + 1')}, ${id(`i % ${markets}`)}, 5,
      '1', ${id('i')}, 1700000000`,
  )
  await insert(
    `positions (market_id, holder, chain_id, yes_shares_e6, no_shares_e6, total_shares_e6,
      yes_cost_e6, no_cost_e6)`,
    held,
    `select ${id(marketOfHeld('i'))}, ${address(`i % ${users} + 1`)}, ${chainId}, 1000 + i, 1000 + i,
      ${lite ? "printf('%078d', 2000 + i + i)" : "lpad(2000 + i + i, 78, '0')"}, ${over('(1001 + i)', 2)}, ${over('(1000 + i)', 2)}`,
  )
  const locked = `sum(cast(amount_e6 as signed) * case when kind = 'split' then 1 else -1 end)`
  await run(`insert into market_holdings (market_id, chain_id, holders, locked_e6)
    select market_id, chain_id, count(distinct case when kind = 'split' then holder end), ${locked}
    from chain_conversions group by market_id, chain_id`)
  await run(`insert into chain_holdings (chain_id, holders, locked_e6)
    select chain_id, sum(holders), sum(cast(locked_e6 as signed)) from market_holdings group by chain_id`)
  await run(
    lite
      ? 'analyze'
      : `analyze table markets, trades, positions, market_holdings,
    chain_markets, chain_conversions`,
  )
}
