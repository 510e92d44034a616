/**
 * Kills the exchange with SIGKILL again and again under a seeded flow of orders, and counts lost and duplicated
 * commands. After each restart every answered command must be present exactly once. The open orders of the markets must
 * equal those of the log, and the database must agree with the markets. If nothing was in flight at the kill, the whole
 * state of the markets must be unchanged.
 *
 * Every few kills, the run starts with a new data folder. In every second folder, snapshots and truncation run all the
 * time. The log of such a folder is not complete, so the database is compared only with the answers and the markets.
 */

import assert from 'node:assert/strict'
import { type ChildProcess, fork } from 'node:child_process'
import { createHash } from 'node:crypto'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { OrderHash } from '#domain/ids.ts'
import { isRejection } from '#domain/rejection.ts'
import type { OpenOrder } from '#protocol/market.ts'
import { isUnanswered } from '#runtime/channel.ts'
import { closeDatabase, type Database, read } from '#store/engine/database.ts'
import { openDatabase } from '#store/open-database.ts'
import {
  assertOpen,
  assertProjected,
  expectedFrom,
  untilProjected,
} from '../services/market/agreement.ts'
import { type OrderStream, orderStream, type StreamAsk } from '../services/market/order-stream.ts'
import { eventually } from '../support/eventually.ts'
import { type Random, randomFrom } from '../support/random.ts'
import { TEST_FLAGS } from '../support/test-flags.ts'

export type CrashFigures = {
  kills: number
  answered: number
  lost: number
  duplicated: number
  /** Number of kills during a start, before the exchange was ready. */
  killedWhileStarting: number
  /** Number of restarts after which the state equalled the state before the kill. */
  sameStates: number
}

/** Moment of a kill: before the exchange is ready, while commands are in flight, or when all are answered. */
export type KillKind = 'starting' | 'loaded' | 'settled'

export type CrashOptions = {
  readonly kills: number
  readonly seed: number
  readonly killsPerFolder: number
  /** Kinds of the first kills in each data folder, in order. Later kinds are random. */
  readonly kinds?: readonly KillKind[]
  /** True if the log of the first folder is truncated. */
  readonly truncatesFirst?: boolean
  readonly progress?: (figures: CrashFigures) => void
}

/** Commands under way at once. */
const IN_FLIGHT = 64
const MARKETS = 6

type Answered = { readonly ask: StreamAsk; readonly answer: unknown }
type Said = {
  id?: number
  answer?: unknown
  ready?: string
  open?: OpenOrder[]
  opened?: true
  stopped?: boolean
  state?: unknown
}

export async function crashRun(options: CrashOptions): Promise<CrashFigures> {
  const figures: CrashFigures = {
    kills: 0,
    answered: 0,
    lost: 0,
    duplicated: 0,
    killedWhileStarting: 0,
    sameStates: 0,
  }
  const random = randomFrom(options.seed)
  for (let folder = 0; figures.kills < options.kills; folder++) {
    const dataDir = mkdtempSync(join(tmpdir(), 'sibyl-crash-'))
    try {
      await crashFolder(dataDir, folder, random, options, figures)
    } finally {
      rmSync(dataDir, { recursive: true, force: true })
    }
  }
  return figures
}

