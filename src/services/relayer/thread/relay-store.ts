/** The relayer's records in the database: its operations, and the gas it has paid. */

import { purposeOf } from '#domain/relay.ts'
import type { Query } from '#store/reads/queries.ts'
import { askWrite, type WriteQueueRef } from '#store/writes/ask-write.ts'
import type { RelayerPorts } from '../ports.ts'

const UNFINISHED_READ_MAX = 10_000
/** Maximum age and maximum number of settled trades that raise an owner's gas limit. */
const TRADES_COUNTED_MS = 30 * 86_400_000
const TRADES_COUNTED_MAX = 100

type StorePorts = Pick<RelayerPorts, 'unfinished' | 'gasSince' | 'find' | 'open' | 'change'>

export function relayStore(
  chainId: number,
  query: Query,
  store: WriteQueueRef,
  nowMs: () => number,
): StorePorts {
  return {
    unfinished: () => query('unfinishedRelays', { chainId, limit: UNFINISHED_READ_MAX }),
    async gasSince(sinceMs) {
      const [redemption, other] = await Promise.all([
        query('relayGasSince', { chainId, purpose: 'redemption', sinceMs }),
        query('relayGasSince', { chainId, purpose: 'other', sinceMs }),
      ])
      return { redemption, other }
    },
    async find(key, { owner, kind }, sinceMs) {
      const [record, gas, trades] = await Promise.all([
        query('relayByKey', { key }),
        query('relayGasSince', { chainId, owner, purpose: purposeOf(kind), sinceMs }),
        query('settledTradesOf', {
          ...{ chainId, trader: owner, limit: TRADES_COUNTED_MAX },
          sinceMs: nowMs() - TRADES_COUNTED_MS,
        }),
      ])
      return { record, gas, trades }
    },
    open: (relay) => askWrite(store, 'openRelay', relay),
    change: (change) => askWrite(store, 'changeRelay', change),
  }
}
