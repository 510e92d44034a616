/** Messages to the settlement of a chain. */

export type SettlementRequests = {
  /** New trades are in the database. Telling is enough: it is also read by itself. */
  TradesWritten: { takes: object; answers: undefined }
}
