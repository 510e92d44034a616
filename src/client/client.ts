/**
 * The SDK's client: signs orders for the exchange behind a URL, sends them, and reads what it
 * shows. It keeps the exchange's configuration and how far the markets were
 * that it wrote to, and no key: the signer is the caller's.
 */

import { toAddress } from '#domain/ids.ts'
import type { OrderDomain } from '#domain/order-hash.ts'
import type { Market } from '#protocol/shapes/markets.ts'
import type {
  CancelledOrder,
  CancelledOrders,
  OpenOrder,
  PlacedOrder,
} from '#protocol/shapes/orders.ts'
import type { Trade } from '#protocol/shapes/trades.ts'
import type { Funds } from '#protocol/shapes/users.ts'
import type { Config, Orderbook, ValidatedOrder } from './answers.ts'
import { type ApiFit, apiFit } from './api-fit.ts'
import { boundedNowSec } from './bounded-clock.ts'
import { buildOrder, type OrderIntent } from './build-order.ts'
import type { ClientChain } from './chain.ts'
import { requestsOf } from './order-requests.ts'
import type { OrderOptions, OrderSubmission, PermitInput } from './order-submission.ts'
import {
  type ClientPrices,
  type ClientQuickMarkets,
  createPrices,
  createQuickMarkets,
} from './prices.ts'
import { type ClientReads, createReads } from './reads.ts'
import { createRelayer, type Relayer } from './relayer.ts'
import { type ClientResolution, createResolution } from './resolution.ts'
import { createSeenSeqs } from './seen-seqs.ts'
import { SibylError } from './sibyl-error.ts'
import { type OrderSigner, signerAddress, signOrder } from './sign-order.ts'
import { createStream } from './stream.ts'
import type { SibylStream, StreamOptions } from './stream-types.ts'
import { BACKOFF_MS, type CallOptions, createTransport, type HeaderLines } from './transport.ts'
import { type ContractPins, createTrust } from './trusted-chain.ts'

export type ClientOptions = {
  /** Where the exchange is: `http://127.0.0.1:8080`. */
  readonly url: string
  /** Who signs orders. Reading needs none. */
  readonly signer?: OrderSigner
  /** Which chain orders are for, where the exchange knows several. */
  readonly chainId?: number
  /**
   * The contracts that the client signs for. Give them wherever you know them: a contract without a pin is taken from
   * the exchange's first answer, and an answer that differs later is refused.
   */
  readonly pins?: ContractPins
  /** The chain and settlement contract of orders, for a client that signs orders without asking the exchange. */
  readonly domain?: OrderDomain
  /** How far the exchange's clock may correct this machine's in expiries and deadlines; 300 s by default. */
  readonly clockCorrectionSecondsMax?: number
  /** The way to the chain, for `chain`. The devnet tells its own. */
  readonly rpcUrl?: string
  /** Headers of each attempt, such as an `Authorization` with a fresh token. */
  readonly headers?: () => HeaderLines | Promise<HeaderLines>
  /** Headers of each new connection of the stream, where they are others: its token is sent as `auth`. */
  readonly streamHeaders?: () => HeaderLines | Promise<HeaderLines>
  /** How long one attempt may take. */
  readonly timeoutMs?: number
  /** How often a request is sent again when that is safe and can help. */
  readonly retries?: number
  /** The pause before the first retry; it doubles each time. */
  readonly backoffMs?: number
  readonly fetch?: typeof fetch
}

/** What became of one order of a batch. */
export type BatchResult =
  | { readonly ok: true; readonly placed: PlacedOrder; readonly submission: OrderSubmission }
  | { readonly ok: false; readonly error: SibylError; readonly submission: OrderSubmission }

export type PlaceIntent = OrderIntent &
  OrderOptions & {
    /** A stablecoin permit that goes with the order. */
    readonly permitSignature?: PermitInput
  }

