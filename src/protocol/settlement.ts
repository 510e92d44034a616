/** Messages to the settlement of a chain. */

import type { TradeTrace } from './projector.ts'

export type SettlementRequests = {
  /**
   * Reports that new trades are in the database. If the message is lost, settlement still finds the trades, because it
   * also reads the database regularly.
   */
  TradesWritten: { takes: object; answers: undefined }
}

/** Messages to the settlement thread, for all of its chains. */
export type TracedTradesProtocol = {
  /** Traces of trades that are, or will be, in the database. */
  TradesTraced: { takes: { traces: readonly TradeTrace[] }; answers: undefined }
}
