/**
 * Nodes of a cluster on one machine. Each node is a separate `npm start` process with its own roles, data folder, port
 * and output file. Nodes can be killed, drained, paused and restarted.
 */

import { type ChildProcess, spawn } from 'node:child_process'
import { existsSync, mkdirSync, openSync, readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { endProcess, until } from './local-servers.ts'

const MAIN = fileURLToPath(new URL('../../main.ts', import.meta.url))

/** Kinds of nodes, and their roles. */
export const KINDS = {
  front: 'front',
  market: 'market',
  rest: 'store,chain,prices',
} as const
export type Kind = keyof typeof KINDS

export type ClusterNode = {
  readonly name: string
  readonly kind: Kind
  readonly roles: string
  /** HTTP address of the node. A front serves clients at this address; any other node serves only operators. */
  readonly url: string
  /** Returns whether the node's process runs. */
  isUp(): boolean
  start(): Promise<void>
  /** Kills the node's process with SIGKILL, like a power failure. */
  kill(): Promise<void>
  /** Hands over all threads that only one node may run at a time, then ends the node. */
  drain(): Promise<void>
  pause(): void
  resume(): void
  /** Makes the node's links to NATS and the database silent, or restores them. */
  cut(state: 'silent' | 'whole'): void
  isCut(): boolean
}

type NodeOptions = {
  readonly name: string
  readonly kind: Kind
  readonly port: number
  /** Folder of the whole cluster: its data and the output of its nodes. */
  readonly folder: string
  readonly environment: Readonly<Record<string, string>>
  readonly cut: ClusterNode['cut']
}

export function makeNode(options: NodeOptions): ClusterNode {
  const { name, kind, port, folder, environment, cut } = options
  let child: ChildProcess | undefined
  let isCut = false
  /** Size of the node's output file, in bytes, when the current process started. */
  let begun = 0
  const dataDir = join(folder, name)
  const logFile = join(folder, `${name}.log`)
  const url = `http://127.0.0.1:${port}`
  mkdirSync(dataDir, { recursive: true })

  async function start(): Promise<void> {
    begun = existsSync(logFile) ? statSync(logFile).size : 0
    const output = openSync(logFile, 'a')
    const own = {
      SIBYL_NODE: name,
      SIBYL_ROLES: KINDS[kind],
      SIBYL_DATA_DIR: dataDir,
      ...(kind === 'front' ? { SIBYL_PORT: String(port) } : { SIBYL_ADMIN_PORT: String(port) }),
    }
    const started = spawn(process.execPath, [...process.execArgv, MAIN], {
      env: { ...environment, ...own },
      // The node has its own process group: Ctrl-C in a terminal goes to the cluster, which ends its nodes in order.
      detached: true,
      stdio: ['ignore', output, output],
    })
    child = started
    await until(async () => {
      if (hasEnded(started)) throw new NodeEnded(`${name} has ended; see ${logFile}`)
      if (!(await isServing())) throw new Error(`${name} is not ready; see ${logFile}`)
    }, isFinal)
  }

  /**
   * Returns whether the node has started. A front has started when it is ready. Any other node has started when it
   * prints that it runs.
   */
  async function isServing(): Promise<boolean> {
    if (kind === 'front') return (await fetch(`${url}/readyz`)).status === 200
    return readFileSync(logFile).subarray(begun).includes(`node ${name} runs`)
  }

  const ended = (): boolean => child === undefined || hasEnded(child)
  return {
    name,
    kind,
    roles: KINDS[kind],
    url,
    isUp: () => !ended(),
    async start() {
      if (ended()) await start()
    },
    kill: () => endProcess(child, 'SIGKILL'),
    drain: () => endProcess(child, 'SIGTERM'),
    pause: () => void child?.kill('SIGSTOP'),
    resume: () => void child?.kill('SIGCONT'),
    cut(state) {
      isCut = state === 'silent'
      cut(state)
    },
    isCut: () => isCut,
  }
}

class NodeEnded extends Error {}

const isFinal = (error: unknown): boolean => error instanceof NodeEnded

function hasEnded({ exitCode, signalCode }: ChildProcess): boolean {
  return exitCode !== null || signalCode !== null
}
