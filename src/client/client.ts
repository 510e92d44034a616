/**
 * The SDK's client: signs orders, sends them to the exchange at a URL, and reads the exchange's data. The client stores
 * the exchange's configuration, and the last sequence number of each market it wrote to. It stores no key, because the
 * signer belongs to the caller. The file is long because it also contains the types of all calls.
 */

import { toAddress } from '#domain/ids.ts'
import type { OrderDomain } from '#domain/order-hash.ts'
import type { Market } from '#protocol/shapes/markets.ts'
import type {
  CancelledOrder,
  CancelledOrders,
  DeadmanAnswer,
  OpenOrder,
  PlacedOrder,
  StoredOrder,
} from '#protocol/shapes/orders.ts'
import type { Trade } from '#protocol/shapes/trades.ts'
import type { Funds } from '#protocol/shapes/users.ts'
import type { Config, ValidatedOrder } from './answers.ts'
import { type ApiFit, apiFit } from './api-fit.ts'
import { type ClientArchive, createArchive } from './archive.ts'
import { boundedNowSec } from './bounded-clock.ts'
import { buildOrder, type OrderIntent } from './build-order.ts'
import type { ClientChain } from './chain.ts'
import { type ClientDelegates, createDelegates, type UserOf } from './delegates.ts'
import { requestsOf } from './order-requests.ts'
import {
  type OrderOptions,
  type OrderSubmission,
  type PermitInput,
  splitOptions,
} from './order-submission.ts'
import { createOrderbook, type MarketRead, type ReadOrderbook, type ReadSeen } from './orderbook.ts'
import { pageNames } from './pages.ts'
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
import { SibylError, withSubmission } from './sibyl-error.ts'
import { delegatedAccount, type OrderSigner, signerAddress, signOrder } from './sign-order.ts'
import { createStream } from './stream.ts'
import type { SibylStream, StreamOptions } from './stream-types.ts'
import { type ClientTransparency, createTransparency } from './transparency.ts'
import { BACKOFF_MS, type CallOptions, createTransport, type HeaderLines } from './transport.ts'
import { type ContractPins, createTrust } from './trusted-chain.ts'

export type ClientOptions = {
  /** Address of the exchange: `http://127.0.0.1:8080`. */
  readonly url: string
  /** Signer of orders; not needed for reading. */
  readonly signer?: OrderSigner
  /** Id of the chain on which orders settle; needed if the exchange has several chains. */
  readonly chainId?: number
  /**
   * The contracts that the client signs for. Set them if you know them. Otherwise the client uses the contracts in the
   * exchange's first answer. If a later answer has other contracts, the client throws and signs nothing.
   */
  readonly pins?: ContractPins
  /** Chain and settlement contract of orders, for a client that signs orders without contacting the exchange. */
  readonly domain?: OrderDomain
  /**
   * Maximum seconds by which the client corrects this machine's clock to follow the exchange's clock; 300 by default.
   * Expiries and deadlines use the corrected clock.
   */
  readonly clockCorrectionSecondsMax?: number
  /**
   * Verifier keys of the public log (`name+id+key`). If omitted, the client trusts the keys in the exchange's first
   * answer.
   */
  readonly logKeys?: readonly string[]
  /**
   * RPC address that the functions of `chain` use. On a devnet the address can be omitted, because the exchange
   * publishes it.
   */
  readonly rpcUrl?: string
  /**
   * True to request receipts of orders and cancels, in REST answers and on the stream. `verifyReceipt` checks a
   * receipt.
   */
  readonly receipts?: boolean
  /** Headers of each attempt of a request, such as `Authorization` with a fresh token. */
  readonly headers?: () => HeaderLines | Promise<HeaderLines>
  /**
   * Headers of each new connection of the stream; by default, those of `headers`. If the headers contain a bearer
   * token, the stream sends the token in an `auth` request.
   */
  readonly streamHeaders?: () => HeaderLines | Promise<HeaderLines>
  /** Timeout of one attempt of a request. */
  readonly timeoutMs?: number
  /** Maximum number of retries. The client retries only if a retry is safe and can help. */
  readonly retries?: number
  /** Pause before the first retry, in milliseconds; the pause doubles with each retry. */
  readonly backoffMs?: number
  readonly fetch?: typeof fetch
}

