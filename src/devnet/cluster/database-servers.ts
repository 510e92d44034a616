/**
 * Database servers on loopback for tests: one MariaDB, or three as a Galera cluster. Tests kill and restart them, one
 * by one or all at once. After all nodes of a cluster were killed, `heal` finds the node with the newest data and
 * starts this node first, as an operator must do. Debian's packages `mariadb-server` and `galera-4` must be installed.
 */

import { type ChildProcess, execFileSync, spawn, spawnSync } from 'node:child_process'
import {
  chmodSync,
  existsSync,
  mkdtempSync,
  openSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir, userInfo } from 'node:os'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { createConnection } from 'mysql2/promise'
import { freePorts, until } from './local-servers.ts'

const PROVIDER = '/usr/lib/galera/libgalera_smm.so'
const SERVER = '/usr/sbin/mariadbd'
const DATABASES = ['sibyl_log', 'sibyl_other', 'sibyl'] as const
/**
 * Returns the user that runs the servers. The servers of a cluster copy files to each other and must not run as root.
 * If root starts a cluster, its servers run as `mysql`. In all other cases, servers run as the current user.
 */
const userOf = (count: number): string =>
  count > 1 && process.getuid?.() === 0 ? 'mysql' : userInfo().username

/** Returns the reason why database servers cannot run on this machine; undefined if they can. */
export function missingServers(nodes: number): string | undefined {
  if (!existsSync(SERVER)) return 'mariadb-server is not installed'
  if (nodes > 1 && !existsSync(PROVIDER)) return 'galera-4 is not installed'
  if (nodes > 1 && spawnSync('rsync', ['--version']).status !== 0) return 'rsync is not installed'
  return undefined
}

type Position = { readonly text: string; readonly number: number }

type Node = {
  readonly folder: string
  readonly port: number
  readonly group: number
  readonly transfers: number
  readonly fetches: number
  process: ChildProcess | undefined
}

export type DatabaseServers = {
  /**
   * Returns one URL with the hosts of all nodes. The node `first` comes first, so that different writers can start with
   * different nodes.
   */
  url(first?: number, database?: (typeof DATABASES)[number]): string
  /** Returns the address of one node. */
  urlOf(node: number, database?: (typeof DATABASES)[number]): string
  kill(nodes: readonly number[]): Promise<void>
  /** Pauses or resumes one server. */
  signal(node: number, signal: 'SIGSTOP' | 'SIGCONT'): void
  /** Starts stopped servers, and waits until every node accepts statements. */
  heal(): Promise<void>
  readonly count: number
  dispose(): Promise<void>
}

/** Starts the servers. `flags` are appended to the common flags of each server. */
export async function openDatabaseServers(
  count: number,
  flags: readonly string[] = [],
): Promise<DatabaseServers> {
  const folder = mkdtempSync(join(tmpdir(), 'sibyl-servers-'))
  chmodSync(folder, 0o755)
  const user = userOf(count)
  const ports = await freePorts(count * 4)
  const nodes: Node[] = Array.from({ length: count }, (_, index) => ({
    folder: join(folder, `node-${index}`),
    port: ports[index * 4]!,
    group: ports[index * 4 + 1]!,
    transfers: ports[index * 4 + 2]!,
    fetches: ports[index * 4 + 3]!,
    process: undefined,
  }))

  for (const node of nodes) install(node, user)
  const argumentsOf = (node: Node, bootstraps: boolean): string[] =>
    serverArguments(node, { nodes, user, flags, bootstraps })
  const isUp = (node: Node): Promise<void> => untilUp(node, count > 1)

  function start(node: Node, bootstraps: boolean, position = ''): void {
    const output = openSync(join(folder, `${node.port}.log`), 'a')
    const from = position === '' || count === 1 ? [] : [`--wsrep-start-position=${position}`]
    const child = spawn(SERVER, [...argumentsOf(node, bootstraps), ...from], {
      stdio: ['ignore', output, output],
    })
    node.process = child
    child.once('exit', () => {
      if (node.process === child) node.process = undefined
    })
  }

  /**
   * Returns the position of the last transaction that a node has stored. Starts the node in recovery mode to read the
   * position.
   */
  async function positionOf(node: Node): Promise<Position> {
    const args = [...argumentsOf(node, false), '--wsrep-recover']
    const child = spawn(SERVER, args, { stdio: ['ignore', 'ignore', 'pipe'] })
    const said = (await text(child.stderr)).match(/Recovered position:\s*([0-9a-f-]+:(-?\d+))/)
    return { text: said?.[1] ?? '', number: Number(said?.[2] ?? -1) }
  }

  async function heal(): Promise<void> {
    const down = nodes.filter((node) => node.process === undefined)
    if (down.length === count) {
      const places: number[] = []
      for (const node of nodes) places.push(count === 1 ? 0 : (await positionOf(node)).number)
      const first = nodes[places.indexOf(Math.max(...places))]!
      const grastate = join(first.folder, 'grastate.dat')
      if (existsSync(grastate)) {
        const state = readFileSync(grastate, 'utf8')
        writeFileSync(grastate, state.replace('safe_to_bootstrap: 0', 'safe_to_bootstrap: 1'))
      }
      start(first, true)
      await isUp(first)
    }
    for (const node of nodes) {
      // A killed node that starts with its last position fetches only the transactions it missed.
      if (node.process === undefined) {
        start(node, false, count === 1 ? '' : (await positionOf(node)).text)
      }
      // The nodes start one after the other. A node that has to copy all data needs a running node as its donor. Two
      // such nodes at once would need two donors.
      await isUp(node)
    }
  }

  async function kill(which: readonly number[]): Promise<void> {
    const ends = which.map((index) => {
      const child = nodes[index]?.process
      if (child === undefined) return undefined
      const ended = new Promise((resolve) => child.once('exit', resolve))
      child.kill('SIGKILL')
      return ended
    })
    await Promise.all(ends)
  }

  process.once('exit', () => {
    for (const node of nodes) node.process?.kill('SIGKILL')
  })
  await heal()
  const admin = await createConnection({ host: '127.0.0.1', port: nodes[0]!.port, user: 'root' })
  for (const name of DATABASES) await admin.query(`CREATE DATABASE ${name}`)
  await admin.end()

  const hostOf = (index: number) => `127.0.0.1:${nodes[index % count]!.port}`
  return {
    count,
    url: (first = 0, database = DATABASES[0]) =>
      `mysql://root@${nodes.map((_, index) => hostOf(first + index)).join(',')}/${database}`,
    urlOf: (index, database = DATABASES[0]) => `mysql://root@${hostOf(index)}/${database}`,
    kill,
    signal: (index, signal) => void nodes[index]?.process?.kill(signal),
    heal,
    async dispose() {
      await kill(nodes.map((_, index) => index))
      rmSync(folder, { recursive: true, force: true })
    },
  }
}

