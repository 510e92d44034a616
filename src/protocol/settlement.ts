/** Messages to the settlement of a chain. */

export type SettlementRequests = {
  /** New trades are in the database. The message may be lost: settlement also reads by itself. */
  TradesWritten: { takes: object; answers: undefined }
}
