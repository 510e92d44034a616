/**
 * Tests that no two signed checkpoints of a public log contradict each other. Two rules ensure this. First, entries are
 * computed from the rows of the log alone. Second, a thread stores a tree before it signs the tree, and it continues
 * the stored tree.
 *
 * The test also breaks one rule or both. It must then find the contradictions that the broken rules prevent.
 */

import assert from 'node:assert/strict'
import { createHash, randomBytes } from 'node:crypto'
import { test } from 'node:test'
import type { MarketEvent } from '#domain/market-event.ts'
import { JsonBytes } from '#log/json-bytes.ts'
import { PACKED } from '#log/packed-event.ts'
import {
  newPublicLog,
  type PublicLogPorts,
  type PublicLogProtocol,
  publicLog,
} from '#services/transparency/public-log.ts'
import { closeDatabase, type Database, sqlConnection } from '#store/engine/database.ts'
import { openDatabase } from '#store/open-database.ts'
import {
  growTrees,
  publicEntries,
  publicThroughMs,
  publicTiles,
  publicTrees,
  publishCheckpoints,
} from '#store/writes/public-log.ts'
import { lastTiles, TreeBuilder } from '#transparency/tree-builder.ts'
import { sameBytes, treeHasher } from '#transparency/tree-hash.ts'
import { onBothDatabases } from '../../support/databases.ts'
import { type Random, randomFrom } from '../../support/random.ts'
import { given } from '../market/market-fixture.ts'
import { randomFlow } from '../market/random-flow.ts'

const ROUNDS = 60
const STEPS = 400
const SEED = Number(process.env.TEST_SEED ?? 20_261_118)

type Rules = { readonly pure: boolean; readonly storedFirst: boolean }
type Life = 'kills' | 'two signers' | 'lost database'
type Signed = { readonly size: number; readonly root: Uint8Array }

/** The durable rows of an event log. */
function rowsOf(random: Random) {
  const market = given()
  const flow = randomFlow(market, random)
  for (let step = 0; step < STEPS; step++) flow.step()
  const rows: { first: number; count: number; payload: Buffer }[] = []
  for (let first = 0; first < market.events.length; ) {
    const events: MarketEvent[] = market.events.slice(first, first + random.int(1, 8))
    const text = new JsonBytes()
    for (const [at, event] of events.entries()) {
      text.raw(at === 0 ? '[\n' : ',\n')
      PACKED.write(event, events[at - 1], text)
    }
    text.raw('\n]')
    rows.push({ first: first + 1, count: events.length, payload: Buffer.from(text.bytes) })
    first += events.length
  }
  return rows
}

class Killed extends Error {}

/** Starts one incarnation of the thread. It dies at a random step and loses its state. */
function incarnation(ports: PublicLogPorts) {
  const state = newPublicLog(ports)
  let pending: Promise<unknown> = Promise.resolve()
  let isDead = false
  type Heard = { readonly type: keyof PublicLogProtocol; readonly message: object }
  const context = {
    emit() {},
    pipe(work: Promise<unknown>, done: (value: never) => Heard, failed: (error: unknown) => Heard) {
      pending = work.then(
        (value) => hear(done(value as never)),
        (error: unknown) => {
          if (error instanceof Killed) isDead = true
          hear(failed(error))
        },
      )
    },
  }
  const hear = ({ type, message }: Heard): void => {
    if (!isDead) publicLog[type](state, message as never, context as never)
  }
  return {
    isDead: () => isDead,
    async tick(): Promise<void> {
      hear({ type: 'Tick', message: {} })
      for (let waited: unknown; waited !== pending; ) {
        waited = pending
        await waited
      }
    },
  }
}