export type Orders = {
  /** Builds and signs, and sends nothing. Keep the result, and a crash of your own costs nothing. */
  sign(intent: PlaceIntent): Promise<OrderSubmission>
  /** Builds, signs and submits. What fails carries the signed order as `error.submission`. */
  place(intent: PlaceIntent, options?: CallOptions): Promise<PlacedOrder>
  submit(submission: OrderSubmission, options?: CallOptions): Promise<PlacedOrder>
  placeBatch(intents: readonly PlaceIntent[], options?: CallOptions): Promise<BatchResult[]>
  /** Any number of orders, in as many requests as they need; the results are in the same order. */
  submitBatch(
    submissions: readonly OrderSubmission[],
    options?: CallOptions,
  ): Promise<BatchResult[]>
  /** Asks what the exchange would say; places nothing. */
  validate(submission: OrderSubmission, options?: CallOptions): Promise<ValidatedOrder>
  /**
   * Cancels one order. When an attempt was lost on the way and sent again, `ORDER_CLOSED` may mean
   * that the lost one did it: `error.attempts` tells.
   */
  cancel(
    order: {
      readonly orderHash: string
      readonly marketId: string
      readonly side?: 'buy' | 'sell'
    },
    options?: CallOptions,
  ): Promise<CancelledOrder>
  /** Cancels all open orders of the token's address, in one market or in all; needs a token. */
  cancelAll(where?: { readonly market?: string }, options?: CallOptions): Promise<CancelledOrders>
  /** Open orders of a trader, the signer if none is named. */
  list(
    filter?: { readonly trader?: string; readonly market?: string },
    options?: CallOptions,
  ): Promise<OpenOrder[]>
  /** Open orders of a user in all markets of one chain. */
  listOfUser(
    user: { readonly address?: string; readonly chainId?: number },
    options?: CallOptions,
  ): Promise<OpenOrder[]>
}

export type Client = ClientReads & {
  readonly orders: Orders
  /** What happens on chain by a signature alone. */
  readonly relayer: Relayer
  /** Prices of assets, and the stream of them. */
  readonly prices: ClientPrices
  readonly quickMarkets: ClientQuickMarkets
  /** How markets resolve: where one stands, proposing, settling, waiting. */
  readonly resolution: ClientResolution
  market(marketId: string, options?: CallOptions): Promise<Market>
  /** The book of one outcome, or of both merged by price. */
  orderbook(marketId: string, outcome?: 'YES' | 'NO', options?: CallOptions): Promise<Orderbook>
  /** Up to 100, newest first. */
  trades(marketId: string, options?: CallOptions): Promise<Trade[]>
  /** What a trader has and what of it is reserved; only there where the exchange reserves funds. */
  funds(
    user?: { readonly address?: string; readonly chainId?: number },
    options?: CallOptions,
  ): Promise<Funds>
  /** Asked once and kept; `config({ fresh: true })` asks again. */
  config(options?: CallOptions & { readonly fresh?: boolean }): Promise<Config>
  /** Whether the exchange speaks the API that this client was made for; it is asked again. */
  apiFit(options?: CallOptions): Promise<ApiFit>
  /** What a trader who holds ether does on the chain himself. */
  readonly chain: ClientChain
  /** Opens the live stream; it reconnects by itself until it is closed. */
  stream(options?: Omit<StreamOptions, 'url' | 'headers'>): SibylStream
}

type BatchAnswer = {
  readonly results: readonly (
    | PlacedOrder
    | { readonly error: string; readonly code: string; readonly field?: string }
  )[]
}

