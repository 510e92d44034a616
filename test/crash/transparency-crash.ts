/**
 * Kills an exchange with a public log again and again while it accepts orders and a witness repeatedly requests
 * checkpoints. Half of the kills happen right after a new checkpoint. No checkpoint may contradict an earlier one. In
 * the end the whole log is verified and replayed. Every signed checkpoint must match a prefix of the log, and the log
 * must contain every accepted order. `crashUnderWitness` starts a process after each kill; in `crashTakeovers` a second
 * node is already running and takes over.
 */

import assert from 'node:assert/strict'
import { setTimeout as pause } from 'node:timers/promises'
import { type NamedLog, namedLogs } from '#cli/public-logs.ts'
import { feedWitness } from '#cli/witness/witness-server.ts'
import { createClient } from '#client/client.ts'
import { openCheckpoint, parseCheckpoint, type TreeHead } from '#transparency/checkpoint.ts'
import { makeEventReader } from '#transparency/public-event.ts'
import { readCheckpoint, verifyEntries } from '#transparency/remote-log.ts'
import { makeReplay } from '#transparency/replay.ts'
import { TreeBuilder } from '#transparency/tree-builder.ts'
import { treeHasher } from '#transparency/tree-hash.ts'
import type { Witness } from '#transparency/witness.ts'
import { openNode } from '../support/cluster.ts'
import { eventually } from '../support/eventually.ts'
import { type Environment, type Exchange, openExchange } from '../support/exchange.ts'
import { type Random, randomFrom } from '../support/random.ts'
import { newWitnessSigner } from '../transparency/memory-log.ts'
import { type Life, makeOrders } from './http-crash.ts'

type WitnessedReport = {
  kills: number
  accepted: number
  /** Number of checkpoints that the witness cosigned, each newer than the one before. */
  cosigned: number
  /** Number of signed checkpoints that the exchange published. Checkpoints of the same size count once. */
  signed: number
  entries: number
}

/** Orders under way at once. */
const LANES = 8
const ORDERS_MAX = 200
/**
 * Pause between two requests of the witness. The exchange publishes only every 100 ms, so an even shorter pause would
 * only waste CPU time.
 */
const WITNESS_PAUSE_MS = 20
const COLLECT_PAUSE_MS = 2
/** Maximum numbers of accepted orders and of cosigned checkpoints before the kill. */
const ANSWERS_MAX = 60
const CHECKPOINTS_MAX = 4

export async function crashUnderWitness(options: {
  readonly kills: number
  readonly seed: number
  /** Environments of the exchanges, which run in turn. A single environment is used in every round. */
  readonly environments: readonly Environment[]
  /** Called between a kill and the next start. */
  readonly whileDown?: (round: number, exchange: Exchange) => Promise<void>
  readonly onRound?: (report: WitnessedReport) => void
}): Promise<WitnessedReport> {
  const random = randomFrom(options.seed)
  const report: WitnessedReport = { kills: 0, accepted: 0, cosigned: 0, signed: 0, entries: 0 }
  const nodes: Exchange[] = []
  const witness = newWitness()
  const accepted: Life[] = []
  const seen = makeSeen()
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
      const atCheckpoint = random.chance(0.5)
      const watched = { door: exchange, victim: exchange, witness, seen }
      accepted.push(...(await tradeUntilKilled(watched, orders, { isDue, atCheckpoint })))
      report.kills++
      report.accepted = accepted.length
      report.cosigned = witness.cosigned()
      report.signed = seen.count()
      options.onRound?.(report)
      await options.whileDown?.(round, exchange)
    }
    assert.ok(exchange !== undefined)
    report.entries = await verifyAll({ door: exchange, witness, seen }, accepted)
    report.signed = seen.count()
    report.cosigned = witness.cosigned()
    return report
  } catch (error) {
    throw new Error(`TEST_SEED=${options.seed}: ${error}\n${exchange?.output()}`, { cause: error })
  } finally {
    for (const node of nodes) await node.dispose()
  }
}

/** Roles of each of the two nodes: all roles except `front`. One node serves them, and the other takes them over. */
const NODE_ROLES = 'market,store,chain,prices'

/**
 * Kills the node that publishes the log. A second node is already running and takes over. A front that is never killed
 * serves orders and checkpoints, so that the witness sees the log through every takeover.
 */
