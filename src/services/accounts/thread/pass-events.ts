/** Handles the events of the accounts actor: one handler per type of event. */

import type { Address } from '#domain/ids.ts'
import type { AccountsFollowerProtocol } from '#protocol/accounts.ts'
import type { makeFollowers, ThreadContext, Writers } from '#services/kit/kit.ts'
import type { AccountsEvent } from '../state.ts'
import type { LogFeed } from './log-feed.ts'

/** Approximate size in bytes of one changed account in a message to a front. */
const ACCOUNT_BYTES = 128

type Pass = {
  [K in AccountsEvent['type']]: (event: Extract<AccountsEvent, { type: K }>) => void
}

type PassPorts = {
  readonly feed: () => LogFeed | undefined
  readonly writers: Pick<Writers, 'marketOf'>
  readonly fronts: Pick<ReturnType<typeof makeFollowers<AccountsFollowerProtocol>>, 'tell'>
}

export function makePass(
  { log }: Pick<ThreadContext, 'log'>,
  { feed, writers, fronts }: PassPorts,
) {
  /** Changes of funds that are not sent to the fronts yet. */
  const changed = new Map<string, { readonly chainId: number; readonly trader: Address }>()
  const pass: Pass = {
    CheckpointsLoaded({ checkpoints }) {
      for (const { partition, offset } of checkpoints) feed()?.foldedTo(partition, offset)
      feed()?.read()
    },
    Withdrawn({ marketId, trader, orderHashes }) {
      const message = { marketId, trader, orderHashes, reason: 'unfunded' as const }
      // The answer is ignored: if an order is not cancelled, the accounts actor emits `Withdrawn` for the order again.
      void writers.marketOf(marketId).ask('CancelOrders', message)
    },
    FundsChanged(event) {
      changed.set(`${event.chainId} ${event.trader}`, event)
    },
    Trouble({ what, why }) {
      log.warn({ what, why }, 'the accounts thread could not read this data; the read is retried')
    },
    Refused() {},
  }
  return {
    pass: (event: AccountsEvent): void => pass[event.type](event as never),
    tellChanged(): void {
      if (changed.size === 0) return
      const accounts = [...changed.values()].map(({ chainId, trader }) => ({ chainId, trader }))
      changed.clear()
      fronts.tell('FundsChanged', { accounts }, ACCOUNT_BYTES * accounts.length)
    },
  }
}