export function createClient(options: ClientOptions): Client {
  const send = createTransport({
    url: options.url,
    headers: options.headers,
    timeoutMs: options.timeoutMs,
    retries: options.retries,
    backoffMs: options.backoffMs,
    fetch: options.fetch,
  })
  const trust = createTrust({
    ...options.pins,
    ...(options.domain === undefined ? {} : { settlement: options.domain.verifyingContract }),
  })
  const pinnedChainId = options.chainId ?? options.domain?.chainId
  let known: Promise<Config> | undefined
  let askedSec = 0
  let onChain: Promise<ClientChain> | undefined

  function config({ fresh = false, ...call }: CallOptions & { fresh?: boolean } = {}) {
    if (known === undefined || fresh) {
      const asked = send<Config>({ method: 'GET', path: '/api/v1/config' }, call)
      known = asked
      askedSec = ownSec()
      // A failure is told to the caller, and not kept.
      asked.catch(() => {
        if (known === asked) known = undefined
      })
    }
    return known
  }

  /** The time to count an order's expiry from; the exchange's clock corrects it where its config was read. */
  async function nowSec(chainId: number): Promise<number> {
    const theirs = await known?.catch(() => undefined)
    const aheadSec = theirs === undefined ? 0 : theirs.serverTime - askedSec
    return correctedSec(chainId, aheadSec)
  }

  function correctedSec(chainId: number, aheadSec: number): number {
    const correctionSecMax = options.clockCorrectionSecondsMax
    return boundedNowSec({ chainId, ownSec: ownSec(), aheadSec, correctionSecMax })
  }

  function signer(): OrderSigner {
    if (options.signer !== undefined) return options.signer
    throw new SibylError('MISSING_FIELD', 'createClient was given no signer', { field: 'signer' })
  }

  /** The chain that orders are for, with contracts that the client may sign for. */
  async function chain(call?: CallOptions): Promise<Config['chains'][number]> {
    const { chains } = await config(call)
    const found =
      pinnedChainId === undefined && chains.length === 1
        ? chains[0]
        : chains.find(({ chainId }) => chainId === pinnedChainId)
    if (found !== undefined) return trust(found)
    const ids = chains.map(({ chainId }) => chainId).join(', ')
    throw new SibylError('INVALID_FIELD', `give createClient a chainId that is one of ${ids}`, {
      field: 'chainId',
    })
  }

  async function domain(): Promise<OrderDomain> {
    if (options.domain !== undefined) return options.domain
    const { chainId, contracts } = await chain()
    return { chainId, verifyingContract: toAddress(contracts.settlement) }
  }

  async function sign(wanted: PlaceIntent): Promise<OrderSubmission> {
    const { permitSignature, postOnly, timeInForce, ...intent } = wanted
    const orderDomain = await domain()
    const draft = buildOrder({
      nowSec: await nowSec(orderDomain.chainId),
      ...intent,
    } as OrderIntent)
    const signed = await signOrder(draft, signer(), orderDomain)
    return {
      ...signed,
      ...(permitSignature === undefined ? {} : { permitSignature }),
      ...(postOnly === undefined ? {} : { postOnly }),
      ...(timeInForce === undefined ? {} : { timeInForce }),
    }
  }

  const seen = createSeenSeqs()

  /** A read that sees what this client has written to the market, whichever front answers. */
  async function readSeen<T>(
    asked: { marketId: string; path: string; query: Readonly<Record<string, string | undefined>> },
    call: CallOptions | undefined,
  ): Promise<T> {
    const { marketId, path } = asked
    const query = { ...asked.query, minSeq: seen.minSeqOf(marketId) }
    try {
      return await send<T>({ method: 'GET', path, query }, call)
    } catch (error) {
      // What no front reaches is of an exchange that has begun anew.
      if (error instanceof SibylError && error.code === 'SEQ_NOT_REACHED') seen.forget(marketId)
      throw error
    }
  }

  async function submit(body: OrderSubmission, call?: CallOptions): Promise<PlacedOrder> {
    const path = '/api/v1/orders'
    return seen.wrote(await send<PlacedOrder>({ method: 'POST', path, body }, call))
  }

  /** One request; what the exchange was too busy for is sent once more by the caller. */
  async function submitSome(
    orders: readonly OrderSubmission[],
    call: CallOptions | undefined,
  ): Promise<BatchResult[]> {
    const path = '/api/v1/orders/batch'
    try {
      const { results } = await send<BatchAnswer>({ method: 'POST', path, body: { orders } }, call)
      return orders.map((submission, at) => {
        const result = results[at]
        if (result === undefined) {
          const message = `${path}: ${results.length} results for ${orders.length} orders`
          return failure(submission, 'UNEXPECTED_ANSWER', message)
        }
        if (!('code' in result)) return { ok: true, placed: seen.wrote(result), submission }
        return failure(submission, result.code, result.error, result.field)
      })
    } catch (error) {
      // The whole request failed, so each of its orders did, for the same reason.
      if (!(error instanceof SibylError)) throw error
      return orders.map((submission) => ({
        ok: false,
        error: withSubmission(error, submission),
        submission,
      }))
    }
  }

  async function submitBatch(
    submissions: readonly OrderSubmission[],
    call?: CallOptions,
  ): Promise<BatchResult[]> {
    const results: BatchResult[] = []
    for (const some of requestsOf(submissions)) results.push(...(await submitSome(some, call)))
    // Single orders know how to wait and to be sent again.
    for (const [at, result] of results.entries()) {
      if (result.ok || !PASSING_CODES.has(result.error.code) || result.error.status !== undefined) {
        continue
      }
      results[at] = await submit(result.submission, call).then(
        (placed) => ({ ok: true, placed, submission: result.submission }),
        (error: unknown) => {
          if (!(error instanceof SibylError)) throw error
          return {
            ok: false,
            error: withSubmission(error, result.submission),
            submission: result.submission,
          }
        },
      )
    }
    return results
  }

  /** Most clients never touch the chain, so what that takes is loaded when it is needed. */
  function chainCalls(): Promise<ClientChain> {
    onChain ??= import('./chain.ts').then(({ createClientChain }) =>
      createClientChain({ chain, signer, rpcUrl: options.rpcUrl }),
    )
    return onChain
  }

  /** Page by page, to the last. */
  async function allOrders(
    path: string,
    query: Readonly<Record<string, string | number | undefined>>,
    call: CallOptions | undefined,
  ): Promise<OpenOrder[]> {
    const all: OpenOrder[] = []
    let cursor: string | undefined
    do {
      const page = await send<{ orders: OpenOrder[]; nextCursor: string | null }>(
        { method: 'GET', path, query: { ...query, cursor } },
        call,
      )
      all.push(...page.orders)
      cursor = page.nextCursor ?? undefined
    } while (cursor !== undefined)
    return all
  }

  const trader = async (address: string | undefined): Promise<string> =>
    address ?? signerAddress(signer())

  const reads = createReads({
    send,
    userOf: async ({ address, chainId }, call) => ({
      user: await trader(address),
      chainId: chainId ?? (await chain(call)).chainId,
    }),
  })

  const relayer = createRelayer({
    ...{ send, chain, signer },
    nowSec: (chainId, serverTime) => correctedSec(chainId, serverTime - ownSec()),
  })

  return {
    orders: {
      sign,
      submit,
      submitBatch,
      async place(intent, call) {
        const submission = await sign(intent)
        try {
          return await submit(submission, call)
        } catch (error) {
          throw error instanceof SibylError ? withSubmission(error, submission) : error
        }
      },
      async placeBatch(intents, call) {
        const submissions: OrderSubmission[] = []
        for (const intent of intents) submissions.push(await sign(intent))
        return submitBatch(submissions, call)
      },
      validate: (body, call) =>
        send({ method: 'POST', path: '/api/v1/orders/validate', body }, call),
      async cancel({ orderHash, marketId, side }, call) {
        const path = `/api/v1/orders/${encodeURIComponent(orderHash)}`
        const query = { marketId, side }
        return seen.wrote(await send<CancelledOrder>({ method: 'DELETE', path, query }, call))
      },
      async cancelAll({ market } = {}, call) {
        const path = '/api/v1/orders'
        const query = { market }
        return seen.wrote(await send<CancelledOrders>({ method: 'DELETE', path, query }, call))
      },
      async list(filter = {}, call) {
        const query = { trader: await trader(filter.trader), market: filter.market }
        const path = '/api/v1/orders'
        return allOrders(path, query, call)
      },
      async listOfUser({ address, chainId }, call) {
        const user = encodeURIComponent(await trader(address))
        const query = { chain_id: chainId ?? (await chain(call)).chainId }
        const path = `/api/v1/users/${user}/orders`
        return allOrders(path, query, call)
      },
    },
    relayer,
    prices: createPrices({
      ...{ send, url: options.url, headers: options.headers },
      fetch: options.fetch ?? ((input, init) => fetch(input, init)),
      backoffMs: options.backoffMs ?? BACKOFF_MS,
    }),
    quickMarkets: createQuickMarkets({ send }),
    resolution: createResolution({ send, relayer }),
    ...reads,
    market(marketId, call) {
      const path = `/api/v1/markets/${encodeURIComponent(marketId)}`
      return readSeen<Market>({ marketId, path, query: {} }, call)
    },
    async orderbook(marketId, outcome, call) {
      const path = `/api/v1/orderbook/${encodeURIComponent(marketId)}`
      const book = await readSeen<OrderbookJson>({ marketId, path, query: { outcome } }, call)
      return { ...book, bids: book.bids.map(exactLevel), asks: book.asks.map(exactLevel) }
    },
    async trades(marketId, call) {
      const path = `/api/v1/trades/${encodeURIComponent(marketId)}`
      const { trades } = await readSeen<{ trades: Trade[] }>({ marketId, path, query: {} }, call)
      return trades
    },
    async funds({ address, chainId } = {}, call) {
      const path = `/api/v1/users/${encodeURIComponent(await trader(address))}/funds`
      const query = { chain_id: chainId ?? (await chain(call)).chainId }
      return send<Funds>({ method: 'GET', path, query }, call)
    },
    config,
    async apiFit(call) {
      const { service } = await config({ ...call, fresh: true })
      return apiFit(service.apiVersion)
    },
    chain: {
      balances: async (of) => (await chainCalls()).balances(of),
      approvals: async (of) => (await chainCalls()).approvals(of),
      approve: async (value) => (await chainCalls()).approve(value),
      split: async (marketId, amount) => (await chainCalls()).split(marketId, amount),
      merge: async (marketId, amount) => (await chainCalls()).merge(marketId, amount),
      transfer: async (to, amount) => (await chainCalls()).transfer(to, amount),
    },
    stream(how) {
      const headers = options.streamHeaders ?? options.headers
      return createStream({ ...how, url: options.url, headers })
    },
  }
}

