/**
 * The nodes of a cluster on one machine: each is `npm start` as a process of its own, with its roles, its data
 * folder, its port and what it says in a file. They are killed, drained, paused, and started again.
 */

import { type ChildProcess, spawn } from 'node:child_process'
import { existsSync, mkdirSync, openSync, readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { endProcess, until } from './local-servers.ts'

const MAIN = fileURLToPath(new URL('../../main.ts', import.meta.url))

/** What a node is for, and the roles that it has for that. */
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
  /** The port where a front serves clients, and any node serves operators. */
  readonly url: string
  /** Whether its process runs. */
  isUp(): boolean
  start(): Promise<void>
  /** Ends as a machine does that loses its power. */
  kill(): Promise<void>
  /** Hands everything over, then ends. */
  drain(): Promise<void>
  pause(): void
  resume(): void
  /** Its links to NATS and the database say nothing any more, or are whole again. */
  cut(state: 'silent' | 'whole'): void
  isCut(): boolean
}

type NodeOptions = {
  readonly name: string
  readonly kind: Kind
  readonly port: number
  /** Of the whole cluster: its data and what its nodes say. */
  readonly folder: string
  readonly environment: Readonly<Record<string, string>>
  readonly cut: ClusterNode['cut']
}

export function makeNode(options: NodeOptions): ClusterNode {
  const { name, kind, port, folder, environment, cut } = options
  let child: ChildProcess | undefined
  let isCut = false
  /** Where in its file begins what the process of now has said. */
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
      // In a group of its own: Ctrl-C in a terminal is for the cluster, which ends its nodes in order.
      detached: true,
      stdio: ['ignore', output, output],
    })
    child = started
    await until(async () => {
      if (hasEnded(started)) throw new NodeEnded(`${name} has ended; see ${logFile}`)
      if (!(await isServing())) throw new Error(`${name} is not ready; see ${logFile}`)
    }, isFinal)
  }

  /** A front counts as started when it is ready; other nodes when they print that they run. */
  async function isServing(): Promise<boolean> {
    if (kind === 'front') return (await fetch(`${url}/readyz`)).status === 200
    return readFileSync(logFile, 'utf8').slice(begun).includes(`node ${name} runs`)
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
