/**
 * The cluster under test: three NATS servers, MariaDB (one server, or a Galera cluster of three), a chain on which
 * trades settle, two fronts, three market nodes with one market thread each, and two nodes for the other roles. Each
 * node has its own connection to each server, and each connection can be cut.
 */

import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { DEMO_TRADERS, devnetAccount, devnetKey } from '#devnet/accounts.ts'
import { type DatabaseServers, openDatabaseServers } from '#devnet/cluster/database-servers.ts'
import { freePorts } from '#devnet/cluster/local-servers.ts'
import { type NatsServers, openNatsServers } from '#devnet/cluster/nats-servers.ts'
import { openWires, type Wires } from '#devnet/cluster/wire.ts'
import { type MarketId, toAddress } from '#domain/ids.ts'
import type { Beat } from '#services/node/directory.ts'
import { openNodeLine } from '#services/node/node-line.ts'
import { signLine } from '#services/node/signed-line.ts'
import { openTestChain, type TestChain } from '../support/chain.ts'
import { openNode } from '../support/cluster.ts'
import type { Exchange } from '../support/exchange.ts'
import type { Pit } from './http-crash.ts'

const NATS_SERVERS = 3
/** Number of partitions, which is also the number of market threads and of markets. */
const PARTITIONS = 3
const REST = 'store,chain,prices'
/** The nodes sign their messages. */
const KEY = `0x${randomBytes(32).toString('hex')}`

/** Nodes and their roles, in the order of a rolling restart: fronts last. */
export const NODES = {
  ...{ 'books-a': 'market', 'books-b': 'market', 'books-c': 'market' },
  ...{ 'rest-a': REST, 'rest-b': REST, 'front-a': 'front', 'front-b': 'front' },
} as const
export type NodeName = keyof typeof NODES
export const FRONTS = ['front-a', 'front-b'] as const

export type Scene = {
  readonly nodes: ReadonlyMap<string, Exchange>
  readonly nats: NatsServers
  readonly databases: DatabaseServers
  readonly chain: TestChain
  readonly pit: Pit
  /** The address of the database, on a connection that is never cut. */
  readonly databaseUrl: string
  /** Returns the connections of a node to the servers of this kind, which a test can cut. */
  wires(node: string, kind: 'nats' | 'database'): Wires
  /** Returns the name of the node that runs this slot, such as a market thread; undefined if no node runs it. */
  ownerOf(slot: string): string | undefined
  /** Which market thread serves a market. */
  slotOf(marketId: MarketId): string
  close(): Promise<void>
}

type SceneOptions = {
  readonly galera: boolean
  /** Time for which a node must be ready before market threads that prefer this node move to it; 0 for never. */
  readonly rebalanceMs: number
  /** Silence after which a node counts as dead. */
  readonly silenceMs: number
}

export async function openScene({ galera, rebalanceMs, silenceMs }: SceneOptions): Promise<Scene> {
  const closers: (() => Promise<void> | void)[] = []
  const close = async (): Promise<void> => {
    for (const end of closers.splice(0).reverse()) await end()
  }
  try {
    const folder = mkdtempSync(join(tmpdir(), 'sibyl-cluster-'))
    closers.push(() => rmSync(folder, { recursive: true, force: true }))
    const nats = await openNatsServers(folder, NATS_SERVERS)
    closers.push(nats.dispose)
    const databases = await openDatabaseServers(galera ? 3 : 1)
    closers.push(databases.dispose)
    const chain = await openTestChain({ seed: true })
    closers.push(() => chain.close())
    const markets = chain.demoMarkets.map(({ id }) => id as string as MarketId)
    const pins = Object.fromEntries(markets.map((id, at) => [id, at % PARTITIONS]))

    const wires = new Map<string, Record<'nats' | 'database', Wires>>()
    const nodes = new Map<string, Exchange>()
    const ports = await freePorts(FRONTS.length)
    const beats = await followBeats(nats.url)
    closers.push(beats.close)
    const names = Object.keys(NODES) as NodeName[]
    for (const name of names) {
      const own = {
        nats: await openWires(nats.url),
        database: await openWires(databases.url()),
      }
      wires.set(name, own)
      closers.push(own.nats.close, own.database.close)
    }
    closers.push(async () => {
      for (const node of nodes.values()) await node.dispose()
    })
    await Promise.all(
      names.map(async (name) => {
        const own = wires.get(name)!
        const front = FRONTS.indexOf(name as (typeof FRONTS)[number])
        const environment = {
          ...chain.environment,
          SIBYL_NATS_URL: own.nats.through(nats.url),
          SIBYL_CLUSTER_KEY: KEY,
          SIBYL_LOG_URL: own.database.through(databases.url(0, 'sibyl_log')),
          SIBYL_DATABASE_URL: own.database.through(databases.url(0, 'sibyl')),
          SIBYL_SETTLEMENT_KEY: chain.keys.settlement,
          SIBYL_MARKET_PINS: JSON.stringify(pins),
          SIBYL_LOG_PARTITIONS: String(PARTITIONS),
          SIBYL_MARKET_THREADS: String(PARTITIONS),
          SIBYL_FRONT_THREADS: '1',
          SIBYL_LOG_LEVEL: 'info',
          SIBYL_CLUSTER_REBALANCE_MS: String(rebalanceMs),
          SIBYL_CLUSTER_SILENCE_MS: String(silenceMs),
          // A front pauses the events of a partition that is unused for this time. A short time makes this happen
          // often.
          SIBYL_CLUSTER_DOZE_MS: '1000',
          // A restarted front keeps its port, so that its clients can reconnect.
          ...(front < 0 ? {} : { SIBYL_PORT: String(ports[front]) }),
        }
        nodes.set(name, await openNode(environment, name, NODES[name]))
      }),
    )
    const domain = {
      chainId: chain.settings.chainId,
      verifyingContract: toAddress(chain.contracts.settlement),
    }
    return {
      ...{ nodes, nats, databases, chain, close },
      pit: { markets, traders: DEMO_TRADERS.slice(0, 6).map(traderOf), domain },
      databaseUrl: databases.url(0, 'sibyl'),
      wires: (node, kind) => wires.get(node)![kind],
      ownerOf: beats.ownerOf,
      slotOf: (marketId) => `market-${(pins[marketId] ?? 0) % PARTITIONS}`,
    }
  } catch (error) {
    await close()
    throw error
  }
}

const traderOf = (index: number) => ({
  key: devnetKey(index),
  address: devnetAccount(index).address,
})

/** Follows the status of the nodes from the messages that they send each other. */
async function followBeats(url: string) {
  const claims = new Map<string, { node: string; epoch: number }>()
  const plain = await openNodeLine({
    ...{ url, credsFile: '', name: 'crash' },
    ...{ lost() {}, back() {} },
  })
  const line = signLine(plain, KEY, () => assert.fail('a message of a node is not signed'))
  line.subscribe('sibyl.beat', (bytes) => {
    const beat = JSON.parse(Buffer.from(bytes).toString()) as Beat
    for (const { slot, epoch } of beat.claims) {
      if ((claims.get(slot)?.epoch ?? 0) <= epoch) claims.set(slot, { node: beat.node, epoch })
    }
  })
  return { ownerOf: (slot: string) => claims.get(slot)?.node, close: () => line.close() }
}