async function crashFolder(
  dataDir: string,
  folder: number,
  random: Random,
  options: CrashOptions,
  figures: CrashFigures,
): Promise<void> {
  const truncating = folder % 2 === (options.truncatesFirst === true ? 0 : 1)
  const env: Record<string, string> = {
    SIBYL_MARKET_THREADS: String(random.int(1, 2)),
    SIBYL_SELF_TRADE: random.chance(0.5) ? 'allow' : 'cancel-resting',
    ...(truncating ? { SIBYL_SNAPSHOT_EVERY: '100' } : {}),
  }
  const stream = orderStream(random.int(1, 2 ** 30), MARKETS)
  const answered: Answered[] = []
  let opened = false
  let stateBefore: string | undefined
  const first = figures.kills
  const last = Math.min(options.kills, first + options.killsPerFolder)
  for (;;) {
    const child = startChild(dataDir, env)
    const ending = figures.kills >= last
    const kind = options.kinds?.[figures.kills - first] ?? drawKind(random, opened)
    try {
      if (!ending && kind === 'starting') {
        // Kills the process during its start, while it reads the logs and claims the database.
        await Promise.race([pause(random.int(50, 1_500)), child.next('ready')])
        figures.killedWhileStarting++
      } else {
        const databaseUrl = (await child.next('ready')).ready as string
        if (!opened) {
          child.send({ markets: stream.markets })
          await child.next('opened')
          opened = true
        }
        if (stateBefore !== undefined) {
          assert.equal(await stateHash(child), stateBefore, 'the state before and after the kill')
          figures.sameStates++
          stateBefore = undefined
        }
        await check({ child, dataDir, databaseUrl, answered, truncating, figures })
        if (ending) {
          child.send({ stop: true })
          assert.equal((await child.next('stopped')).stopped, true, 'it stops in good order')
          return
        }
        const settle = kind === 'settled'
        await load(child, stream, answered, random.int(5, 500), settle)
        if (settle) stateBefore = await stateHash(child)
      }
    } finally {
      await child.kill()
    }
    figures.kills++
    options.progress?.(figures)
  }
}

/** The first process of a new folder is not killed while it starts. */
function drawKind(random: Random, opened: boolean): KillKind {
  if (opened && random.chance(0.15)) return 'starting'
  return random.chance(0.3) ? 'settled' : 'loaded'
}

async function stateHash(child: Child): Promise<string> {
  child.send({ state: true })
  const { state } = await child.next('state')
  const text = JSON.stringify(state, (_key, value) =>
    typeof value === 'bigint' ? `${value}` : value,
  )
  return createHash('sha256').update(text).digest('hex')
}

/**
 * Sends commands for `lifeMs` milliseconds, with `IN_FLIGHT` commands in flight at a time. With `settle`, it
 * then waits for all answers without sending more.
 */
async function load(
  child: Child,
  stream: OrderStream,
  answered: Answered[],
  lifeMs: number,
  settle: boolean,
): Promise<void> {
  const under = new Map<number, StreamAsk>()
  let id = 0
  let settling = false
  const { promise: allAnswered, resolve: settled } = Promise.withResolvers<void>()
  const feed = (count: number) => {
    const asks = stream.take(count).map((ask) => ({ ...ask, id: ++id }))
    for (const ask of asks) under.set(ask.id, ask)
    child.send({ asks })
  }
  child.onAnswer = (of, answer) => {
    const ask = under.get(of)
    under.delete(of)
    if (ask === undefined || isUnanswered(answer)) return
    answered.push({ ask, answer })
    if (!settling) feed(1)
    else if (under.size === 0) settled()
  }
  feed(IN_FLIGHT)
  await pause(lifeMs)
  settling = settle
  if (settle) await allAnswered
}

type Checked = {
  readonly child: Child
  readonly dataDir: string
  readonly databaseUrl: string
  readonly answered: Answered[]
  readonly truncating: boolean
  readonly figures: CrashFigures
}

async function check(checked: Checked): Promise<void> {
  const { child, dataDir, databaseUrl, answered, truncating, figures } = checked
  const open = async (): Promise<OpenOrder[]> => {
    child.send({ open: true })
    return (await child.next('open')).open as OpenOrder[]
  }
  if (!truncating) {
    const expected = expectedFrom(dataDir)
    assertOpen(expected, await open())
    await untilProjected(expected, databaseUrl)
    await eventually(() => assertProjected(expected, databaseUrl))
  }
  const held = await open()
  const rows = await rowsOf(databaseUrl, held)
  for (const { ask, answer } of answered) {
    figures.answered++
    const [type, message] = ask.ask
    if (isRejection(answer)) continue
    const hash = type === 'PlaceOrder' ? message.order.orderHash : message.orderHash
    const row = rows.get(hash)
    if (row === undefined) figures.lost++
    else if (type === 'CancelOrder' && row.status !== 'cancelled') figures.lost++
  }
  figures.duplicated += await resubmitted(child, answered, held)
  answered.length = 0
}

/**
 * Submits every accepted order again, and checks that the open orders stay the same. Returns the number of orders that
 * the exchange did not recognise as duplicates.
 */