/** Publishes a log by many incarnations; returns how many signed checkpoints contradict the final log. */
async function contradictions(
  database: Database,
  rules: Rules,
  life: Life,
): Promise<{ readonly signed: number; readonly contradicting: number }> {
  const random = randomFrom(SEED)
  const rows = rowsOf(random)
  const signed: Signed[] = []
  let available = 0

  function portsOf(): PublicLogPorts {
    const salt = rules.pure ? '' : randomBytes(8)
    const mayDie = (): void => {
      if (life === 'kills' && random.chance(0.15)) throw new Killed('killed')
    }
    const last = () => (rows[available - 1]?.first ?? 1) + (rows[available - 1]?.count ?? 0) - 1
    const store: PublicLogPorts['grow'] = async (trees) => {
      mayDie()
      await growTrees(database, { trees })
      mayDie()
    }
    let unstored: Parameters<PublicLogPorts['grow']>[0] = []
    return {
      ...{ logId: 'log', partitions: 1, hasher: treeHasher },
      readRows: (_partition, from) =>
        rows
          .slice(0, available)
          .filter(({ first }) => first >= from)
          .slice(0, 3),
      firstOffset: () => 1,
      lastOffset: last,
      async load() {
        const [stored] = await publicTrees(database, {})
        const size = stored?.size ?? 0
        const places = lastTiles(size)
        const tiles = await publicTiles(database, { partition: 0, places })
        const throughMs = await publicThroughMs(database, { partition: 0, size })
        return [{ stored, partition: 0, tiles, throughMs }]
      },
      async grow(trees) {
        if (rules.storedFirst) await store(trees)
        else unstored = trees
      },
      async publish(checkpoints) {
        mayDie()
        // In this case the tree is stored only after its checkpoint was signed. If another writer has changed the
        // stored tree, the error is ignored.
        if (!rules.storedFirst) {
          await store(unstored).catch((error: unknown) => {
            if (error instanceof Killed) throw error
          })
        }
        await publishCheckpoints(database, { checkpoints })
      },
      sign(_partition, size, root) {
        signed.push({ size, root })
        return `checkpoint of ${size}`
      },
      hexSha256: (bytes) => createHash('sha256').update(salt).update(bytes).digest('hex'),
    }
  }

  let nodes = [incarnation(portsOf()), incarnation(portsOf())]
  const use = life === 'two signers' ? 2 : 1
  for (let round = 0; round < ROUNDS; round++) {
    available = Math.min(rows.length, available + random.int(0, 3))
    if (life === 'lost database' && random.chance(0.1)) {
      for (const table of ['public_trees', 'public_tiles', 'public_entries']) {
        await sqlConnection(database).execute(`delete from ${table}`)
      }
      nodes = [incarnation(portsOf())]
    }
    const at = random.int(0, use - 1)
    await nodes[at]!.tick()
    if (nodes[at]!.isDead()) nodes[at] = incarnation(portsOf())
  }
  // A last life publishes everything.
  available = rows.length
  const final = incarnation({ ...portsOf(), grow: (trees) => growTrees(database, { trees }) })
  for (let turn = 0; turn < rows.length; turn++) await final.tick()

  const roots = new Map<number, Uint8Array>()
  const builder = new TreeBuilder(treeHasher)
  const size = (await publicTrees(database, {}))[0]?.size ?? 0
  for (const entry of await publicEntries(database, { partition: 0, from: 0, count: size })) {
    builder.append(treeHasher.leaf(entry))
    roots.set(builder.size, builder.root())
  }
  const wrong = signed.filter((each) => {
    const root = roots.get(each.size)
    return root === undefined || !sameBytes(root, each.root)
  })
  return { signed: signed.length, contradicting: wrong.length }
}

await onBothDatabases(
  'a public log never contradicts itself',
  ({ migrated, giveBack, dialect }) => {
    // `pure`: an entry is computed from its row alone. `storedFirst`: a tree is stored before it is signed. `found`:
    // the faults that lead to contradictions in this case.
    const cases: readonly (Rules & { readonly found: readonly Life[] })[] = [
      { pure: true, storedFirst: true, found: [] },
      // If entries follow from the rows alone, all signers compute the same root, even if no tree is stored before it
      // is signed.
      { pure: true, storedFirst: false, found: [] },
      // Entries are random, but each incarnation continues the stored tree. So contradictions arise only if the
      // database is lost.
      { pure: false, storedFirst: true, found: ['lost database'] },
      { pure: false, storedFirst: false, found: ['kills', 'two signers', 'lost database'] },
    ]
    for (const { found, ...rules } of cases) {
      // Cases with contradictions are skipped on MySQL.
      if (dialect === 'mysql' && found.length > 0) continue
      const kept = `${rules.pure ? 'reproducible' : 'random'} entries and trees ${rules.storedFirst ? 'stored before they are signed' : 'signed before they are stored'}`
      test(`a public log with ${kept} signs contradictory checkpoints only under these faults: ${found.join(', ') || 'none'}`, async (t) => {
        for (const life of ['kills', 'two signers', 'lost database'] as const) {
          const url = await migrated()
          const database = await openDatabase(url)
          try {
            const { signed, contradicting } = await contradictions(database, rules, life)
            t.diagnostic(`${life}: ${contradicting} of ${signed} contradict, TEST_SEED=${SEED}`)
            assert.ok(signed > 20, `${signed} checkpoints`)
            assert.equal(contradicting > 0, found.includes(life), `${life}: ${contradicting}`)
          } finally {
            await closeDatabase(database)
            giveBack(url)
          }
        }
      })
    }
  },
)