export async function crashTakeovers(options: {
  readonly kills: number
  readonly seed: number
  /** NATS, log and database. */
  readonly shared: Environment
  readonly onRound?: (report: WitnessedReport) => void
}): Promise<WitnessedReport> {
  const random = randomFrom(options.seed)
  const report: WitnessedReport = { kills: 0, accepted: 0, cosigned: 0, signed: 0, entries: 0 }
  const shared = {
    ...{ SIBYL_TRANSPARENCY: 'on', SIBYL_TRANSPARENCY_INTERVAL_MS: '100' },
    ...{ SIBYL_CLUSTER_SILENCE_MS: '1500', ...options.shared },
  }
  const witness = newWitness()
  const seen = makeSeen()
  const accepted: Life[] = []
  const nodes: Exchange[] = []
  try {
    for (const [name, roles] of [
      ['a', NODE_ROLES],
      ['b', NODE_ROLES],
      ['front', 'front'],
    ] as const) {
      nodes.push(await openNode(shared, name, roles))
    }
    const door = nodes[2]!
    for (let round = 0; round < options.kills; round++) {
      const victim = nodes[round % 2]!
      const orders = await makeOrders(random, ORDERS_MAX)
      // Sends the first order until it is accepted, because the front may refuse orders during a takeover.
      await eventually(() => submitTo(door, orders[0]!))
      accepted.push(orders[0]!)
      const answers = random.int(1, ANSWERS_MAX)
      const checkpoints = witness.cosigned() + random.int(1, CHECKPOINTS_MAX)
      const isDue = (count: number) => count >= answers && witness.cosigned() >= checkpoints
      const watched = { door, victim, witness, seen }
      const atCheckpoint = random.chance(0.5)
      const plan = { isDue, atCheckpoint, afterKill: () => takenOver(door, random, accepted) }
      accepted.push(...(await tradeUntilKilled(watched, orders.slice(1), plan)))
      report.kills++
      report.accepted = accepted.length
      report.cosigned = witness.cosigned()
      report.signed = seen.count()
      options.onRound?.(report)
      // The restarted node takes over in the next round.
      if (round < options.kills - 1) await victim.start()
    }
    report.entries = await verifyAll({ door, witness, seen }, accepted)
    report.signed = seen.count()
    report.cosigned = witness.cosigned()
    return report
  } catch (error) {
    const said = nodes.map((node, at) => `== node ${at}\n${node.output()}`).join('\n')
    throw new Error(`TEST_SEED=${options.seed}: ${error}\n${said}`, { cause: error })
  } finally {
    for (const node of nodes) await node.dispose()
  }
}

async function submitTo(door: Exchange, { submission }: Life): Promise<void> {
  await createClient({ url: door.url, retries: 0, timeoutMs: 20_000 }).orders.submit(submission)
}

