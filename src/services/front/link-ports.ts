/** Defines the parts of a front that its links to other threads use. Also reports lost messages. */

import type { Log } from '#config/logging.ts'
import type { Authenticator } from '#http/auth.ts'
import type { ContractSignatures } from '#live/contract-signatures.ts'
import type { Delegates } from '#live/delegates.ts'
import type { MarketBoard } from '#live/market-board.ts'
import type { MarketEvents } from '#live/market-events.ts'
import type { FiguresBook } from '#live/market-figures.ts'
import type { PriceBoard } from '#live/price-board.ts'
import type { WithdrawnOrders } from '#live/withdrawn-orders.ts'
import type { Protocol } from '#runtime/actor.ts'
import type { LinkMeters } from '#services/kit/link-metrics.ts'
import type { HeldSessions } from '#stream/held-sessions.ts'
import type { StreamHub } from '#stream/hub.ts'
import type { FrontPools } from './pools.ts'

/** Parts that exist only after the front has opened its pools, because they read the database. */
export type LateParts = {
  pools?: FrontPools
  hub?: StreamHub
  heldSessions?: HeldSessions
  figures?: FiguresBook
  withdrawn?: WithdrawnOrders
  delegates?: Delegates
  contracts?: ContractSignatures
  marketEvents?: MarketEvents
}

export type LinkPorts = {
  readonly log: Pick<Log, 'warn'>
  readonly meters: LinkMeters
  readonly board: MarketBoard
  readonly priceBoard: PriceBoard
  readonly authenticator: Authenticator
  readonly late: LateParts
  /** Called when idle markets become active. */
  readonly woken: () => void
}

/** One handler per kind of event. */
export type EventHandlers<P extends Protocol> = { [K in keyof P]: (message: P[K]['takes']) => void }

export type LossReports = ReturnType<typeof makeLossReports>

export function makeLossReports({ meters, log }: Pick<LinkPorts, 'meters' | 'log'>) {
  return {
    /** Reports that messages of this peer were lost, because this front did not read them quickly enough. */
    lost(peer: string): void {
      meters.reloaded(peer)
      log.warn(
        { peer },
        `messages of ${peer} were dropped because this thread read them too slowly; the data of ` +
          `${peer} is reloaded`,
      )
    },
    dropped: (peer: string) => () => meters.dropped(peer),
  }
}
