/** A simulated price provider: its parameters, its messages, and its view of the prices. */

/** One end of a connection that the simulator writes to. */
export type Pushed = { send(text: string): void; close(): void }

export type SimulatedRequest = {
  readonly path: string
  readonly query: URLSearchParams
  readonly authorization: string
}

/**
 * Answer of a provider: a body, or a stream of events that lasts until the client disconnects. If the answer is
 * undefined, the connection is closed.
 */
export type SimulatedAnswer =
  | { readonly status: number; readonly body: string }
  | { readonly status: 200; readonly follow: (to: Pushed) => () => void }
  | undefined

export type SimulatedSocket = { message(text: string): void; closed(): void }

/** Prices and times from which a provider builds its messages. A fault of the provider changes some of these values. */
export type ProviderView = {
  readonly tickMs: number
  readonly assets: readonly string[]
  nowMs(): number
  /** Returns the tick that the provider reports as its newest. */
  newestTick(): number
  /** Returns the provider's first tick at or after an instant. */
  tickFrom(atMs: number): number
  /** True if the provider's history has the price of this tick. */
  isPast(atMs: number): boolean
  /** True if there is at least one asset, and all of the assets have prices. */
  areKnown(assets: readonly string[]): boolean
  /** Returns the true price at a tick, in cents. */
  centsAt(asset: string, atMs: number): number
  /** Returns the price that the provider reports for a tick; a fault may make the price wrong. */
  shownCents(asset: string, atMs: number): number
  /** Returns a text that is not a price while the fault is `garbage`; otherwise undefined. */
  garbagePrice(): string | undefined
  /** Pushes ticks of these assets to a reader; returns a function that ends the pushes. */
  follow(to: Pushed, assets: readonly string[]): () => void
}

/** Functions that write the messages of one provider. */
type Speaker = {
  answer(request: SimulatedRequest): SimulatedAnswer
  /** Accepts a WebSocket; returns undefined to refuse it. */
  accept(request: SimulatedRequest, to: Pushed): SimulatedSocket | undefined
  /** Returns the messages for one tick. */
  pushed(assets: readonly string[], atMs: number): string[]
  /** Wraps a garbage text in the format of the provider's messages. */
  framed(text: string): string
  /** Returns the heartbeats that the provider sends every second. */
  heartbeats(assets: readonly string[]): string[]
}

export type SimulatedProvider = {
  /** Offset of the provider's ticks, in milliseconds. */
  readonly shiftMs: number
  /** Offset of the provider's prices, in millionths of the price. */
  readonly shiftCents: number
  /** Factor by which the provider multiplies its prices while its fault is `wild`; different for each provider. */
  readonly wildFactor: number
  /** Resolution of the times that the provider reports, in milliseconds. */
  readonly timeStepMs: number
  /** Returns the provider's name for an asset. */
  nameOf(asset: string): string
  speak(view: ProviderView): Speaker
}

export const notFound = { status: 404, body: '{"message":"NotFound"}' }
export const badRequest = { status: 400, body: '{"code":-1121,"msg":"Invalid request."}' }

/** Writes cents as dollars: `64152.43`. */
export const usd = (cents: number, decimals: number): string =>
  `${Math.floor(cents / 100)}.${String(cents % 100)
    .padStart(2, '0')
    .padEnd(decimals, '0')}`