/** Makes the data folder of a node. */
function install(node: Node, user: string): void {
  execFileSync(
    'mariadb-install-db',
    [
      ...['--no-defaults', `--datadir=${node.folder}`, '--auth-root-authentication-method=normal'],
      ...['--skip-test-db', `--user=${user}`, '--skip-name-resolve'],
    ],
    { stdio: 'ignore' },
  )
}

function serverArguments(
  node: Node,
  server: {
    readonly nodes: readonly Node[]
    readonly user: string
    readonly flags: readonly string[]
    readonly bootstraps: boolean
  },
): string[] {
  const { nodes, user, flags, bootstraps } = server
  const common = [
    ...['--no-defaults', `--datadir=${node.folder}`, `--port=${node.port}`, `--user=${user}`],
    ...['--bind-address=127.0.0.1', `--socket=${node.folder}/socket`, '--skip-name-resolve'],
    ...['--innodb-flush-log-at-trx-commit=1', '--innodb-buffer-pool-size=64M'],
    ...['--innodb-log-file-size=48M', '--max-allowed-packet=64M', ...flags],
  ]
  if (nodes.length === 1) return common
  const members = nodes.map(({ group }) => `127.0.0.1:${group}`).join(',')
  const options = [
    `gmcast.listen_addr=tcp://127.0.0.1:${node.group}`,
    `ist.recv_addr=127.0.0.1:${node.fetches}`,
    // After a kill, a node must not form the cluster again by itself, even if it was the cluster's last node. `heal`
    // decides which node forms the cluster.
    'pc.recovery=false',
    'evs.suspect_timeout=PT3S',
    'evs.keepalive_period=PT0.5S',
    'gcache.size=64M',
  ]
  return [
    ...common,
    ...['--wsrep-on=ON', `--wsrep-provider=${PROVIDER}`, '--binlog-format=ROW'],
    ...['--innodb-autoinc-lock-mode=2', '--wsrep-sst-method=rsync'],
    `--wsrep-cluster-address=gcomm://${bootstraps ? '' : members}`,
    `--wsrep-node-address=127.0.0.1:${node.group}`,
    `--wsrep-sst-receive-address=127.0.0.1:${node.transfers}`,
    `--wsrep-provider-options=${options.join(';')}`,
  ]
}

const untilUp = (node: Node, isCluster: boolean): Promise<void> =>
  until(async () => {
    const options = { host: '127.0.0.1', port: node.port, user: 'root', connectTimeout: 2_000 }
    const connection = await createConnection(options)
    try {
      if (isCluster) {
        const [rows] = await connection.query("SHOW STATUS LIKE 'wsrep_ready'")
        const [ready] = rows as { Value: string }[]
        if (ready?.Value !== 'ON')
          throw new Error(`the database server at port ${node.port} is not ready`)
      } else await connection.query('SELECT 1')
    } finally {
      connection.destroy()
    }
  })
