/** Keeps the balance of each holder and token, which is the sum of all movements. */

import type { ChainEvent, TokensMoved } from '#domain/chain-event.ts'
import { ZERO_ADDRESS } from '#domain/ids.ts'
import { partsOf } from '#domain/parts-of.ts'
import { bytesOf, hexOf } from '../engine/hex.ts'
import type { Statements } from '../engine/statements.ts'

export function isMove(event: ChainEvent): event is TokensMoved {
  return event.type === 'TokensMoved'
}

/** Adds the movements to the balances, or subtracts the movements if `sign` is -1. */
export async function moveBalances(
  sql: Statements,
  chainId: number,
  moves: readonly {
    positionId: string
    from: string
    to: string
    amount: bigint
    blockNumber: number
  }[],
  sign: 1 | -1,
): Promise<void> {
  const changes = new Map<
    string,
    { positionId: string; holder: string; delta: bigint; blockNumber: number }
  >()
  const change = (positionId: string, holder: string, delta: bigint, blockNumber: number): void => {
    if (holder === ZERO_ADDRESS) return
    const key = `${positionId}${holder}`
    const before = changes.get(key)?.delta ?? 0n
    changes.set(key, { positionId, holder, delta: before + delta, blockNumber })
  }
  for (const { positionId, from, to, amount, blockNumber } of moves) {
    change(positionId, from, sign === 1 ? -amount : amount, blockNumber)
    change(positionId, to, sign === 1 ? amount : -amount, blockNumber)
  }
  const before = await balancesOf(sql, chainId, [...changes.values()])
  await sql.insert(
    'chain_token_balances',
    [...changes].map(([key, { positionId, holder, delta, blockNumber }]) => ({
      chain_id: chainId,
      position_id: bytesOf(positionId),
      holder: bytesOf(holder),
      balance_e6: String((before.get(key) ?? 0n) + delta),
      block_number: blockNumber,
    })),
    sql.isMysql
      ? ` on duplicate key update balance_e6 = values(balance_e6),
          block_number = values(block_number)`
      : ` on conflict (chain_id, position_id, holder) do update set
          balance_e6 = excluded.balance_e6, block_number = excluded.block_number`,
  )
}

/** Keys per query. */
const KEYS_MAX = 100

/**
 * Returns balances by token and holder. They are added in code and not in SQL, because they may have 256 bits and the
 * databases have no such integers.
 */
async function balancesOf(
  sql: Statements,
  chainId: number,
  keys: readonly { readonly positionId: string; readonly holder: string }[],
): Promise<Map<string, bigint>> {
  const balances = new Map<string, bigint>()
  for (const part of partsOf(keys, KEYS_MAX)) {
    const rows = await sql.all<{ position_id: Uint8Array; holder: Uint8Array; balance: string }>(
      `select position_id, holder, cast(balance_e6 as char) as balance from chain_token_balances
        where chain_id = ? and (${part.map(() => '(position_id = ? and holder = ?)').join(' or ')})`,
      [
        chainId,
        ...part.flatMap(({ positionId, holder }) => [bytesOf(positionId), bytesOf(holder)]),
      ],
    )
    for (const row of rows) {
      balances.set(`${hexOf(row.position_id)}${hexOf(row.holder)}`, BigInt(row.balance))
    }
  }
  return balances
}
