/**
 * The load on a cluster during faults. For each market, several senders place orders one after the other, over HTTP and
 * over the stream, on both fronts. Each order's result is recorded. A sender that loses its front uses the other front.
 * Readers keep books from each front's stream. The stream must report every gap to the readers, and their books must
 * never be wrong.
 */

import assert from 'node:assert/strict'
import { setTimeout as pause } from 'node:timers/promises'
import { type Client, createClient } from '#client/client.ts'
import { SibylError } from '#client/sibyl-error.ts'
import type { SibylStream } from '#client/stream-types.ts'
import type { MarketId } from '#domain/ids.ts'
import { eventually } from '../support/eventually.ts'
import type { Random } from '../support/random.ts'
import { FRONTS, type Scene } from './cluster-scene.ts'
import { type Life, makeOrder } from './http-crash.ts'

const LANES_PER_MARKET = 2
const PACE_MS = [60, 200] as const
const TIMEOUT_MS = 30_000

/** Error codes that an order may get during a fault. */
const KNOWN = new Set([
  ...['NETWORK', 'UNEXPECTED_ANSWER', 'OUTCOME_UNKNOWN', 'OVERLOADED', 'TIMEOUT'],
  ...['SHUTTING_DOWN', 'UNAVAILABLE', 'EXCHANGE_UNAVAILABLE', 'MARKET_UNAVAILABLE'],
])

/** An order's error. `kind` has its error code, and `why` has the front. */
type Met = { readonly kind: string; readonly why: string }

type Accepted = { readonly sentAtMs: number; readonly atMs: number }

export type Load = {
  /** Times of the orders that each market accepted. */
  readonly accepted: ReadonlyMap<MarketId, readonly Accepted[]>
  readonly lives: readonly Life[]
  /** Pauses or resumes sending. */
  rest(isResting: boolean): void
  /** Ends the load when its requests in flight are answered. */
  end(): Promise<void>
}

type Door = {
  readonly client: Client
  readonly stream: SibylStream
  /** Returns true while the stream is connected to its front. */
  readonly isOpen: () => boolean
}

/**
 * Errors of orders that were not accepted at once: how often each occurred, and how often a retry at the other front
 * succeeded.
 */
export type Errors = Map<string, { met: number; healed: number; readonly first: string }>

export type StreamMet = {
  messages: number
  resets: number
  gaps: number
  checksums: number
  reconnects: number
}

export type Doors = {
  readonly all: readonly Door[]
  /** Waits until the books from the stream equal the books that the fronts return. */
  compare(): Promise<void>
  close(): void
}

/** Opens connections to each front: HTTP, and a stream that reconnects and keeps all books. */
export function openDoors({ nodes, pit }: Scene, met: StreamMet): Doors {
  const doors = FRONTS.map((name) => {
    const { url } = nodes.get(name)!
    const client = createClient({ url, retries: 0, timeoutMs: TIMEOUT_MS })
    const patient = createClient({ url, timeoutMs: 120_000 })
    const stream = client.stream({ timeoutMs: TIMEOUT_MS })
    let isOpen = false
    stream.on('open', () => {
      isOpen = true
    })
    for (const end of ['shutdown', 'closed'] as const) {
      stream.on(end, () => {
        isOpen = false
      })
    }
    stream.on('reset', () => met.resets++)
    stream.on('gap', () => met.gaps++)
    stream.on('checksum', () => met.checksums++)
    stream.on('closed', () => met.reconnects++)
    const books = pit.markets
      .flatMap((marketId) => (['YES', 'NO'] as const).map((outcome) => ({ marketId, outcome })))
      .map((what) => ({ ...what, book: stream.book(what, () => met.messages++).book }))
    return { client, patient, stream, books, isOpen: () => isOpen }
  })
  return {
    all: doors,
    async compare() {
      for (const { books, patient } of doors) {
        for (const { marketId, outcome, book } of books) {
          await eventually(async () => {
            const { bids, asks } = await patient.orderbook(marketId, outcome)
            assert.deepEqual([book.bids(), book.asks()], [bids, asks])
          })
        }
      }
    },
    close() {
      for (const { stream } of doors) stream.close()
    },
  }
}

type LoadOptions = {
  readonly scene: Scene
  readonly doors: Doors
  readonly random: Random
  readonly errors: Errors
}

export function startLoad({ scene, doors, random, errors }: LoadOptions): Load {
  const { pit } = scene
  const accepted = new Map<MarketId, Accepted[]>(pit.markets.map((id) => [id, []]))
  const lives: Life[] = []
  let isOver = false
  let isResting = false

  async function lane(marketId: MarketId, number: number): Promise<void> {
    for (let turn = number; !isOver; turn++) {
      if (isResting) {
        await pause(PACE_MS[0])
        continue
      }
      const life = await makeOrder(random, { ...pit, markets: [marketId] })
      lives.push(life)
      // Alternates between HTTP and the stream, and between both fronts.
      const how = { front: turn % 2, streamed: turn % 4 >= 2 }
      // If the stream of a front is known to be closed, the other front is used.
      if (how.streamed && !doors.all[how.front]!.isOpen()) how.front = 1 - how.front
      const met = await submit(life, how)
      if (met !== undefined) {
        const again = await submit(life, { ...how, front: 1 - how.front })
        note(met, again === undefined)
      }
      await pause(random.int(...PACE_MS))
    }
  }

  function note({ kind, why }: Met, isHealed: boolean): void {
    const { met, healed, first } = errors.get(kind) ?? { met: 0, healed: 0, first: why }
    errors.set(kind, { met: met + 1, healed: healed + (isHealed ? 1 : 0), first })
  }

  /** Submits the order; returns its error, or undefined if it was accepted. */
  async function submit(
    life: Life,
    how: { front: number; streamed: boolean },
  ): Promise<Met | undefined> {
    const { client, stream } = doors.all[how.front]!
    const sentAtMs = performance.now()
    try {
      const placed = how.streamed
        ? await stream.place(life.submission)
        : await client.orders.submit(life.submission)
      life.answer = { matches: placed.matches, timestamp: placed.timestamp }
      accepted.get(life.marketId)!.push({ sentAtMs, atMs: performance.now() })
      return undefined
    } catch (error) {
      assert(error instanceof SibylError, String(error))
      const kind = `${how.streamed ? 'stream' : 'HTTP'} ${error.code}`
      assert(KNOWN.has(error.code), `${kind}: ${error.message}`)
      return { kind, why: `${FRONTS[how.front]}: ${error.message}` }
    }
  }

  const lanes = pit.markets.flatMap((marketId) =>
    Array.from({ length: LANES_PER_MARKET }, (_, number) => lane(marketId, number)),
  )
  // `end()` throws the error of a sender. Until then, this handler prevents an unhandled rejection.
  const ended = Promise.all(lanes)
  ended.catch(() => undefined)
  return {
    accepted,
    lives,
    rest(on) {
      isResting = on
    },
    async end() {
      isOver = true
      await ended
    },
  }
}
