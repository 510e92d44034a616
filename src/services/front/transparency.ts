/** Routes of the public log. They read the database, so every front of every node gives the same answers. */

import { logFiles } from '#api/transparency/log-files.ts'
import { proofs } from '#api/transparency/proofs.ts'
import type { PublicLogSource, PublishedTree } from '#api/transparency/public-log-source.ts'
import type { Receipts } from '#api/transparency/receipts.ts'
import { signatures } from '#api/transparency/signatures.ts'
import type { Settings } from '#config/settings-schema.ts'
import { isPublic, originOf, topologyOf } from '#config/thread-data.ts'
import { partitionOf } from '#config/topology.ts'
import type { Route } from '#http/route.ts'
import { shareReads } from '#http/shared-reads.ts'
import type { Clock } from '#runtime/clock.ts'
import { makeCheckpointSigners } from '#services/transparency/thread/checkpoint-signers.ts'
import type { Query } from '#store/reads/queries.ts'
import { verifierKeyText } from '#transparency/note.ts'
import { receiptText } from '#transparency/receipt.ts'
import { parseWitness } from '#transparency/witness-request.ts'

/**
 * Maximum time for which the published trees of the public log are cached. A checkpoint in an answer may be older than
 * the newest checkpoint by at most this time.
 */
const TREES_KEPT_MS = 50

/** Returns the routes of the public log, and a function that signs receipts for the answers of other routes. */
export function openTransparency(
  settings: Settings,
  query: Query,
  clock: Clock,
): { readonly routes: Route[]; readonly receipts: Receipts } {
  const signers = makeCheckpointSigners(settings.transparency.keys)
  const topology = topologyOf(settings)
  /** Name of the public log; undefined until a first tree is published. */
  let logId: string | undefined
  const trees = shareReads<readonly PublishedTree[]>({
    ...{ keepMs: TREES_KEPT_MS, entriesMax: 1, clock },
  })
  const source: PublicLogSource = {
    trees: () => (isPublic(settings) ? trees.read('', () => query('publicTrees', {})) : []),
    async tile(partition, level, index) {
      const [tile] = await query('publicTiles', { partition, places: [{ level, index }] })
      return tile?.hashes
    },
    entries: (partition, from, count) => query('publicEntries', { partition, from, count }),
    leafAt: (partition, atMs) => query('publicLeafAt', { partition, atMs }),
    witnesses: settings.transparency.witnesses.flatMap((text) => {
      const witness = parseWitness(text)
      return witness === undefined ? [] : [verifierKeyText(witness.key)]
    }),
    keys: ({ logId, partition }) =>
      signers.keys(originOf(settings, logId, partition)).map(verifierKeyText),
  }
  const receipts: Receipts = (receipt) => {
    // A receipt contains the random name of the public log. The name is loaded with the log's trees; before that,
    // answers have no receipt.
    if (logId === undefined && isPublic(settings)) {
      void query('publicTrees', {}).then(
        ([tree]) => {
          logId = tree?.logId
        },
        () => {},
      )
    }
    if (logId === undefined) return undefined
    const origin = originOf(settings, logId, partitionOf(receipt.marketId, topology))
    return signers.signText(origin, receiptText({ ...receipt, origin, atMs: clock.nowMs() }))
  }
  const routes = [
    ...logFiles(source),
    signatures(async (orderHashes) =>
      isPublic(settings)
        ? query('endedOrders', { orderHashes, nowSec: Math.floor(clock.nowMs() / 1_000) })
        : [],
    ),
    ...proofs({
      source,
      orderPlace: (orderHash) => query('orderPlace', { orderHash }),
      tradePlace: (marketId, seq, fill) => query('tradePlace', { marketId, seq, fill }),
    }),
  ]
  return { routes, receipts }
}