/** Result of one order of a batch. */
export type BatchResult =
  | { readonly ok: true; readonly placed: PlacedOrder; readonly submission: OrderSubmission }
  | { readonly ok: false; readonly error: SibylError; readonly submission: OrderSubmission }

export type PlaceIntent = OrderIntent &
  OrderOptions & {
    /** A stablecoin permit that is sent with the order. */
    readonly permitSignature?: PermitInput
  }

export type Orders = {
  /** Builds and signs an order without sending it. Store the result, so that it can be sent again after a crash. */
  sign(intent: PlaceIntent): Promise<OrderSubmission>
  /** Builds, signs and submits an order. Errors carry the signed order as `error.submission`. */
  place(intent: PlaceIntent, options?: CallOptions): Promise<PlacedOrder>
  submit(submission: OrderSubmission, options?: CallOptions): Promise<PlacedOrder>
  placeBatch(intents: readonly PlaceIntent[], options?: CallOptions): Promise<BatchResult[]>
  /** Submits any number of orders, in as many requests as necessary; results are in the order of `submissions`. */
  submitBatch(
    submissions: readonly OrderSubmission[],
    options?: CallOptions,
  ): Promise<BatchResult[]>
  /** Checks whether the exchange would accept an order; places nothing. */
  validate(submission: OrderSubmission, options?: CallOptions): Promise<ValidatedOrder>
  /**
   * Cancels one order. If the answer to an attempt is lost, the client retries. The retry may throw `ORDER_CLOSED`
   * because an earlier attempt cancelled the order (see `error.attempts`).
   */
  cancel(
    order: {
      readonly orderHash: string
      readonly marketId: string
      readonly side?: 'buy' | 'sell'
      /**
       * Trader of the order. Needed if the token belongs to a delegate of the trader. If the client's signer is a
       * delegate, the default is the account for which it signs.
       */
      readonly trader?: string
    },
    options?: CallOptions,
  ): Promise<CancelledOrder>
  /**
   * Cancels all open orders of the token's address. `market` restricts the cancel to one market, and `group` restricts
   * it to one group. Needs a token.
   */
  cancelAll(
    where?: { readonly market?: string; readonly group?: string; readonly trader?: string },
    options?: CallOptions,
  ): Promise<CancelledOrders>
  /**
   * Sets the dead-man switch of the client's API key. Unless the client sets the switch again within `afterMs`, the
   * exchange cancels all orders of the key's address. With a delegate signer, the exchange instead cancels the orders
   * of the account for which the delegate signs. 0 turns the switch off.
   */
  deadman(afterMs: number, options?: CallOptions): Promise<DeadmanAnswer>
  /** Returns one order, open or ended, from the database, which lags behind the market by about a tenth of a second. */
  get(orderHash: string, options?: CallOptions): Promise<StoredOrder>
  /** Returns open orders of a trader, by default the signer's. */
  list(
    filter?: { readonly trader?: string; readonly market?: string },
    options?: CallOptions,
  ): Promise<OpenOrder[]>
  /** Returns open orders of a user in all markets of one chain. */
  listOfUser(
    user: { readonly address?: string; readonly chainId?: number },
    options?: CallOptions,
  ): Promise<OpenOrder[]>
}