function ownSec(): number {
  return Math.floor(Date.now() / 1_000)
}

/** Said of one order in a batch, these may be different a moment later. */
const PASSING_CODES: ReadonlySet<string> = new Set(['OVERLOADED', 'OUTCOME_UNKNOWN'])

/** A size beyond 2^53 was read as text. */
type LevelJson = { readonly price: number; readonly size: number | string }
type OrderbookJson = Omit<Orderbook, 'bids' | 'asks'> & {
  readonly bids: readonly LevelJson[]
  readonly asks: readonly LevelJson[]
}

function exactLevel({ price, size }: LevelJson): { price: number; size: bigint } {
  return { price, size: BigInt(size) }
}

function failure(
  submission: OrderSubmission,
  code: string,
  message: string,
  field?: string,
): BatchResult {
  const outcomeUnknown = code === 'OUTCOME_UNKNOWN' || code === 'UNEXPECTED_ANSWER'
  const details = { field, attempts: 1, outcomeUnknown, submission }
  return { ok: false, error: new SibylError(code, message, details), submission }
}

function withSubmission(error: SibylError, submission: OrderSubmission): SibylError {
  const { field, status, requestId, attempts, outcomeUnknown, cause } = error
  const details = { field, status, requestId, attempts, outcomeUnknown, cause, submission }
  return new SibylError(error.code, error.message, details)
}
