/** Passes on the events of the accounts actor: one handler per event. */

import type { Address } from '#domain/ids.ts'
import type { AccountsFollowerProtocol } from '#protocol/accounts.ts'
import type { makeFollowers, ThreadContext, Writers } from '#services/kit/kit.ts'
import type { AccountsEvent } from '../state.ts'
import type { LogFeed } from './log-feed.ts'

/** Approximate size of a message about changed funds. */
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
      // The result is ignored: an order that stays is emitted again.
      void writers.marketOf(marketId).ask('CancelOrders', message)
    },
    FundsChanged(event) {
      changed.set(`${event.chainId} ${event.trader}`, event)
    },
    Trouble({ what, why }) {
      log.warn({ what, why }, 'accounts cannot be stored at present')
    },
    Refused() {},
  }
  return {
    pass: (event: AccountsEvent): void => pass[event.type](event as never),
    tellChanged(): void {
      if (changed.size === 0) return
      const told = [...changed.values()].map(({ chainId, trader }) => ({ chainId, trader }))
      changed.clear()
      fronts.tell('FundsChanged', { accounts: told }, ACCOUNT_BYTES * told.length)
    },
  }
}