/** Resolves when the other node has accepted an order and published it. */
async function takenOver(door: Exchange, random: Random, accepted: Life[]): Promise<void> {
  const [order] = await makeOrders(random, 1)
  await eventually(() => submitTo(door, order!))
  accepted.push(order!)
  await eventually(async () => {
    const { status } = await fetch(`${door.url}/api/v1/orders/${order!.orderHash}/proof`)
    assert.equal(status, 200)
  })
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

/** Asks the witness to cosign every log of the exchange once; throws if the witness refuses a checkpoint. */
async function feed(exchange: Exchange, witness: Witness): Promise<void> {
  for (const log of await namedLogs(exchange.url, undefined)) {
    ;(witness.logs as Map<string, unknown>).set(log.origin, [log.key])
    await feedWitness(witness, log)
  }
}

/** All signed checkpoints that were ever read, including those whose tiles were never served. */
type Seen = {
  /** Records a checkpoint; returns whether its size is new, and throws if another root was signed for that size. */
  add(head: TreeHead): boolean
  rootOf(origin: string, size: number): string | undefined
  count(): number
}

function makeSeen(): Seen {
  const roots = new Map<string, string>()
  const nameOf = (origin: string, size: number) => `${origin} ${size}`
  return {
    add({ origin, size, root }) {
      const name = nameOf(origin, size)
      const hex = Buffer.from(root).toString('hex')
      const known = roots.get(name)
      if (known !== undefined && known !== hex) {
        throw new Error(`${origin} was rewritten: two roots of ${size} entries are signed`)
      }
      roots.set(name, hex)
      return known === undefined
    },
    rootOf: (origin, size) => roots.get(nameOf(origin, size)),
    count: () => roots.size,
  }
}

type Watched = {
  /** The exchange that receives orders and serves the log. */
  readonly door: Exchange
  readonly witness: Witness
  readonly seen: Seen
}

async function tradeUntilKilled(
  { door, victim, witness, seen }: Watched & { readonly victim: Exchange },
  orders: readonly Life[],
  {
    isDue,
    atCheckpoint,
    afterKill,
  }: {
    readonly isDue: (accepted: number) => boolean
    readonly atCheckpoint: boolean
    /** Called after the kill. The witness continues until the returned promise resolves. */
    readonly afterKill?: () => Promise<void>
  },
): Promise<Life[]> {
  const client = createClient({ url: door.url, retries: 0, timeoutMs: 120_000 })
  const accepted: Life[] = []
  let next = 0
  let killed: Promise<void> | undefined
  let isOver = false

  function kill(): void {
    killed ??= victim
      .kill('SIGKILL')
      .then(afterKill)
      .finally(() => {
        isOver = true
      })
    if (afterKill === undefined) isOver = true
  }

  async function lane(): Promise<void> {
    for (
      let life = orders[next++];
      life !== undefined && killed === undefined;
      life = orders[next++]
    ) {
      try {
        await client.orders.submit(life.submission)
        accepted.push(life)
        if (!atCheckpoint && isDue(accepted.length)) kill()
      } catch (error) {
        if (killed === undefined) throw error
      }
    }
  }

  async function watch(): Promise<void> {
    for (; !isOver; await pause(WITNESS_PAUSE_MS)) {
      try {
        await feed(door, witness)
      } catch (error) {
        // A checkpoint that is refused, or contradicts an earlier one, is always a failure. After the kill, all other
        // errors are ignored. Before the kill, only errors about files that are not available yet are ignored.
        if (isContradiction(error)) throw error
        if (killed === undefined && !isNotThere(error)) throw error
      }
    }
  }

  /** Reads checkpoints soon after they are signed, even before their tiles are available. */
  async function collect(): Promise<void> {
    const known = new Map<string, NamedLog>()
    for (; !isOver; await pause(killed === undefined ? COLLECT_PAUSE_MS : WITNESS_PAUSE_MS)) {
      try {
        if (known.size === 0) {
          for (const log of await namedLogs(door.url, undefined)) known.set(log.origin, log)
        }
        for (const log of known.values()) {
          const text = Buffer.from((await log.get('checkpoint')) ?? '').toString()
          const isNew = seen.add(openCheckpoint(text, log.key).head)
          if (isNew && atCheckpoint && isDue(accepted.length)) kill()
        }
      } catch (error) {
        if (isContradiction(error)) throw error
        if (killed === undefined && !isNotThere(error)) throw error
      }
    }
  }

  const trading = Promise.all(Array.from({ length: LANES }, lane)).then(kill)
  await Promise.all([watch(), collect(), trading])
  await killed
  return accepted
}

function isContradiction(error: unknown): boolean {
  return /refuses|rewritten/.test(String(error))
}

/**
 * Returns whether an error only means that a file of the log is not available yet. There is no log before the first
 * checkpoint, and a tile may appear a moment after its checkpoint.
 */
function isNotThere(error: unknown): boolean {
  return /does not publish its log|fetch failed|terminated/.test(String(error))
}

/** Verifies and replays all logs; returns how many entries they have. */
async function verifyAll(
  { door, witness, seen }: Watched,
  accepted: readonly Life[],
): Promise<number> {
  for (const { orderHash } of accepted) {
    await eventually(async () => {
      const { status } = await fetch(`${door.url}/api/v1/orders/${orderHash}/proof`)
      assert.equal(status, 200, `${orderHash} is not provable`)
    })
  }
  await feed(door, witness)
  let entries = 0
  for (const log of await namedLogs(door.url, undefined)) {
    const read = makeEventReader()
    const replay = makeReplay(() => {})
    const builder = new TreeBuilder(treeHasher)
    const whole = new TreeBuilder(treeHasher)
    await verifyEntries(log, await readCheckpoint(log), builder, (entry) => {
      for (const event of read(entry)) replay.apply(event)
      whole.append(treeHasher.leaf(entry))
      const signed = seen.rootOf(log.origin, whole.size)
      const root = Buffer.from(whole.root()).toString('hex')
      assert.ok(
        signed === undefined || signed === root,
        `rewritten: ${log.origin} at ${whole.size}`,
      )
    })
    entries += builder.size
  }
  return entries
}
