/**
 * A whole cluster on one machine, for trying it out: NATS servers, database servers, the local chain, and nodes.
 * Opening a cluster deletes all earlier data in its folder.
 */

import { mkdirSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { DEVNET_CHAIN_ID } from '../accounts.ts'
import { CommandError } from '../command.ts'
import { type Devnet, openDevnet } from '../open-devnet.ts'
import { requireDevnetPackages } from '../packages.ts'
import { type DatabaseServers, missingServers, openDatabaseServers } from './database-servers.ts'
import { missingNats, type NatsServers, openNatsServers } from './nats-servers.ts'
import { type ClusterNode, type Kind, makeNode } from './nodes.ts'
import { openWires } from './wire.ts'

const NATS_SERVERS = 3
const GALERA_NODES = 3
/** Number of market threads of the whole cluster; each is served by one of the market nodes. */
const MARKET_THREADS = 4
const PARTITIONS = 8
const NODES_MAX = 20

type ClusterOptions = {
  readonly folder: string
  /** Port of the first front; each other node has the next port. */
  readonly port: number
  readonly fronts: number
  readonly markets: number
  readonly galera: boolean
  /** Additional settings for all nodes. They do not override the cluster's own settings. */
  readonly environment?: Readonly<Record<string, string>>
  readonly say: (line: string) => void
}

export type Cluster = {
  readonly nats: NatsServers
  readonly databases: DatabaseServers
  readonly chain: Devnet
  readonly nodes: ReadonlyMap<string, ClusterNode>
  readonly threads: { readonly marketThreads: number; readonly partitions: number }
  add(kind: Kind): Promise<ClusterNode>
  dispose(): Promise<void>
}

export async function openCluster(options: ClusterOptions): Promise<Cluster> {
  const { folder, say } = options
  requireDevnetPackages()
  const missing = missingNats() ?? missingServers(options.galera ? GALERA_NODES : 1)
  if (missing !== undefined) {
    throw new CommandError(
      `${missing}. A cluster needs the packages nats-server and mariadb-server, and with --galera also galera-4 and rsync`,
    )
  }
  rmSync(folder, { recursive: true, force: true })
  mkdirSync(join(folder, 'chain'), { recursive: true })
  const closers: (() => Promise<void>)[] = []
  const dispose = async (): Promise<void> => {
    for (const close of closers.splice(0).reverse()) await close()
  }
  try {
    const nats = await openNatsServers(folder, NATS_SERVERS)
    closers.push(nats.dispose)
    say(`NATS: ${NATS_SERVERS} servers`)
    const databases = await openDatabaseServers(options.galera ? GALERA_NODES : 1)
    closers.push(databases.dispose)
    say(options.galera ? `MariaDB: a cluster of ${GALERA_NODES} servers` : 'MariaDB: one server')
    const chain = await openDevnet({
      dataDir: join(folder, 'chain'),
      port: 0,
      chainId: DEVNET_CHAIN_ID,
      lingerMs: 0,
      disputeSeconds: 7_200,
      onClock: () => {},
      onLost: () => say('the local chain has ended'),
      clearData: () => {},
    })
    closers.push(chain.end)
    say(`the local chain: ${chain.url}`)

    const nodes = new Map<string, ClusterNode>()
    /**
     * Insert the closers of wires (connections that can be cut) at this index of `closers`. Closers run in reverse
     * order, and the closer of the nodes has a higher index. So the nodes stop before their wires close.
     */
    const wiresAt = closers.length
    closers.push(async () => {
      for (const node of [...nodes.values()].reverse()) {
        node.resume()
        node.cut('whole')
        await node.drain()
      }
    })
    const environment = { ...options.environment, ...environmentOf(chain) }
    let made = 0
    /** Makes a node. Each node reaches the servers through its own wires, so that it can be cut off. */
    async function make(kind: Kind): Promise<ClusterNode> {
      if (nodes.size >= NODES_MAX)
        throw new CommandError(`the cluster already has ${NODES_MAX} nodes, which is the maximum`)
      const count = [...nodes.values()].filter((node) => node.kind === kind).length
      const name = `${kind}-${count + 1}`
      const port = options.port + made++
      const toNats = await openWires(nats.url)
      const toDatabases = await openWires(databases.url())
      closers.splice(wiresAt, 0, async () => {
        toNats.close()
        toDatabases.close()
      })
      const servers = {
        SIBYL_NATS_URL: toNats.through(nats.url),
        SIBYL_LOG_URL: toDatabases.through(databases.url(0, 'sibyl_log')),
        SIBYL_DATABASE_URL: toDatabases.through(databases.url(0, 'sibyl')),
      }
      const node = makeNode({
        ...{ name, kind, port, folder, environment: { ...environment, ...servers } },
        cut(state) {
          toNats.set(state)
          toDatabases.set(state)
        },
      })
      nodes.set(name, node)
      return node
    }
    async function add(kind: Kind): Promise<ClusterNode> {
      const node = await make(kind)
      await node.start()
      say(wordsOf(node))
      return node
    }
    // Fronts come first, so that they get the first ports. All nodes start at the same time, because `start` of a front
    // returns only when the market nodes serve its markets.
    const kinds: Kind[] = [
      ...Array.from({ length: options.fronts }, () => 'front' as const),
      ...Array.from({ length: options.markets }, () => 'market' as const),
      'rest',
    ]
    const first: ClusterNode[] = []
    for (const kind of kinds) first.push(await make(kind))
    await Promise.all(first.map((node) => node.start()))
    for (const node of first) say(wordsOf(node))
    const threads = { marketThreads: MARKET_THREADS, partitions: PARTITIONS }
    return { nats, databases, chain, nodes, threads, add, dispose }
  } catch (error) {
    await dispose()
    throw error
  }
}

/** Describes a node. Only a front is described with its address, because other nodes serve no clients. */
export function wordsOf({ name, kind, url }: ClusterNode): string {
  return kind === 'front' ? `${name} serves at ${url}` : `${name} runs`
}

function environmentOf({ url, contracts }: Devnet): Record<string, string> {
  const chain = {
    chainId: DEVNET_CHAIN_ID,
    role: 'test',
    rpcUrls: [],
    blockExplorer: '',
    startBlock: 0,
    confirmations: 0,
    contracts,
    stablecoin: { symbol: 'USDC', decimals: 6, domainName: 'USD Coin', domainVersion: '1' },
  }
  return {
    SIBYL_MARKET_THREADS: String(MARKET_THREADS),
    SIBYL_LOG_PARTITIONS: String(PARTITIONS),
    SIBYL_CHAIN_RPC: url,
    SIBYL_CHAINS: JSON.stringify([chain]),
  }
}
