/**
 * Kills an exchange with a public log under orders, again and again, while a witness asks for checkpoints without a
 * pause. No checkpoint may contradict an earlier one; in the end the whole log is verified and replayed, and every
 * accepted order is in it. With several environments the next process takes over from the one that was killed.
 */

import assert from 'node:assert/strict'
import { namedLogs } from '#cli/public-logs.ts'
import { feedWitness } from '#cli/witness/witness-server.ts'
import { createClient } from '#client/client.ts'
import { parseCheckpoint } from '#transparency/checkpoint.ts'
import { makeEventReader } from '#transparency/public-event.ts'
import { readCheckpoint, verifyEntries } from '#transparency/remote-log.ts'
import { makeReplay } from '#transparency/replay.ts'
import { TreeBuilder } from '#transparency/tree-builder.ts'
import { treeHasher } from '#transparency/tree-hash.ts'
import type { Witness } from '#transparency/witness.ts'
import { eventually } from '../support/eventually.ts'
import { type Environment, type Exchange, openExchange } from '../support/exchange.ts'
import { randomFrom } from '../support/random.ts'
import { newWitnessSigner } from '../transparency/memory-log.ts'
import { type Life, makeOrders } from './http-crash.ts'

type WitnessedReport = {
  kills: number
  accepted: number
  /** Checkpoints that the witness cosigned, each newer than the one before. */
  cosigned: number
  entries: number
}

/** Orders under way at once. */
const LANES = 8
const ORDERS_MAX = 200
/** So many orders are accepted and so many checkpoints cosigned before the kill. */
const ANSWERS_MAX = 60
const CHECKPOINTS_MAX = 4

export async function crashUnderWitness(options: {
  readonly kills: number
  readonly seed: number
  /** One process after the other has these; with one, the same process starts again. */
  readonly environments: readonly Environment[]
  /** Is called between a kill and the next start. */
  readonly whileDown?: (round: number, exchange: Exchange) => Promise<void>
  readonly onRound?: (report: WitnessedReport) => void
}): Promise<WitnessedReport> {
  const random = randomFrom(options.seed)
  const report: WitnessedReport = { kills: 0, accepted: 0, cosigned: 0, entries: 0 }
  const nodes: Exchange[] = []
  const witness = newWitness()
  const accepted: Life[] = []
  const { environments } = options
  let exchange: Exchange | undefined
  try {
    for (let round = 0; round <= options.kills; round++) {
      const which = round % environments.length
      exchange = nodes[which]
      if (exchange === undefined) {
        const environment = { SIBYL_TRANSPARENCY: 'on', ...environments[which] }
        exchange = await openExchange({
          environment: { SIBYL_TRANSPARENCY_INTERVAL_MS: '100', ...environment },
        })
        nodes[which] = exchange
      } else await exchange.start()
      if (round === options.kills) break
      const orders = await makeOrders(random, ORDERS_MAX)
      const answers = random.int(1, ANSWERS_MAX)
      const checkpoints = witness.cosigned() + random.int(0, CHECKPOINTS_MAX)
      const isDue = (count: number) => count >= answers && witness.cosigned() >= checkpoints
      accepted.push(...(await tradeUntilKilled(exchange, witness, orders, isDue)))
      report.kills++
      report.accepted = accepted.length
      report.cosigned = witness.cosigned()
      options.onRound?.(report)
      await options.whileDown?.(round, exchange)
    }
    assert.ok(exchange !== undefined)
    report.entries = await verifyAll(exchange, witness, accepted)
    report.cosigned = witness.cosigned()
    return report
  } catch (error) {
    throw new Error(`TEST_SEED=${options.seed}: ${error}\n${exchange?.output()}`, { cause: error })
  } finally {
    for (const node of nodes) await node.dispose()
  }
}

function newWitness(): Witness & { cosigned(): number } {
  const kept = new Map<string, string>()
  let cosigned = 0
  return {
    logs: new Map(),
    signer: newWitnessSigner(),
    state: {
      read: (origin) => kept.get(origin),
      write(origin, checkpoint) {
        const before = parseCheckpoint(kept.get(origin) ?? '')?.head.size ?? 0
        if ((parseCheckpoint(checkpoint)?.head.size ?? 0) > before) cosigned++
        kept.set(origin, checkpoint)
      },
    },
    nowSec: () => Math.floor(Date.now() / 1_000),
    cosigned: () => cosigned,
  }
}

/** Has every log of the exchange cosigned once; throws if the witness refuses a checkpoint. */
async function feed(exchange: Exchange, witness: Witness): Promise<void> {
  for (const log of await namedLogs(exchange.url, undefined)) {
    ;(witness.logs as Map<string, unknown>).set(log.origin, [log.key])
    await feedWitness(witness, log)
  }
}

async function tradeUntilKilled(
  exchange: Exchange,
  witness: Witness,
  orders: readonly Life[],
  isDue: (accepted: number) => boolean,
): Promise<Life[]> {
  const client = createClient({ url: exchange.url, retries: 0, timeoutMs: 120_000 })
  const accepted: Life[] = []
  let next = 0
  let killed: Promise<void> | undefined

  async function lane(): Promise<void> {
    for (
      let life = orders[next++];
      life !== undefined && killed === undefined;
      life = orders[next++]
    ) {
      try {
        await client.orders.submit(life.submission)
        accepted.push(life)
        if (isDue(accepted.length)) killed ??= exchange.kill('SIGKILL')
      } catch (error) {
        if (killed === undefined) throw error
      }
    }
  }

  async function watch(): Promise<void> {
    while (killed === undefined) {
      try {
        await feed(exchange, witness)
      } catch (error) {
        // A refused or rewritten checkpoint is what is looked for; a request that a kill cut off is not.
        if (isContradiction(error)) throw error
        if (killed === undefined && !isNotThere(error)) throw error
      }
    }
  }

  const trading = Promise.all(Array.from({ length: LANES }, lane)).then(() => {
    killed ??= exchange.kill('SIGKILL')
  })
  await Promise.all([watch(), trading])
  await killed
  return accepted
}

function isContradiction(error: unknown): boolean {
  return /refuses|rewritten/.test(String(error))
}

/** Before the first checkpoint there is no log; a tile may come a moment after its front has read the checkpoint. */
function isNotThere(error: unknown): boolean {
  return /does not publish its log|fetch failed|terminated/.test(String(error))
}

/** Verifies and replays all logs; returns how many entries they have. */
async function verifyAll(
  exchange: Exchange,
  witness: Witness,
  accepted: readonly Life[],
): Promise<number> {
  for (const { orderHash } of accepted) {
    await eventually(async () => {
      const { status } = await fetch(`${exchange.url}/api/v1/orders/${orderHash}/proof`)
      assert.equal(status, 200, `${orderHash} is not provable`)
    })
  }
  await feed(exchange, witness)
  let entries = 0
  for (const log of await namedLogs(exchange.url, undefined)) {
    const read = makeEventReader()
    const replay = makeReplay(() => {})
    const builder = new TreeBuilder(treeHasher)
    await verifyEntries(log, await readCheckpoint(log), builder, (entry) => {
      for (const event of read(entry)) replay.apply(event)
    })
    entries += builder.size
  }
  return entries
}