export type Client = ClientReads & {
  readonly orders: Orders
  /** Operations on the chain that need only the trader's signature; the relayer sends them and pays the gas. */
  readonly relayer: Relayer
  /** Keys that sign orders of the signer's account, within limits. */
  readonly delegates: ClientDelegates
  /** Prices of assets, and their stream. */
  readonly prices: ClientPrices
  readonly quickMarkets: ClientQuickMarkets
  /** Resolution of markets: reads the status, proposes and settles outcomes, and waits for a stage. */
  readonly resolution: ClientResolution
  market(marketId: string, options?: CallOptions): Promise<Market>
  /**
   * Returns the book of one outcome, or the books of both outcomes merged by price. With `seq` or `at`, returns a past
   * book; this works only if the log of the exchange is public.
   */
  readonly orderbook: ReadOrderbook
  /** Files with the events of a market on a day, if the log of the exchange is public. */
  readonly archive: ClientArchive
  /** Proofs from the public log. This client verifies the proofs itself. */
  readonly transparency: ClientTransparency
  /** Returns up to 100 trades, newest first. */
  trades(marketId: string, options?: CallOptions): Promise<Trade[]>
  /** Returns a trader's total and reserved funds; available only if the exchange reserves funds. */
  funds(
    user?: { readonly address?: string; readonly chainId?: number },
    options?: CallOptions,
  ): Promise<Funds>
  /**
   * Returns the configuration of the exchange. The client requests it once and caches it; `config({ fresh: true })`
   * requests it again.
   */
  config(options?: CallOptions & { readonly fresh?: boolean }): Promise<Config>
  /** Checks whether the exchange's API version fits this client; always requests the version again. */
  apiFit(options?: CallOptions): Promise<ApiFit>
  /** Sends transactions of a trader who has ether to pay for them. */
  readonly chain: ClientChain
  /** Opens the live stream; it reconnects by itself until it is closed. */
  stream(options?: Omit<StreamOptions, 'url' | 'headers' | 'receipts'>): SibylStream
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
    receipts: options.receipts,
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
      // If the request fails, its caller receives the error. Forget the request here, so that the next call sends a new
      // one.
      asked.catch(() => {
        if (known === asked) known = undefined
      })
    }
    return known
  }

  /**
   * Returns this machine's time, from which an order's expiration is counted. If the client has read the exchange's
   * configuration, corrects the time by the exchange's clock.
   */
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
    throw new SibylError('MISSING_FIELD', 'this call needs a signer: give createClient a signer', {
      field: 'signer',
    })
  }

  /**
   * Returns the chain on which this client's orders settle. Throws if the chain's contracts are not those that the
   * client may sign for.
   */
  async function chain(call?: CallOptions): Promise<Config['chains'][number]> {
    const { chains } = await config(call)
    const found =
      pinnedChainId === undefined && chains.length === 1
        ? chains[0]
        : chains.find(({ chainId }) => chainId === pinnedChainId)
    if (found !== undefined) return trust(found)
    const ids = chains.map(({ chainId }) => chainId).join(', ')
    throw new SibylError(
      'INVALID_FIELD',
      `createClient needs a chainId from the chains of this exchange: ${ids}`,
      {
        field: 'chainId',
      },
    )
  }

  async function domain(): Promise<OrderDomain> {
    if (options.domain !== undefined) return options.domain
    const { chainId, contracts } = await chain()
    return { chainId, verifyingContract: toAddress(contracts.settlement) }
  }

  async function sign(wanted: PlaceIntent): Promise<OrderSubmission> {
    const { options: placing, intent } = splitOptions(wanted)
    const orderDomain = await domain()
    const draft = buildOrder({
      nowSec: await nowSec(orderDomain.chainId),
      ...intent,
    } as OrderIntent)
    const signed = await signOrder(draft, signer(), orderDomain)
    return { ...signed, ...placing }
  }

  const seen = createSeenSeqs()

  /**
   * Reads a market's data. The request contains a sequence number, so the answer of any front includes this client's
   * own writes to the market.
   */
  const readSeen: ReadSeen = async <T>(
    asked: MarketRead,
    call: CallOptions | undefined,
  ): Promise<T> => {
    const { marketId, path } = asked
    const query = { ...asked.query, minSeq: seen.minSeqOf(marketId) }
    try {
      return await send<T>({ method: 'GET', path, query }, call)
    } catch (error) {
      // If the exchange was reset, no front ever reaches the remembered sequence number, so forget the number.
      if (error instanceof SibylError && error.code === 'SEQ_NOT_REACHED') seen.forget(marketId)
      throw error
    }
  }

  async function submit(body: OrderSubmission, call?: CallOptions): Promise<PlacedOrder> {
    const path = '/api/v1/orders'
    return seen.wrote(await send<PlacedOrder>({ method: 'POST', path, body }, call))
  }

  /**
   * Sends one batch request and returns one result per order. If the exchange was too busy for an order, the caller
   * sends that order again.
   */
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
          const message = `the answer of POST ${path} has ${results.length} results for ${orders.length} orders`
          return failure(submission, 'UNEXPECTED_ANSWER', message)
        }
        if (!('code' in result)) return { ok: true, placed: seen.wrote(result), submission }
        return failure(submission, result.code, result.error, result.field)
      })
    } catch (error) {
      // The whole request failed, so each of its orders failed for the same reason.
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
    // If an order in a batch got a transient rejection, submit the order again in a separate request. `submit` pauses
    // and retries that request by itself.
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

  /** Loads the functions for the chain on first use, because most clients never use the chain. */
  function chainCalls(): Promise<ClientChain> {
    onChain ??= import('./chain.ts').then(({ createClientChain }) =>
      createClientChain({ chain, signer, rpcUrl: options.rpcUrl }),
    )
    return onChain
  }

  async function allOrders(
    path: string,
    query: Readonly<Record<string, string | number | undefined>>,
    call: CallOptions | undefined,
  ): Promise<OpenOrder[]> {
    const all: OpenOrder[] = []
    let cursor: string | undefined
    const named = pageNames()
    do {
      const page = await send<{ orders: OpenOrder[]; nextCursor: string | null }>(
        { method: 'GET', path, query: { ...query, cursor } },
        call,
      )
      all.push(...page.orders)
      cursor = named(page.nextCursor)
    } while (cursor !== undefined)
    return all
  }

  /**
   * Account for which the signer signs as a delegate; requests name this account as their trader. Undefined if the
   * signer is not a delegate.
   */
  const acting = delegatedAccount(options.signer)
  const deadmanOf = (afterMs: number) =>
    acting === undefined ? { afterMs } : { afterMs, trader: acting }

  const trader = async (address: string | undefined): Promise<string> =>
    address ?? signerAddress(signer())

  const userOf: UserOf = async (of, call) => ({
    user: await trader(of.address),
    chainId: of.chainId ?? (await chain(call)).chainId,
  })
  const reads = createReads({ send, userOf })

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
      async cancel({ orderHash, marketId, side, trader: account = acting }, call) {
        const asked = { path: orderPath(orderHash), query: { marketId, side, trader: account } }
        return seen.wrote(await send<CancelledOrder>({ method: 'DELETE', ...asked }, call))
      },
      async cancelAll({ market, group, trader: account = acting } = {}, call) {
        const asked = { path: '/api/v1/orders', query: { market, group, trader: account } }
        return seen.wrote(await send<CancelledOrders>({ method: 'DELETE', ...asked }, call))
      },
      deadman: (afterMs, call) =>
        send({ method: 'POST', path: '/api/v1/orders/deadman', body: deadmanOf(afterMs) }, call),
      get: (orderHash, call) => send({ method: 'GET', path: orderPath(orderHash) }, call),
      async list(filter = {}, call) {
        const query = { trader: await trader(filter.trader), market: filter.market }
        return allOrders('/api/v1/orders', query, call)
      },
      async listOfUser({ address, chainId }, call) {
        const user = encodeURIComponent(await trader(address))
        const query = { chain_id: chainId ?? (await chain(call)).chainId }
        return allOrders(`/api/v1/users/${user}/orders`, query, call)
      },
    },
    relayer,
    delegates: createDelegates({ send, relayer, userOf }),
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
    orderbook: createOrderbook(send, readSeen),
    archive: createArchive(send),
    transparency: createTransparency(send, options.logKeys),
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
      const { receipts = false, url } = options
      return createStream({ ...how, url, headers, receipts, trader: acting })
    },
  }
}

const orderPath = (hash: string): string => `/api/v1/orders/${encodeURIComponent(hash)}`

function ownSec(): number {
  return Math.floor(Date.now() / 1_000)
}

/** Codes of transient rejections of an order in a batch: a retry may succeed. */
const PASSING_CODES: ReadonlySet<string> = new Set(['OVERLOADED', 'OUTCOME_UNKNOWN'])

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