async function resubmitted(
  child: Child,
  answered: readonly Answered[],
  held: readonly OpenOrder[],
): Promise<number> {
  const placed = answered.filter(
    ({ ask, answer }) => ask.ask[0] === 'PlaceOrder' && !isRejection(answer),
  )
  let again = 0
  let id = 0
  let left = placed.length
  if (left > 0) {
    const done = new Promise<void>((resolve) => {
      child.onAnswer = (of, answer) => {
        const told = answer as { duplicate?: true; rejected?: string }
        if (told.duplicate !== true && told.rejected !== 'ORDER_CLOSED') again++
        if (told.duplicate) {
          const first = placed[of - 1]!.answer as object
          assert.deepEqual(told, { ...first, duplicate: true }, 'the first answer once more')
        }
        if (--left === 0) resolve()
      }
    })
    child.send({ asks: placed.map(({ ask }) => ({ ...ask, id: ++id })) })
    await done
  }
  child.send({ open: true })
  const after = (await child.next('open')).open as OpenOrder[]
  assert.deepEqual(after, held, 'a resubmission changes nothing')
  return again
}

type OrderRows = Map<OrderHash, { readonly status: string; readonly remaining: number }>

/** Waits until the open orders in the database equal those of the markets; then returns the rows of all orders. */
async function rowsOf(databaseUrl: string, held: readonly OpenOrder[]): Promise<OrderRows> {
  const database = await openDatabase(databaseUrl, { readOnly: true })
  try {
    return await eventually(async () => {
      const found = await orderRows(database)
      const openRows = [...found].filter(([, { status }]) => status === 'open')
      assert.equal(openRows.length, held.length, 'open orders of the database and of the markets')
      for (const order of held) {
        assert.equal(found.get(order.orderHash)?.remaining, order.remaining, order.orderHash)
      }
      return found
    })
  } finally {
    await closeDatabase(database)
  }
}

async function orderRows(database: Database): Promise<OrderRows> {
  const rows = await read(database, (em) =>
    em
      .getConnection()
      .execute<{ hash: string; status: string; remaining: number | string }[]>(
        'select lower(hex(order_hash)) as hash, status, remaining_e6 as remaining from orders',
      ),
  )
  return new Map(
    rows.map(({ hash, status, remaining }) => [
      `0x${hash}` as OrderHash,
      { status, remaining: Number(remaining) },
    ]),
  )
}

type Child = {
  onAnswer: (id: number, answer: unknown) => void
  send(message: object): void
  /** Waits for the next message with this field; fails if the process ends first. */
  next(field: keyof Said): Promise<Said>
  /** Kills the process with SIGKILL, and waits until it has ended. */
  kill(): Promise<void>
}

function startChild(dataDir: string, env: Readonly<Record<string, string>>): Child {
  const entry = new URL('./exchange-process.ts', import.meta.url)
  const process_: ChildProcess = fork(entry, [dataDir, JSON.stringify(env)], {
    serialization: 'advanced',
    execArgv: [...process.execArgv, ...TEST_FLAGS],
    stdio: ['ignore', 'ignore', 'pipe', 'ipc'],
  })
  let errors = ''
  process_.stderr?.on('data', (text) => {
    errors = `${errors}${text}`.slice(-4_000)
  })
  const exited = new Promise<void>((resolve) => process_.once('exit', () => resolve()))
  const waiting = new Map<keyof Said, (said: Said) => void>()
  const failures = new Set<(error: Error) => void>()
  void exited.then(() => {
    for (const fail of failures) fail(new Error(`the exchange ended by itself: ${errors}`))
  })
  const child: Child = {
    onAnswer: () => {},
    send: (message) => void (process_.connected && process_.send(message)),
    next: (field) =>
      new Promise((resolve, reject) => {
        failures.add(reject)
        waiting.set(field, resolve)
      }),
    async kill() {
      failures.clear()
      process_.kill('SIGKILL')
      await exited
    },
  }
  process_.on('message', (said: Said) => {
    if (said.id !== undefined) return child.onAnswer(said.id, said.answer)
    for (const field of Object.keys(said) as (keyof Said)[]) {
      waiting.get(field)?.(said)
      waiting.delete(field)
    }
  })
  return child
}

function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms))
}
